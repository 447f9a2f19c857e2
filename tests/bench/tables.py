"""The tables of recall by vectors, in Markdown: what was measured, and on what. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NOTHING = "–"
_PATHS = "paths (calls, p50 / p95 ms)"


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Return everything that a document of figures holds, for a person."""
    shared = (
        f"The cluster (one process), its Postgres and the load client share {document['cores']} cores. Calls go "
        "through the gateway with each tenant's own key and ask memories alone; commits are durable. CPU is what one "
        "call costs the cluster, Postgres included."
    )
    if document.get("rows"):
        yield ""
        yield (
            f"{document['entries']:,} entries × {document['dimensions']} dimensions, {document['tenants']} tenants of "
            f"Zipf's sizes (the largest {document['largest_tenant']:,}). {shared}"
        )
        yield from _rows(document["rows"])
    if "writes" in document:
        yield from _writes(document["writes"])
    if document.get("growth"):
        yield ""
        yield f"{document['tenants']} tenants, {document['dimensions']} dimensions. {shared}"
        yield from _growth(document["growth"])


def _rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield ""
    together = "ops/s, 8 in flight (slowest to fastest second)"
    yield from _head("", "p50 / p95 ms", "CPU ms", together, "rows of 10", "short", "recall@10", "worst", _PATHS)
    for row in rows:
        paths = ", ".join(
            f"{name} ({part['calls']}, {part['p50_ms']:.1f} / {part['p95_ms']:.1f})"
            for name, part in row["paths"].items()
        )
        possible = row["possible_rows"]
        of = "" if possible is None or possible == row["rows"] else f" ({possible:.1f} exist)"
        cells = (
            row["title"],
            f"{row['p50_ms']:.1f} / {row['p95_ms']:.1f}",
            f"{row['server_cpu_ms']:.1f}",
            f"{row['per_second']:,.0f}{_spread(row['by_second'])}",
            f"{row['rows']:.1f}{of}",
            _or_nothing(row["short_answers"], "{}"),
            _or_nothing(row["recall"], "{:.4f}"),
            _or_nothing(row["worst_recall"], "{:.1f}"),
            paths or _NOTHING,
        )
        yield f"| {' | '.join(cells)} |"


def _spread(by_second: Sequence[int]) -> str:
    return f" ({min(by_second):,} to {max(by_second):,})" if by_second else ""


def _writes(writes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield ""
    given = (
        "given" if writes[0]["vectors_given"] else "made by the cluster, because a memory cannot be given its own yet"
    )
    yield f"Saving over all tenants, vectors {given}:"
    yield ""
    yield from _head("", "in flight", "memories/s", "p50 / p95 ms of a call", "× SQL")
    for row in writes:
        times = row.get("times_sql")
        yield (
            f"| {row['title']} | {row['in_flight']} | {row['memories_per_second']:,.0f} | {row['p50_ms']:.1f} / "
            f"{row['p95_ms']:.1f} | {_or_nothing(times, '{:.2f}')} |"
        )


def _growth(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield ""
    titles = [f"{row['title']}: p50 / p95 ms (× first)" for row in cases[0]["rows"]]
    yield from _head("entries", "own", *titles, "bytes/entry", "of these")
    for case in cases:
        speeds = [
            f"{row['p50_ms']:.1f} / {row['p95_ms']:.1f} (× {row['p50_ms'] / first['p50_ms']:.2f})"
            for row, first in zip(case["rows"], cases[0]["rows"], strict=True)
        ]
        by_table = ", ".join(f"{name} {size:,}" for name, size in case["bytes_per_entry_by_table"].items())
        cells = (f"{case['entries']:,}", f"{case['own']:,}", *speeds, f"{case['bytes_per_entry']:,}", by_table)
        yield f"| {' | '.join(cells)} |"


def _head(*names: str) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"


def _or_nothing(value: float | None, form: str) -> str:
    return _NOTHING if value is None else form.format(value)
