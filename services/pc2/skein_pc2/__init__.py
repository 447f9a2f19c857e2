"""The ZeroMQ edge for voice assistants on the PC2 ports."""
