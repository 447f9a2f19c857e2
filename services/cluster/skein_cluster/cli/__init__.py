"""What all commands share: options, printed output, exit codes, and error messages."""
