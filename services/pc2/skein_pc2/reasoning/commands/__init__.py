"""The dialect of port 5596 whose messages name a command in upper case."""
