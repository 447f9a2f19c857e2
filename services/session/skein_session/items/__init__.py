"""Items: short-lived values of a session."""
