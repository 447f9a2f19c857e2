"""What the original clients of port 5596 need beside its dialects: decay, personal data and health."""
