"""The dialect of port 5596 whose messages name an action."""
