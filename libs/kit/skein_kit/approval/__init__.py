"""The approval of what untrusted sources write to the memory."""
