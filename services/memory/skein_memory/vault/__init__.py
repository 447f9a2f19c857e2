"""The vault: secrets encrypted under a key of each tenant, and the rotation of keys."""
