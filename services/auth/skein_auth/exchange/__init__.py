"""Exchange of a credential for a signed identity, and introspection of credentials."""
