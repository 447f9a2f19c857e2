"""The OpenAPI document of the HTTP API with its examples, and the handler that serves it."""
