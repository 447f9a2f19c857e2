"""How well recall finds what was remembered: questions whose evidence is known, asked of a running cluster."""
