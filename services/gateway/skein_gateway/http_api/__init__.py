"""The HTTP server: Connect RPCs, CORS, the health path, and draining."""
