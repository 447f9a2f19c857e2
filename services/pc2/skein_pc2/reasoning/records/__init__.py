"""What the dialects of port 5596 share: memories as records, their strength, and responses."""
