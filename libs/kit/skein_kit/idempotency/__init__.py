"""Requests that carry a request id: the first answer is stored, and repeats return it."""
