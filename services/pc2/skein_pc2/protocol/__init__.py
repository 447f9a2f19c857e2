"""What all dialects share: frames, fields, actions, health, errors, concurrency."""
