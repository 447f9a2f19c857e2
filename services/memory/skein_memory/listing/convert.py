"""Filters of memories: protobuf to model."""

from __future__ import annotations

from datetime import datetime, tzinfo

from skein.memory.v1 import memory_pb2 as pb
from skein_kit import filters
from skein_kit.filters.expression import Compare, Expression, In, Tags
from skein_kit.filters.visibility import valid_at_time, visible_to
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.well_known_types import read_time
from skein_memory.errors import SelectionEmpty
from skein_memory.listing.filter import ACTIVE, NOT_ARCHIVED, Filter
from skein_memory.memories.convert import SCOPES
from skein_memory.validation import prefix_field_paths


def list_filter(request: pb.ListMemoriesRequest, zone: tzinfo, *, at: datetime) -> Filter:
    """Read the filter of a list at the time `at`; deleted, archived and expired memories only match when requested.

    `zone` is that of the days that it names.
    Raises FieldInvalid, FilterInvalid and FilterFieldUnknown.
    """
    as_of_time = read_as_of_time(request, at=at)
    conditions = list(_conditions(request.filter, "filter", zone))
    if not request.show_deleted:
        conditions.append(ACTIVE)
    if not request.show_archived:
        conditions.append(NOT_ARCHIVED)
    return Filter(conditions=tuple(conditions), hides_expired=True, as_of_time=as_of_time)


def selection_filter(selection: pb.MemorySelection, zone: tzinfo) -> Filter:
    """Read the filter of a selection, which includes deleted, archived and expired memories.

    `zone` is that of the days that it names.
    Raises SelectionEmpty, FieldInvalid, FilterInvalid and FilterFieldUnknown.
    """
    conditions = _conditions(selection.filter, "selection.filter", zone)
    if not conditions and not selection.memory_ids:
        raise SelectionEmpty
    return Filter(conditions=conditions)


def named_days(message: pb.MemoryFilter) -> tuple[str, str]:
    """Return the condition of a filter, which may name days, and the person whom it is about; empty: none."""
    return message.where, message.subject_id or message.visible_to.subject_id


def _conditions(message: pb.MemoryFilter, path: str, zone: tzinfo) -> tuple[Expression, ...]:  # noqa: C901
    """Read a filter as conditions that must all hold: those of its fields, and its expression.

    Raises FieldInvalid, FilterInvalid and FilterFieldUnknown.
    """
    with prefix_field_paths(path):
        start_time, end_time = (read_time(message, name, may_be_infinite=True) for name in ("start_time", "end_time"))
        valid_at = read_time(message, "valid_at_time", before_1970=True)
        where = filters.parse(message.where, zone=zone)
    names = ("agent_id", "subject_id", "session_id", "source", "key")
    conditions: list[Expression] = [Compare((name,), "=", value) for name in names if (value := getattr(message, name))]
    scopes = [SCOPES[scope] for scope in message.scopes if scope in SCOPES]
    for name, values in (("type", list(message.types)), ("scope", scopes)):
        if len(values) == 1:
            conditions.append(Compare((name,), "=", values[0]))
        elif values:
            conditions.append(In((name,), tuple(values)))
    if message.tags_any:
        conditions.append(Tags("any", tuple(dict.fromkeys(message.tags_any))))
    if message.tags_all:
        conditions.append(Tags("all", tuple(dict.fromkeys(message.tags_all))))
    if start_time is not None:
        conditions.append(Compare(("create_time",), ">=", start_time))
    if end_time is not None:
        conditions.append(Compare(("create_time",), "<", end_time))
    if message.min_importance:
        conditions.append(Compare(("importance",), ">=", message.min_importance))
    if message.HasField("max_importance"):
        conditions.append(Compare(("importance",), "<=", message.max_importance))
    if valid_at is not None:
        conditions.append(valid_at_time(valid_at))
    if message.HasField("visible_to"):
        context = message.visible_to
        conditions.append(visible_to(context.agent_id, context.subject_id, context.session_id))
    if where is not None:
        conditions.append(where)
    return tuple(conditions)
