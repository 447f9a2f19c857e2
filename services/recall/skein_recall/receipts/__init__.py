"""Signed receipts of answers, by which an answer can be verified and replayed."""
