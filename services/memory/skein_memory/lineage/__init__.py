"""What memories were made of, and the trust that follows from it."""
