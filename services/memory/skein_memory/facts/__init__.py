"""Facts that extractors found in messages: ended, or purged, with their messages."""
