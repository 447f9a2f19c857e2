"""Quality of recall: samples of live traffic, and the comparison of two models."""
