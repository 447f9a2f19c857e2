"""The demo: a sample conversation imported, recalled, and traced."""
