"""Writes that wait for approval: protobuf to model and back."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import approvals_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.approvals.model import PendingMemory
from skein_memory.memories.model import FACT, FactKey, Memory

# Fields of which a fact key consists.
KEY_FIELDS = frozenset({"type", "subject_id", "key"})


def pending_memory(value: PendingMemory) -> pb.PendingMemory:
    """Return a write that waits as approvers read it."""
    memory = memory_pb2.Memory.FromString(value.content)
    memory.memory_id = str(value.memory_id)
    memory.pending_approval = True
    return pb.PendingMemory(
        pending_id=str(value.pending_id),
        memory=memory,
        update_mask=update_mask(value, ()) if value.is_change else None,
        created_by=value.created_by,
        agent_id=value.agent_id or "",
        create_time=to_timestamp(value.create_time),
        expire_time=to_timestamp(value.expire_time),
        refusal_reason=value.refusal_reason or "",
    )


def fact_key(message: pb.PendingMemory, before: Memory | None) -> FactKey | None:
    """Return the fact key that a write would take: of a new fact, or of the changed memory `before`; None for none."""
    memory, mask = message.memory, message.update_mask.paths
    if not mask:
        type_, subject_id, key = memory.type, memory.subject_id, memory.key
    elif before is None:
        return None
    else:
        type_ = memory.type if "type" in mask else before.draft.type
        subject_id = memory.subject_id if "subject_id" in mask else before.draft.subject_id or ""
        key = memory.key if "key" in mask else before.draft.key or ""
    return FactKey(subject_id, key) if type_ == FACT and key else None


def pending_answer(value: PendingMemory) -> memory_pb2.Memory:
    """Return a new memory that waits, as its source is told: without content, so that saved responses hold none."""
    return memory_pb2.Memory(
        memory_id=str(value.memory_id),
        create_time=to_timestamp(value.create_time),
        created_by=value.created_by,
        pending_approval=True,
    )


def update_mask(value: PendingMemory, edited_paths: Iterable[str]) -> FieldMask:
    """Return the fields that a change sets, with those that its approver edits."""
    return FieldMask(paths=dict.fromkeys([*(value.update_mask or ()), *edited_paths]))
