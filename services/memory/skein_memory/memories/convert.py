"""Memories: protobuf to model and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import scores_pb2
from skein_kit.admission.processor_time import with_pauses
from skein_kit.errors import DuplicateInBatch, FieldInvalid, UpdateMaskInvalid
from skein_kit.identity.identity_token import Caller
from skein_kit.json_values.fields import fields
from skein_kit.rpc.row_times import read_past_time, require_keep_times
from skein_kit.rpc.well_known_types import json_text, read_time, to_timestamp, updated_fields
from skein_kit.search_text import vector_columns
from skein_memory.memories import memory_type, model
from skein_memory.memories.model import Draft, Memory, Scores
from skein_memory.scoring.model import Component
from skein_memory.validation import ItemPaths

# Names as the database has them, by number; an unspecified one has none.
SCOPES: Mapping[int, str] = {
    number: name.removeprefix("SCOPE_").lower() for name, number in pb.Scope.items() if number != pb.SCOPE_UNSPECIFIED
}
_LEVELS: Mapping[int, str] = {
    number: name.removeprefix("LEVEL_").lower() for name, number in pb.Level.items() if number != pb.LEVEL_UNSPECIFIED
}


# Fields that an update may change, and those of them that decide which callers see a memory.
UPDATABLE = frozenset(
    {
        "type", "title", "key", "content", "data", "tags", "source", "source_agent", "agent_id", "subject_id",
        "session_id", "scope", "level", "confidence", "importance", "expire_time", "archive_time", "valid_from_time",
        "valid_to_time", "metadata", "secret_value", "derived_from",
    }
)  # fmt: skip
READER_FIELDS = frozenset({"scope", "subject_id", "expire_time"})


def update_fields(request: pb.UpdateMemoryRequest) -> frozenset[str]:
    """Return the fields that an update changes. Raises FieldInvalid and UpdateMaskInvalid."""
    if not request.memory.memory_id:
        raise FieldInvalid(violations=[("memory.memory_id", "must name the memory")])
    if not request.update_mask.paths:
        raise UpdateMaskInvalid(violations=[("update_mask", "must name at least one field")])
    names = updated_fields(request.update_mask, UPDATABLE)
    if "secret_value" in names and not request.memory.secret_value:
        raise FieldInvalid(violations=[("memory.secret_value", "must not be empty; delete the memory instead")])
    return names


def draft(message: pb.Memory, *, at: datetime, max_content: int, agent_id: str = "") -> Draft:
    """Read a caller's memory at the time `at`; contents have at most `max_content` characters.

    `agent_id` is the agent of a memory that names none. Raises ContentTooLong, ContentEmpty, TextNotStorable,
    FieldInvalid and MemoryDataInvalid.
    """
    content = message.content.strip()
    is_required = not message.data.fields and message.type != memory_type.VAULT
    model.check_content(content, max_content=max_content, is_required=is_required)
    result = Draft(
        external_id=message.external_id or None,
        type=message.type or model.DEFAULT_TYPE,
        title=message.title or None,
        key=message.key or None,
        content=content,
        data=_data(message),
        tags=tuple(dict.fromkeys(message.tags)),
        source=message.source or None,
        source_agent=message.source_agent or None,
        agent_id=message.agent_id or agent_id or None,
        subject_id=message.subject_id or None,
        session_id=message.session_id or None,
        scope=SCOPES.get(message.scope, "global"),
        level=_LEVELS.get(message.level, "operational"),
        confidence=message.confidence if message.HasField("confidence") else model.DEFAULT_CONFIDENCE,
        importance=message.importance if message.HasField("importance") else model.DEFAULT_IMPORTANCE,
        expire_time=_expire_time(message, at),
        archive_time=read_time(message, "archive_time"),
        # The world is older than 1970.
        valid_from_time=read_time(message, "valid_from_time", before_1970=True),
        valid_to_time=read_time(message, "valid_to_time", before_1970=True),
        metadata=json_text(message, "metadata"),
        create_time=read_time(message, "create_time") or at,
    )
    result.check(at)
    return result


def drafts(
    messages: Sequence[pb.Memory],
    paths: ItemPaths,
    *,
    at: datetime,
    max_content: int,
    agent_id: str,
    is_import: bool = False,
) -> list[Draft]:
    """Read the new memories of a request, which lie at `paths`."""
    results = []
    names: set[tuple[str, object]] = set()
    for index, message in enumerate(with_pauses(messages)):
        with paths.prefix(index):
            result = draft(message, at=at, max_content=max_content, agent_id=agent_id)
            if not is_import:
                result.check_has_readers(at)
            # An expired fact shares its key with others.
            key = None if result.fact_key is None or result.is_expired(at) else result.fact_key.folded
            for field, name in (("external_id", result.external_id), ("key", key)):
                if name is not None and (field, name) in names:
                    raise DuplicateInBatch(violations=[(field, "comes twice in the batch")])
                if name is not None:
                    names.add((field, name))
        results.append(result)
    return results


def with_update_times(
    memories: Sequence[Memory], messages: Sequence[pb.Memory], caller: Caller, *, at: datetime
) -> list[Memory]:
    """Return new memories with the update_times of an import. Raises PermissionMissing and FieldInvalid."""
    require_keep_times(caller)
    return [
        replace(value, update_time=read_past_time(message, "update_time", at) or value.update_time)
        for value, message in zip(memories, messages, strict=True)
    ]


def caller_vectors(
    memories: Sequence[Memory], messages: Sequence[pb.Memory], paths: ItemPaths
) -> dict[UUID, NDArray[np.float32]]:
    """Return the caller vectors (dimensions,) of a request by memory id, of unit length.

    Raises FieldInvalid for a vector of length zero.
    """
    vectors = {}
    for index, (value, message) in enumerate(zip(memories, messages, strict=True)):
        if message.embedding:
            with paths.prefix(index):
                vectors[value.memory_id] = vector_columns.normalize(message.embedding)
    return vectors


def secrets(memories: Sequence[Memory], messages: Sequence[pb.Memory]) -> dict[UUID, str]:
    """Return the secrets of a batch by memory id."""
    pairs = zip(memories, messages, strict=True)
    return {value.memory_id: message.secret_value for value, message in pairs if message.secret_value}


def _data(message: pb.Memory) -> str | None:
    """Read the data as JSON text; a vault's data has the length class of its secret, and never the secret."""
    data = json_text(message, "data")
    if message.type != memory_type.VAULT:
        if message.secret_value:
            raise FieldInvalid(violations=[("secret_value", f"is for memories of the type {memory_type.VAULT}")])
        return data
    return memory_type.vault_data(data, secret=message.secret_value, length=message.secret.length_class)


def _expire_time(message: pb.Memory, at: datetime) -> datetime | None:
    if not message.HasField("ttl"):
        return read_time(message, "expire_time")
    if message.HasField("expire_time"):
        raise FieldInvalid(violations=[("ttl", "replaces expire_time; set only one of them")])
    return at + message.ttl.ToTimedelta()


def memory(value: Memory) -> pb.Memory:
    draft, memory_scores = value.draft, value.memory_scores
    length = memory_type.secret_length_of(draft.type, draft.data)
    return pb.Memory(
        memory_id=str(value.memory_id),
        external_id=draft.external_id or "",
        type=draft.type,
        title=draft.title or "",
        key=draft.key or "",
        content=draft.content,
        tags=draft.tags,
        source=draft.source or "",
        source_agent=draft.source_agent or "",
        agent_id=draft.agent_id or "",
        subject_id=draft.subject_id or "",
        session_id=draft.session_id or "",
        scope=f"SCOPE_{draft.scope.upper()}",
        level=f"LEVEL_{draft.level.upper()}",
        confidence=draft.confidence,
        importance=draft.importance,
        expire_time=to_timestamp(draft.expire_time),
        archive_time=to_timestamp(draft.archive_time),
        valid_from_time=to_timestamp(draft.valid_from_time),
        valid_to_time=to_timestamp(draft.valid_to_time),
        content_hash=draft.content_hash.hex(),
        revision=value.revision,
        create_time=to_timestamp(draft.create_time),
        update_time=to_timestamp(value.update_time),
        record_time=to_timestamp(value.record_time),
        delete_time=to_timestamp(value.delete_time),
        created_by=value.created_by,
        updated_by=value.updated_by,
        secret=None if length is None else pb.MaskedSecret(masked=memory_type.MASK, length_class=length),
        scores=scores(memory_scores.scores) if memory_scores else None,
        access_count=memory_scores.access_count if memory_scores else 0,
        last_access_time=to_timestamp(memory_scores.last_access_time) if memory_scores else None,
        **fields(data=draft.data, metadata=draft.metadata),
    )


def scores(value: Scores) -> scores_pb2.Scores:
    return scores_pb2.Scores(
        confidence=value.confidence, importance=value.importance, formula=value.formula, version=value.version
    )


def component(value: Component) -> scores_pb2.ScoreComponent:
    return scores_pb2.ScoreComponent(name=value.name, value=value.value, detail=value.detail)
