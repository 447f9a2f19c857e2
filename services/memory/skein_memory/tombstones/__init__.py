"""Salted digests of purged items, by which imports and restores recognise them."""
