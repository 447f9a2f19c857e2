"""Who is calling: keys, credentials and the signed internal identity."""
