"""Sessions and their messages: the hottest write path."""
