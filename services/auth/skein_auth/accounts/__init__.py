"""People's accounts: creation, passwords, one-time tokens, known devices, what an account does itself."""
