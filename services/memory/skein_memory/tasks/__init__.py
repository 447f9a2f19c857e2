"""Tasks and objectives: their status, and which task comes next."""
