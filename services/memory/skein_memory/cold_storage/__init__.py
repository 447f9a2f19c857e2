"""Cold storage: memories are archived to files and unarchived from them."""
