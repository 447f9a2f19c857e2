"""Merkle trees of tombstones: roots and proofs of inclusion as RFC 6962 defines them, section 2.1."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

# Leaves and inner nodes are hashed with different first bytes, so that no node can be shown as a leaf.
_LEAF = b"\x00"
_NODE = b"\x01"


def root(leaves: Sequence[bytes]) -> bytes:
    """Return the SHA-256 root over leaves in their order; that of no leaf is the SHA-256 of nothing."""
    if not leaves:
        return hashlib.sha256().digest()
    return _subtree([_leaf(leaf) for leaf in leaves])


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the siblings of a leaf from the bottom to the top. Raises IndexError for an index outside the leaves."""
    if not 0 <= index < len(leaves):
        raise IndexError(index)
    return _path([_leaf(leaf) for leaf in leaves], index)


def proves_inclusion(leaf: bytes, index: int, count: int, proof: Sequence[bytes], expected_root: bytes) -> bool:
    """Return whether a proof leads from a leaf at an index of `count` leaves to the root (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < count:
        return False
    position, last, digest = index, count - 1, _leaf(leaf)
    for sibling in proof:
        if last == 0:
            return False
        if position % 2 or position == last:
            digest = _node(sibling, digest)
            while position % 2 == 0 and position:
                position, last = position // 2, last // 2
        else:
            digest = _node(digest, sibling)
        position, last = position // 2, last // 2
    return last == 0 and digest == expected_root


def _leaf(data: bytes) -> bytes:
    return hashlib.sha256(_LEAF + data).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()


def _split(count: int) -> int:
    """Return the largest power of two below a count of at least two."""
    return 1 << (count - 1).bit_length() - 1


def _subtree(hashes: Sequence[bytes]) -> bytes:
    """Return the root over hashes of leaves, level by level: a node without a sibling goes up unchanged."""
    level = list(hashes)
    while len(level) > 1:
        is_odd = len(level) % 2
        pairs = zip(level[::2], level[1::2], strict=not is_odd)
        level = [_node(left, right) for left, right in pairs] + level[len(level) - is_odd :]
    return level[0]


def _path(hashes: Sequence[bytes], index: int) -> list[bytes]:
    if len(hashes) == 1:
        return []
    middle = _split(len(hashes))
    if index < middle:
        return [*_path(hashes[:middle], index), _subtree(hashes[middle:])]
    return [*_path(hashes[middle:], index - middle), _subtree(hashes[:middle])]
