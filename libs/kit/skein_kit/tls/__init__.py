"""TLS of ports, mutual TLS between services, and when certificates end."""
