"""The memory service: memories, their tags and links, and the features around them."""
