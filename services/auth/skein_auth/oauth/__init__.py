"""The OAuth 2.1 authorization server: authorization requests, the device grant, and the token, revocation and introspection endpoints."""
