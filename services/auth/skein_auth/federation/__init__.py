"""Identity providers (GitHub, OpenID Connect): login with their tokens, and the identities linked to an account."""
