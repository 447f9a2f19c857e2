"""GetClusterStatus: the health of every service."""
