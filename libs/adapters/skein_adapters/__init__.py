"""Conversations and memory of agents' frameworks on Skein: a module for each framework, which it imports itself."""
