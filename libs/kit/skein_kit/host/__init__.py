"""A process: its start and end, readiness, admin port and open files."""
