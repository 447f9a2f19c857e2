"""Compares a source with a tenant: missing records, different records, and their fields. Writes nothing."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from skein_client.client import Client
from skein_client.errors import InvalidArgument, NotFound
from skein_importers.importer import read_chunks
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.report import Report
from skein_importers.sources.base import CountWithSamples
from skein_importers.writers import WRITERS
from skein_importers.writers.base import Writer, WriterContext, is_expired
from skein_kit.json_values import exact
from skein_kit.json_values import fields as json_fields
from skein_kit.rpc.well_known_types import json_text

_BATCH = 100
# Postgres keeps microseconds.
_NANOS = 1_000
_EXACT = 1e-6
# Fields that each cluster sets itself.
_OF_THE_CLUSTER = frozenset({"created_by", "updated_by", "writers", "record_time", "revision"})


@dataclass(slots=True)
class Comparison:
    """The result of a comparison by kind: ids and field names, never content."""

    in_source: Counter[str] = field(default_factory=Counter)
    in_skein: Counter[str] = field(default_factory=Counter)
    missing: dict[str, CountWithSamples] = field(default_factory=dict)
    # By kind and the fields that differ.
    different: dict[tuple[str, str], CountWithSamples] = field(default_factory=dict)
    # Records that no RPC reads back, by kind.
    unchecked: Counter[str] = field(default_factory=Counter)
    # Records that an import would refuse.
    unreadable: int = 0
    # Realms without a tenant: all their records are missing.
    without_tenant: list[str] = field(default_factory=list)

    @property
    def differences(self) -> int:
        """Return how many records are missing or different."""
        tallies = [*self.missing.values(), *self.different.values()]
        return sum(tally.count for tally in tallies)

    @property
    def share(self) -> float:
        """Return the share of the source's records that differ, 0 to 1."""
        return self.differences / max(1, sum(self.in_source.values()))

    def add_missing(self, record: Record) -> None:
        """Count a record that is missing."""
        self.missing.setdefault(record.kind, CountWithSamples()).add(record.name)

    def add_different(self, record: Record, fields: Sequence[str]) -> None:
        """Count a record that differs."""
        self.different.setdefault((record.kind, ", ".join(fields)), CountWithSamples()).add(record.name)


async def compare(
    api: Client,
    records: Iterable[Record | UnreadableRecord],
    comparison: Comparison,
    on_done: Callable[[int], None],
) -> None:
    """Compare all records with the tenant of `api`."""
    context = WriterContext(api, Report())
    writers: dict[Kind, Writer] = {}

    async def compare_batch(kind: Kind, batch: Sequence[Record]) -> None:
        writer = writers.setdefault(kind, WRITERS[kind](context))
        if not writer.is_comparable:
            comparison.unchecked[kind] += len(batch)
            return
        stored = await _find(writer, batch)
        for record in batch:
            _compare_record(writer, record, stored.get(record.name), comparison)

    async for chunk in read_chunks(records):
        by_kind: dict[Kind, list[Record]] = {}
        for record in chunk:
            if isinstance(record, UnreadableRecord):
                comparison.unreadable += 1
            else:
                by_kind.setdefault(record.kind, []).append(record)
        await asyncio.gather(
            *(
                compare_batch(kind, records_of_kind[first : first + _BATCH])
                for kind, records_of_kind in by_kind.items()
                for first in range(0, len(records_of_kind), _BATCH)
            )
        )
        on_done(len(chunk))


async def _find(writer: Writer, batch: Sequence[Record]) -> Mapping[str, Message]:
    """Return the stored messages of a batch by name; records with invalid ids have none."""
    try:
        return await writer.find(batch)
    except NotFound:
        return {}
    except InvalidArgument:
        if len(batch) == 1:
            return {}
    middle = len(batch) // 2
    return {**await _find(writer, batch[:middle]), **await _find(writer, batch[middle:])}


async def count_all_missing(
    records: Iterable[Record | UnreadableRecord], comparison: Comparison, on_done: Callable[[int], None]
) -> None:
    """Count the records of a realm that has no tenant."""
    async for chunk in read_chunks(records):
        for record in chunk:
            if isinstance(record, UnreadableRecord):
                comparison.unreadable += 1
            elif not WRITERS[record.kind].is_comparable:
                comparison.unchecked[record.kind] += 1
            else:
                comparison.in_source[record.kind] += 1
                comparison.add_missing(record)
        on_done(len(chunk))


def _compare_record(writer: Writer, record: Record, stored: Message | None, comparison: Comparison) -> None:
    if stored is None and is_expired(record, datetime.now(UTC)):
        # No call returns expired records, so they cannot be compared.
        comparison.unchecked[record.kind] += 1
        return
    comparison.in_source[record.kind] += 1
    if stored is None:
        comparison.add_missing(record)
        return
    comparison.in_skein[record.kind] += 1
    expected = writer.as_stored(record.item)
    if fields := differing_fields(expected, stored, writer.not_compared):
        comparison.add_different(record, fields)


def differing_fields(expected: Message, stored: Message, excluded: Iterable[str]) -> list[str]:
    """Return the fields that differ between an expected and a stored message; unset expected fields are ignored."""
    names: list[str] = []
    excluded = {*excluded, *_OF_THE_CLUSTER}
    texts = {descriptor.name for descriptor, _ in expected.ListFields() if json_fields.is_text(descriptor)}
    for descriptor, value in expected.ListFields():
        if descriptor.name in excluded or descriptor.name not in stored.DESCRIPTOR.fields_by_name:
            continue
        if descriptor.name == "external_id" and _is_named_by_id(stored, value):
            continue
        if json_fields.is_text(descriptor):
            if not exact.equal_json(value, _text(stored, descriptor.name)):
                names.append(descriptor.name.removesuffix(json_fields.TEXT))
        elif descriptor.name + json_fields.TEXT in texts:
            # The exact text beside it is compared instead.
            continue
        elif not _are_equal(value, getattr(stored, descriptor.name)):
            names.append(descriptor.name)
    return names


def _is_named_by_id(stored: Message, name: str) -> bool:
    """Return whether a name is the id of a record without an external id: so an export names it."""
    ids = [getattr(stored, field, "") for field in ("memory_id", "message_id")]
    return not getattr(stored, "external_id", "") and name in ids


def _text(stored: Message, name: str) -> str | None:
    """Return a JSON text; of an older service without texts, the JSON of the message beside it."""
    text: str = getattr(stored, name)
    return text or json_text(stored, name.removesuffix(json_fields.TEXT))


def _are_equal(expected: Any, stored: Any) -> bool:
    if not isinstance(expected, Message | str | bytes | int | float):
        # Repeated fields such as tags come back in another order.
        by_text = [sorted(map(str, map(_plain, values))) for values in (expected, stored)]
        return by_text[0] == by_text[1]
    if isinstance(expected, str):
        return expected.strip() == str(stored).strip()
    if isinstance(expected, float):
        return math.isclose(expected, stored, abs_tol=_EXACT)
    if isinstance(expected, Message) and expected.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        return bool(_microseconds(expected) == _microseconds(stored))
    return bool(_plain(expected) == _plain(stored))


def _microseconds(time: Any) -> int:
    return int(time.seconds) * 1_000_000 + int(time.nanos) // _NANOS


def _plain(value: Any) -> Any:
    return json_format.MessageToDict(value) if isinstance(value, Message) else value
