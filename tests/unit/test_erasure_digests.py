"""Sorted digests of an erasure, merged page by page."""

from __future__ import annotations

import random

from fix_catalogue import over

from skein_auth.erasure_certificates.model import SortedDigests


@over(("earlier", "page"), [(0, 0), (0, 5), (5, 0), (1, 1), (40, 3), (3, 40), (300, 300)])
def test_merged_digests_are_those_of_both_once_and_in_order(earlier: int, page: int) -> None:
    source = random.Random(earlier * 1000 + page)
    for _ in range(20):
        first = [source.randbytes(32) for _ in range(earlier)]
        # Some are in both, and the smallest and the largest possible ones are among them at times.
        second = [source.choice([*first, bytes(32), b"\xff" * 32, source.randbytes(32)]) for _ in range(page)]

        merged = SortedDigests.of(first) | SortedDigests.of(second)

        assert list(merged) == sorted({*first, *second})
        assert len(merged) == len({*first, *second})
        assert merged | SortedDigests.of(second) == merged
