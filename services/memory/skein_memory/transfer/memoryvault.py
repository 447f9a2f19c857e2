"""Exports of MemoryVault (memoryvault_export_v1) as items of ours: which of its columns is which of our fields. Pure.

A document has lists: memories, links, source_trust, aliases and conflict_resolutions, under these names or those of its
tables. Its ids become external ids, as they are not made from times; its times are Unix seconds; its tags are one text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from skein_kit.json_values import exact
from skein_memory.errors import ImportFormatUnknown
from skein_memory.transfer.model import LINE_INVALID, ImportLine, ImportProblem, parse_item

FORMAT = "memoryvault_export_v1"
_NAMES = ("format", "schema", "schema_version", "export_version", "version")


def parse_document(text: str) -> Iterator[ImportLine | ImportProblem]:
    """Read a document, or one with a part of its lists. Raises ImportFormatUnknown."""
    try:
        document = exact.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ImportFormatUnknown(format="")
    format_name = next((document[name] for name in _NAMES if isinstance(document.get(name), str)), FORMAT)
    # Some releases wrap their lists once more.
    data = document.get("data")
    lists = data if isinstance(data, dict) else document
    known_lists = [(kind, rows) for kind, names, _ in _LISTS for name in names if (rows := lists.get(name)) is not None]
    if format_name != FORMAT or not known_lists or not all(isinstance(rows, list) for _, rows in known_lists):
        raise ImportFormatUnknown(format=str(format_name))
    readers = {kind: reader for kind, _, reader in _LISTS}
    line_number = 0
    for kind, rows in known_lists:
        for row in rows:
            line_number += 1
            try:
                fields = readers[kind](row)
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError, OSError):
                yield ImportProblem(line_number=line_number, kind=kind, reason=LINE_INVALID)
                continue
            yield parse_item(line_number, {kind: {name: value for name, value in fields.items() if value is not None}})


def _memory(row: Mapping[str, Any]) -> dict[str, Any]:
    tags = row.get("tags") or []
    if isinstance(tags, str):
        tags = tags.split(",")
    return {
        "memory_id": row["id"],
        "type": row.get("type") or "note",
        "title": row.get("title"),
        "key": row.get("key"),
        "content": row["content"],
        "tags": list(dict.fromkeys(tag.strip() for tag in tags if tag.strip())),
        "source": row.get("source"),
        "confidence": row.get("confidence"),
        "importance": row.get("importance"),
        "archive_time": _time(row.get("archived_at")),
        "create_time": _time(row.get("created_at")),
        "update_time": _time(row.get("updated_at")),
        "derived_from": [{"kind": "SOURCE_KIND_IMPORT", "name": "MemoryVault"}],
    }


def _link(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "from_memory_id": row["from_id"],
        "to_memory_id": row["to_id"],
        "relation": row.get("relation_type") or "related",
        "label": row.get("label"),
        "create_time": _time(row.get("created_at")),
    }


def _trust(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "source_key": row["source_key"],
        "trust": row.get("trust", 0.5),
        "notes": row.get("notes"),
        "update_time": _time(row.get("updated_at")),
    }


def _alias(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "alias_memory_id": row["alias_memory_id"],
        "canonical_memory_id": row["canonical_memory_id"],
        "confidence": row.get("confidence", 0.9),
        "note": row.get("note"),
        "update_time": _time(row.get("updated_at")),
    }


def _conflict(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "a_memory_id": row["a_id"],
        "b_memory_id": row["b_id"],
        "status": f"CONFLICT_STATUS_{row['status'].upper()}",
        "canonical_memory_id": row.get("canonical_id"),
        "note": row.get("note"),
        "update_time": _time(row.get("updated_at")),
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(float(seconds), UTC).isoformat().replace("+00:00", "Z")


_LISTS: tuple[tuple[str, tuple[str, ...], Callable[[Mapping[str, Any]], dict[str, Any]]], ...] = (
    ("memory", ("memories",), _memory),
    ("link", ("links", "memory_links"), _link),
    ("source_trust", ("source_trust", "source_trusts", "brain_source_trust"), _trust),
    ("alias", ("aliases", "entity_aliases", "memory_entity_aliases"), _alias),
    ("conflict", ("conflict_resolutions", "memory_conflict_resolutions"), _conflict),
)
