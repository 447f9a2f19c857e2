"""Searches: protobuf to query, and hits to protobuf. Rows are those of items.sql."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1.session_pb2 import MessageRole
from skein_kit import filters
from skein_kit.filters.expression import And, Compare, Expression, In, Or
from skein_kit.filters.visibility import valid_at_time, visible_to
from skein_kit.ids import min_id_at
from skein_kit.json_values import fields
from skein_kit.message_rows import message
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import fit_items
from skein_kit.rpc.well_known_types import read_time, to_timestamp
from skein_kit.search_text.vector_columns import normalize
from skein_kit.text.unicode_form import plain_form
from skein_recall.errors import QueryEmpty
from skein_recall.search.cues import NamedDays
from skein_recall.search.expansion import Reason
from skein_recall.search.filter import Filter
from skein_recall.search.known_items import CheckedItem, KnownItem, Reader
from skein_recall.search.model import Mode, Query, RecallResult, Reference, ReferenceItem, SearchHit

if TYPE_CHECKING:
    from skein_recall.search.model import ItemRow

_Response = TypeVar("_Response", pb.RecallResponse, pb.FindSimilarResponse)
DEFAULT_LIMIT = 10
# Of a reference item's text; a query has at most as many.
MAX_CHARACTERS = 10_000
_IS_MEMORY = Compare(("kind",), "=", "memory")
_KINDS = {pb.ITEM_KIND_MEMORY: "memory", pb.ITEM_KIND_MESSAGE: "message"}
_MODES = {
    pb.SEARCH_MODE_UNSPECIFIED: Mode.HYBRID,
    pb.SEARCH_MODE_HYBRID: Mode.HYBRID,
    pb.SEARCH_MODE_KEYWORD: Mode.KEYWORD,
    pb.SEARCH_MODE_SEMANTIC: Mode.SEMANTIC,
}
_REASONS = {Reason.ALIAS: pb.QUERY_EXPANSION_REASON_ALIAS, Reason.TYPO: pb.QUERY_EXPANSION_REASON_TYPO}
_SCOPE_NAMES = {number: name.removeprefix("SCOPE_").lower() for name, number in memory_pb2.Scope.items()}
_SCOPES = cast("dict[str, memory_pb2.Scope]", {name: number for number, name in _SCOPE_NAMES.items()})
_LEVELS = cast(
    "dict[str, memory_pb2.Level]",
    {name.removeprefix("LEVEL_").lower(): number for name, number in memory_pb2.Level.items()},
)
# Columns that are fields of the same name and type.
_PLAIN_FIELDS = (
    "external_id", "type", "title", "key", "content", "source", "source_agent", "agent_id", "subject_id", "session_id",
    "confidence", "importance", "revision", "created_by", "updated_by",
)  # fmt: skip
# Fields that say whose a memory is.
_OWNERS = ("agent_id", "subject_id", "session_id")
_TIMES = ("expire_time", "valid_from_time", "valid_to_time", "create_time", "update_time", "record_time")


def named_days(request: pb.RecallRequest | pb.FindSimilarRequest) -> NamedDays:
    """Return where a request may name days, and whom it is about."""
    filter_ = request.filter
    person_id = filter_.visible_to.subject_id or filter_.subject_id
    if isinstance(request, pb.FindSimilarRequest):
        return NamedDays(where=filter_.where, person_id=request.subject_id or person_id)
    return NamedDays(where=filter_.where, person_id=person_id, text=request.query)


def recall_query(request: pb.RecallRequest, zone: tzinfo | None, at: datetime) -> Query:
    """Read the query of a request that arrives `at`; `zone` is that of the days that it names, None: the tenant's.

    Raises QueryEmpty and FieldInvalid.
    """
    # A query of invisible characters alone stays, so that it is not taken for an empty one.
    text = plain_form(request.query).strip() or request.query.strip()
    if not text and not request.embedding:
        raise QueryEmpty
    vector = normalize(request.embedding) if request.embedding else None
    return replace(
        _query(request, text, vector, zone, weights=dict(request.weights), fusion=request.fusion),
        min_relevance=request.min_relevance if request.HasField("min_relevance") else None,
        show_duplicates=request.show_duplicates,
        as_of_time=read_as_of_time(request, at=at),
    )


def _with_conditions(filter_: Filter, message: pb.MessageFilter, min_trust: float) -> Filter:
    """Return the filter with conditions on messages and on the trust of memories too."""
    fields_: dict[str, object] = {
        "roles": [MessageRole.Name(role).removeprefix("MESSAGE_ROLE_").lower() for role in message.roles],
        "speakers": list(message.speakers),
        "min_trust": min_trust,
    }
    values = {name: value for name, value in fields_.items() if value}
    return replace(
        filter_,
        index_conditions=(*filter_.index_conditions, *values),
        values={**filter_.values, **values},
    )


def known_items(request: pb.CheckItemsRequest) -> tuple[list[KnownItem], Reader]:
    """Read the items of a check, and their reader. Raises FieldInvalid."""
    items = [
        KnownItem(item_id=UUID(item.item_id), kind=_KINDS.get(item.kind, "memory"), revision=item.revision)
        for item in request.items
    ]
    filter_ = memory_filter(request.filter, UTC).wall if request.HasField("filter") else Filter()
    reader = Reader(
        filter=_with_conditions(filter_, pb.MessageFilter(), request.min_trust),
        subject_id=request.filter.visible_to.subject_id,
        session_id=request.session_id,
    )
    return items, reader


def checked_item(item: CheckedItem) -> pb.CheckedItem:
    """Convert an item that is not as it was known."""
    message = pb.CheckedItem(item_id=str(item.item_id), state=item.state)
    if item.row is not None:
        message.item.item_id = message.item_id
        _write_item(message.item, item.kind, item.row)
    return message


def reference(request: pb.FindSimilarRequest) -> Reference:
    return Reference(
        item_id=UUID(request.item_id) if request.item_id else None,
        external_id=request.external_id,
        kind=_KINDS.get(request.kind, "memory"),
    )


def similar_query(
    request: pb.FindSimilarRequest, item: ReferenceItem, zone: tzinfo | None, as_of_time: datetime | None
) -> Query:
    """Make a query of a reference item; `zone` is that of the days that it names, None: the tenant's.

    Raises QueryEmpty when the item has nothing to search by.
    """
    text = item.text[:MAX_CHARACTERS].strip()
    if not text and (item.vector is None or _MODES[request.mode] is Mode.KEYWORD):
        raise QueryEmpty
    if request.subject_id:
        # The caller keeps the request as it came.
        request = pb.FindSimilarRequest.FromString(request.SerializeToString())
        request.filter.visible_to.subject_id = request.subject_id
    return replace(_query(request, text, item.vector, zone).similar_to(item), as_of_time=as_of_time)


def _query(
    request: pb.RecallRequest | pb.FindSimilarRequest,
    text: str,
    vector: NDArray[np.float32] | None,
    zone: tzinfo | None,
    *,
    weights: dict[str, float] | None = None,
    fusion: str = "",
) -> Query:
    filter_ = memory_filter(request.filter, zone or UTC) if request.HasField("filter") else Filter()
    if isinstance(request, pb.RecallRequest):
        filter_ = _with_conditions(filter_, request.message_filter, request.min_trust)
    return Query(
        text=text,
        vector=vector,
        limit=request.limit or DEFAULT_LIMIT,
        kinds=tuple(_KINDS[kind] for kind in request.kinds) or filters.ITEM_KINDS,
        filter=filter_,
        min_similarity=request.min_similarity,
        show_superseded=request.show_superseded or filter_.is_point_in_time,
        weights=weights or {},
        fusion=fusion,
        zone=zone,
        mode=_MODES[request.mode],
        name_condition=_name_condition(request.filter) if request.HasField("filter") else None,
    )


def _name_condition(message: memory_pb2.MemoryFilter) -> Expression | None:
    """Return the condition for memories whose names a caller with this filter may see; None: all of the tenant.

    They are visible to the caller. If the filter selects owners or scopes, they also have these, or are global and have
    no owner. A `where` may select owners too, and is not read: then they are global and have no owner.
    """
    conditions: list[Expression] = []
    if message.HasField("visible_to"):
        ids = message.visible_to
        conditions.append(visible_to(ids.agent_id, ids.subject_id, ids.session_id))
    owned: list[Expression] = [Compare((name,), "=", value) for name in _OWNERS if (value := getattr(message, name))]
    scopes = tuple(_SCOPE_NAMES[scope] for scope in message.scopes if scope and scope in _SCOPE_NAMES)
    if scopes:
        owned.append(In(("scope",), scopes))
    is_shared: Expression = And((Compare(("scope",), "=", "global"), *(Compare((name,), "=", "") for name in _OWNERS)))
    if message.where:
        conditions.append(is_shared)
    elif owned:
        conditions.append(Or((is_shared, And(tuple(owned)) if len(owned) > 1 else owned[0])))
    return And(tuple(conditions)) if len(conditions) > 1 else next(iter(conditions), None)


def memory_filter(message: memory_pb2.MemoryFilter, zone: tzinfo) -> Filter:
    """Read a filter; fields that are not set are no conditions. Raises FieldInvalid."""
    start, end = _time(message, "start_time"), _time(message, "end_time")
    fields_: dict[str, object] = {
        "types": list(message.types),
        # An unspecified scope is no condition.
        "scopes": [_SCOPE_NAMES[scope] for scope in message.scopes if scope and scope in _SCOPE_NAMES],
        "source": message.source,
        "key": message.key,
        "min_importance": message.min_importance,
        "agent_id": message.agent_id,
        "subject_id": message.subject_id,
        "session_id": message.session_id,
        # Ids begin with their time, so a range of times is a range of ids, to the millisecond.
        "start_time": start and min_id_at(start),
        "end_time": end and min_id_at(end),
        "tags_any": list(message.tags_any),
        "tags_all": sorted(set(message.tags_all)),
    }
    values = {name: value for name, value in fields_.items() if value}
    names = tuple(values)
    if message.HasField("visible_to"):
        names += ("visible_to",)
        values |= {
            "seeing_agent_id": message.visible_to.agent_id or None,
            "seeing_subject_id": message.visible_to.subject_id or None,
            "seeing_session_id": message.visible_to.session_id or None,
        }
    return Filter(
        index_conditions=names,
        values=values,
        row_conditions=_row_conditions(message, zone),
        is_point_in_time=message.HasField("valid_at_time"),
    )


def _row_conditions(message: memory_pb2.MemoryFilter, zone: tzinfo) -> dict[str, Expression]:
    """Read the conditions that the index cannot test."""
    valid_at = _time(message, "valid_at_time", before_1970=True)
    conditions = {
        "where": filters.parse(message.where, "filter.where", filters.ITEM_FIELDS, zone=zone),
        "max_importance": Compare(("importance",), "<=", message.max_importance)
        if message.HasField("max_importance")
        else None,
        # A message has no time of validity, which is not the same as an open one.
        "valid_at_time": None if valid_at is None else And((_IS_MEMORY, valid_at_time(valid_at))),
    }
    return {name: condition for name, condition in conditions.items() if condition is not None}


def _time(message: memory_pb2.MemoryFilter, field: str, *, before_1970: bool = False) -> datetime | None:
    return read_time(message, field, before_1970=before_1970, within="filter.", may_be_infinite=True)


def response(kind: type[_Response], result: RecallResult) -> _Response:
    """Convert the result of Recall or FindSimilar; its items are complete."""
    return kind(
        hits=fit_items(_hit(hit) for hit in result.hits),
        model=result.model,
        dense_path=result.dense_path,
        dense_unavailable=result.dense_unavailable,
        filter_emptied=bool(result.excluding_conditions),
        emptied_by=result.excluding_conditions,
        formula=result.formula,
        filter_truncated=result.filter_truncated,
        pending_embedding_count=result.pending_count,
        purged_count=result.purged_count,
        **_recall_fields(result) if kind is pb.RecallResponse else {},
    )


def _recall_fields(result: RecallResult) -> dict[str, Any]:
    """Return the fields that FindSimilar does not have."""
    return {
        "nothing_relevant": result.nothing_relevant,
        "asks_for_all": result.asks_for_all,
        "query_expansions": [
            pb.QueryExpansion(written=one.written, read_as=one.read_as, reason=_REASONS[one.reason])
            for one in result.expansions
        ],
    }


def bare_hit(item_id: UUID, kind: str, row: ItemRow, score: float) -> pb.Hit:
    """Convert the row of an item without its signals."""
    hit = pb.Hit(item_id=str(item_id), score=score)
    _write_item(hit, kind, row)
    return hit


def _hit(found: SearchHit) -> pb.Hit:
    ranked, row = found.item, found.row
    hit = pb.Hit(
        item_id=str(ranked.item_id),
        score=ranked.score,
        similarity=ranked.similarity,
        has_query_words=ranked.has_words,
        relevance=found.relevance,
        duplicate_ids=map(str, found.duplicate_ids),
        older_ids=map(str, found.older_ids),
        components=[
            pb.ScoreComponent(signal=signal, raw=raw, value=value, weight=weight, rank=rank)
            for signal, raw, value, weight, rank in ranked.components
        ],
    )
    _write_item(hit, ranked.kind, row)
    return hit


def _write_item(hit: pb.Hit, kind: str, row: ItemRow) -> None:
    if (trust := row["trust"]) is not None:
        hit.trust = trust
    if kind == "memory":
        hit.kind = pb.ITEM_KIND_MEMORY
        _write_memory(hit.memory, row)
    else:
        hit.kind = pb.ITEM_KIND_MESSAGE
        hit.message.CopyFrom(message(row))


def _write_memory(memory: memory_pb2.Memory, row: ItemRow) -> None:
    """Write a row into the hit's memory: a message of its own, copied afterwards, would take twice as long."""
    memory.memory_id = str(row["memory_id"])
    memory.scope, memory.level = _SCOPES[row["scope"]], _LEVELS[row["level"]]
    memory.content_hash = row["content_hash"].hex()
    memory.tags.extend(row["tags"])
    for name in _PLAIN_FIELDS:
        if (value := row[name]) is not None:
            setattr(memory, name, value)
    for name in _TIMES:
        if (value := to_timestamp(row[name])) is not None:
            getattr(memory, name).CopyFrom(value)
    for name in ("data", "metadata"):
        if (text := row[name]) is not None:
            fields.write(memory, name, text)
    if (secret := _masked_secret(row)) is not None:
        memory.secret.CopyFrom(secret)


def _masked_secret(row: ItemRow) -> memory_pb2.MaskedSecret | None:
    """Show that a memory of the vault has a secret, as the memory service does; the index has no secrets."""
    length = json.loads(row["data"]).get("secret_length") if row["type"] == "knowledge_vault" and row["data"] else None
    return None if length is None else memory_pb2.MaskedSecret(masked="••••", length_class=length)
