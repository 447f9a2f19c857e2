"""The skein command; the only package that knows every service."""
