"""Files of cold storage."""
