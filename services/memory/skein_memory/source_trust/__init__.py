"""Trust in the sources that memories come from."""
