"""What a purge of a person must follow: the memories that were made of what it removes."""
