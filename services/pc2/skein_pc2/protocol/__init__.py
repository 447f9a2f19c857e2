"""What all dialects share: frames, fields, actions, health, errors, and requests in order."""
