"""Agent states: what an agent keeps between turns of a session."""
