"""Memories, their tags and links, and the rules of what is remembered."""
