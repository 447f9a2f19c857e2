"""Hits of recall in readable form."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit.json_values import fields
from skein_kit.message_rows import speaker
from skein_kit.text.quoted_text import one_line, one_line_json


def hit_kind(hit: recall_pb2.Hit) -> str:
    """Return "message", "block", or the type of a memory."""
    if hit.kind == recall_pb2.ITEM_KIND_BLOCK:
        return "block"
    return "message" if hit.kind == recall_pb2.ITEM_KIND_MESSAGE else hit.memory.type or "memory"


def hit_name(hit: recall_pb2.Hit) -> str:
    """Return the external id, or the id where there is none."""
    item = hit.message if hit.kind == recall_pb2.ITEM_KIND_MESSAGE else hit.memory
    return item.external_id or hit.item_id


def hit_time(hit: recall_pb2.Hit) -> Timestamp:
    """Return the time of a message, or when a memory became known."""
    if hit.kind == recall_pb2.ITEM_KIND_BLOCK:
        return hit.block.create_time
    return hit.message.create_time if hit.kind == recall_pb2.ITEM_KIND_MESSAGE else hit.memory.create_time


def hit_text(hit: recall_pb2.Hit) -> str:
    """Return a message with its speaker, a memory's content, or a block with its label."""
    if hit.kind == recall_pb2.ITEM_KIND_BLOCK:
        return f"{hit.block.label}: {hit.block.value}"
    if hit.kind == recall_pb2.ITEM_KIND_MESSAGE:
        name = speaker(hit.message.name, "", hit.message.created_by, hit.message.updated_by, is_pending=False)
        return f"{name}: {hit.message.content}" if name else hit.message.content
    return hit.memory.content or hit.memory.title


def format_components(hit: recall_pb2.Hit) -> str:
    """Return the visible contributions to a score: "dense 0.41 + lexical 0.22"."""
    shares = [(part.signal, f"{part.value * part.weight:.2f}") for part in hit.components if part.weight]
    return " + ".join(f"{signal} {share}" for signal, share in shares if float(share))


def format_profile(subject: subjects_pb2.Subject) -> str:
    """Return a profile in one line: 'anna: Anna Lind, Europe/Berlin, {"diet": "vegan"}'."""
    values = (fields.value_of(subject, name) for name in ("profile", "preferences"))
    json_texts = [one_line_json(value) for value in values if value]
    parts = [part for part in (one_line(subject.display_name), one_line(subject.timezone), *json_texts) if part]
    subject_id = one_line(subject.subject_id)
    return f"{subject_id}: {', '.join(parts)}" if parts else subject_id
