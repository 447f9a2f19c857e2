"""Forget: the purge of one person from every service, with a receipt."""
