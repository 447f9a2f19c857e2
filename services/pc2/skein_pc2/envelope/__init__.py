"""Ports 5570 and 5576: what their dialect needs beside its actions."""
