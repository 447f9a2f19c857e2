"""Conversations and memories in files: reading, importing, exporting. `sample/README.md` describes the format."""
