"""Recall: parallel calls to every arm, deadlines for each, and the merge of their results."""
