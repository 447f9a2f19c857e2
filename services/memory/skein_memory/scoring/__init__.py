"""Scores: formulas for the confidence and importance of a memory, and the facts that they use."""
