"""Recall: parallel calls to every branch, deadlines for each, and the merge of their results."""
