"""OAuth: authorization, the device grant, and the token, revocation and introspection endpoints."""
