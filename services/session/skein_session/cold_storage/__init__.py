"""Cold storage: messages of hidden sessions move to files and back."""
