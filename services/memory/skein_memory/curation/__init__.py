"""Curation: reinforce, decay, merge, and consolidate memories."""
