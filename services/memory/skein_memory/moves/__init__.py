"""Moving memories and blocks from one space of a tenant to another."""
