"""TLS of ports, mutual TLS between services, and the expiry of certificates."""
