"""Shared parts of all commands: options, printed output, exit codes, and error messages."""
