"""What every Skein service shares: how to be a service."""
