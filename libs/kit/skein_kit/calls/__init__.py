"""The call in hand, and the database revision that its reads must have."""
