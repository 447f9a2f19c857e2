"""The audit log of credentials: which events there are, how they are recorded, and how they are listed."""
