"""A cluster on this machine, in one process or one process per service."""
