"""Conversations and memories in files: reading, importing and exporting them. `sample/README.md` describes the format."""
