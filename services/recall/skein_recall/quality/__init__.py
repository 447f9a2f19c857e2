"""Quality of recall: sampled searches, recent queries, and the comparison of two models."""
