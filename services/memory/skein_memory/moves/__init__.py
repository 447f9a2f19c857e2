"""Moving memories from one space of a tenant to another."""
