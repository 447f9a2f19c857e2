"""The unary Connect protocol: JSON requests and errors, strict JSON parsing, enum names and field masks."""
