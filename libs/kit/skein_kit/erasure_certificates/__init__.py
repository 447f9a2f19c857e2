"""Certificates of erasures: their file, its signature, and the Merkle tree of its tombstones."""
