"""What the environment says to a process: which settings there are, who reads them, and what is wrong with them."""
