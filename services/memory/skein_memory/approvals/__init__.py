"""Memories that wait for approval, and decisions on them."""
