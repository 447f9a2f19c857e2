"""Every database call of the session service, one method per step of an RPC."""
