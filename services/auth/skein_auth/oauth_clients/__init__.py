"""OAuth clients: registration (RFC 7591, RFC 7592), metadata documents, redirect URIs and client authentication."""
