"""Sorted digests in one piece of memory: those of an erasure of half a million items are merged, not built anew."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

_BYTES = 32


@dataclass(frozen=True, slots=True)
class SortedDigests:
    """Distinct digests of 32 bytes in ascending order, one after the other."""

    joined: bytes = b""

    @classmethod
    def of(cls, digests: Iterable[bytes]) -> Self:
        """Sort digests; repeated ones count once."""
        return cls(b"".join(sorted(set(digests))))

    def __len__(self) -> int:
        return len(self.joined) // _BYTES

    def __iter__(self) -> Iterator[bytes]:
        return (self.joined[start : start + _BYTES] for start in range(0, len(self.joined), _BYTES))

    def __or__(self, other: Self) -> Self:
        """Return the digests of both. It costs a binary search for each digest of the smaller side."""
        large, small = (self, other) if len(self) >= len(other) else (other, self)
        joined = memoryview(large.joined)
        places = range(len(large))
        parts: list[bytes | memoryview] = []
        merged = 0
        for digest in small:
            place = bisect_left(
                places, digest, lo=merged, key=lambda at: bytes(joined[at * _BYTES : (at + 1) * _BYTES])
            )
            start = place * _BYTES
            if joined[start : start + _BYTES] == digest:
                continue
            parts += (joined[merged * _BYTES : start], digest)
            merged = place
        parts.append(joined[merged * _BYTES :])
        return type(self)(b"".join(parts))
