"""Blocks of core memory that agents carry in every prompt."""
