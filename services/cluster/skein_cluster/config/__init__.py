"""Settings in the environment: the catalog of all, their readers, and checks."""
