"""Lists of memories: filters, orders, reads as of a time, and earlier versions."""
