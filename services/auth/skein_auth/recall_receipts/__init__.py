"""Signatures of receipts of recalls, which the recall service stores."""
