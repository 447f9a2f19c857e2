"""A memory's content hash does not depend on the form in which Postgres writes its data."""

from __future__ import annotations

import json

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from skein_memory.memories.model import content_hash

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
NUMERALS = (
    "0", "-0", "0.0", "-0.00", "0e5", "0e-5", "0.0e2", "3", "3.0", "3.00", "30", "1e2", "1E+2", "1.50e1", "150e-1",
    "9007199254740993", "123456789012345678901234567890", "-1.5e-7", "1e300", "12e-300", "100", "-100.10",
)  # fmt: skip


def drawn(count: int) -> list[str]:
    """Return JSON texts; they are held against the database afterwards, all at once."""
    results: list[str] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(JSON)
    def draw(value: object) -> None:
        results.append(json.dumps({"v": value}))

    draw()
    return results


@pytest.mark.system
async def test_data_has_the_same_hash_before_and_after_postgres_wrote_it(
    catalog: asyncpg.Connection[asyncpg.Record],
) -> None:
    texts = [*drawn(500), *(f'{{"v":[{numeral}]}}' for numeral in NUMERALS)]

    rows = await catalog.fetch("SELECT said, said::jsonb::text AS kept FROM unnest($1::text[]) AS said", texts)

    assert len(rows) == len(texts)
    for row in rows:
        assert content_hash("note", "c", row["said"]) == content_hash("note", "c", row["kept"]), row["said"]


def test_numbers_have_the_same_hash_where_postgres_writes_them_alike_and_nowhere_else() -> None:
    def of(numeral: str) -> bytes:
        return content_hash("note", "c", f'{{"v":{numeral}}}')

    groups: list[tuple[str, ...]] = [
        ("0", "-0", "0e5"), ("0.0", "-0.0"), ("3",), ("3.0",), ("3.00",), ("100", "1e2", "1E+2"), ("100.0",),
        ("15.0", "1.50e1"), ("9007199254740993",), ("9007199254740992",), ("-3",), ('"3"',), ("[3]",),
    ]  # fmt: skip

    hashes = [{of(numeral) for numeral in group} for group in groups]

    assert [len(group) for group in hashes] == [1] * len(groups)
    assert len(set().union(*hashes)) == len(groups)
