"""Login with an e-mail address and a password."""
