"""Spans of memory operations, as OpenTelemetry's GenAI conventions name them (gen_ai.memory.client, Development).

Which method is which operation stands in its proto (skein.options.v1.MemoryOperation).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from google.protobuf.message import Message
from opentelemetry.trace import Span

from skein.options.v1 import options_pb2 as pb

SEARCH = "search_memory"
# The names of the conventions, v0.1.0; the semconv package does not have those of memories yet.
OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
STORE_ID = "gen_ai.memory.store.id"
RECORD_ID = "gen_ai.memory.record.id"
RECORD_COUNT = "gen_ai.memory.record.count"
QUERY_TEXT = "gen_ai.memory.query.text"
RECORDS = "gen_ai.memory.records"
PROVIDER = "skein"


class MemorySpans(StrEnum):
    """Whether memory operations have spans."""

    OFF = "off"
    # Without queries and contents.
    ON = "on"
    CONTENT = "content"


def record_request(span: Span, operation: pb.MemoryOperation, request: Message, *, with_content: bool) -> None:
    """Record what an operation is to do."""
    subjects = _values(request, operation.subject)
    if subjects and operation.name != SEARCH:
        span.set_attribute(RECORD_COUNT, len(subjects))
        if len(subjects) == 1 and (record_id := _id(subjects[0])):
            span.set_attribute(RECORD_ID, record_id)
    if with_content and (query := _values(request, operation.query)):
        span.set_attribute(QUERY_TEXT, query[0])


def record_response(
    span: Span, operation: pb.MemoryOperation, request: Message, response: Message, *, with_content: bool
) -> None:
    """Record what an operation has done. Contents are those of the response, which the guard has screened."""
    records = _values(response, operation.records)
    if operation.name == SEARCH or not _values(request, operation.subject):
        span.set_attribute(RECORD_COUNT, len(records))
    if len(records) == 1 and operation.name != SEARCH and (record_id := _id(records[0])):
        span.set_attribute(RECORD_ID, record_id)
    if with_content and (stored := [_record(each) for each in records if isinstance(each, Message)]):
        span.set_attribute(RECORDS, json.dumps(stored, ensure_ascii=False))


def _values(message: Message, path: str) -> Sequence[Any]:
    """Return the values at a path such as "selection.memory_ids": those of a list, or the one that is set."""
    value: Any = message
    for name in filter(None, path.split(".")):
        if not isinstance(value, Message):
            return ()
        field = value.DESCRIPTOR.fields_by_name[name]
        if field.message_type is not None and not field.is_repeated and not value.HasField(name):
            return ()
        value = getattr(value, name)
    if value is message or value == "":
        return ()
    return list(value) if isinstance(value, Iterable) and not isinstance(value, (str, Message)) else [value]


def _id(record: Any) -> str:
    if isinstance(record, str):
        return record
    return next((str(getattr(record, name)) for name in ("memory_id", "item_id") if hasattr(record, name)), "")


def _record(record: Message) -> dict[str, Any]:
    """Return a record in the form of the conventions; a hit is the item that it names, with its score."""
    item: Any = record
    values: dict[str, Any] = {"id": _id(record)}
    if "score" in record.DESCRIPTOR.fields_by_name and "kind" in record.DESCRIPTOR.fields_by_name:
        values["score"] = getattr(record, "score")  # noqa: B009 - a field of some messages alone.
        item = next((getattr(record, name) for name in ("memory", "message", "block") if record.HasField(name)), None)
    # The text of a block is its value.
    return {**values, "content": getattr(item, "content", None) or getattr(item, "value", "")}
