"""The OpenAPI document of the HTTP API, its examples, and the handler that serves it."""
