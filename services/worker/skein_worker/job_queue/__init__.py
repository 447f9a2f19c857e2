"""The job queue: pgqueuer on its own connection, and queries of its tables."""
