"""Sockets and what travels over them."""
