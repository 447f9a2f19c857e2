"""Aliases: memories that are other names for a canonical memory."""
