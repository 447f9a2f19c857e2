"""Dates that a text names, in several languages: of questions, and of what people say."""
