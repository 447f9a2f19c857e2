"""The trail of audit events with its checkpoints: how it is read, saved and verified."""
