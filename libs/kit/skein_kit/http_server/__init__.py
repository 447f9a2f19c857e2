"""Sockets of the HTTP ports: limits of connections, and requests that two servers could read in two ways."""
