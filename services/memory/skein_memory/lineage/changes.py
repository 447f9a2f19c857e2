"""Who changed which part of a memory: the principals that its trust depends on beside its sources.

Functions work in the caller's transaction, which holds the locks of the memories that it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from skein_kit.database.transactions import Transaction
from skein_kit.json_values import exact
from skein_memory.lineage.model import Kind, node_keys
from skein_memory.lineage.store import PRINCIPAL_POSITIONS, note, put_principal, rescore_with_derived
from skein_memory.memories.model import Memory
from skein_memory.queries import QUERIES

# What a memory states beside its text, with the position of the principal that changed it last. Scores, levels and
# the times of a memory's own life state nothing; to bring a memory back states it again.
_EDITOR_POSITIONS: Mapping[str, int] = {
    "title": -10, "key": -11, "tags": -12, "metadata": -13, "source": -14, "source_agent": -15, "agent_id": -16,
    "subject_id": -17, "session_id": -18, "scope": -19, "valid_from_time": -20, "valid_to_time": -21,
}  # fmt: skip
_RETURN_POSITION = -9
_SECRET_POSITION = -8
_UNSET = (None, "", (), "global")


async def record_change(tx: Transaction, tenant_id: UUID, before: Memory, after: Memory, *, at: datetime) -> None:
    """Store who changed which part of a memory, and its trust where that may have changed.

    Each part has the principal that changed it last, so that a change of one part clears the rating of no other one's
    author. Copies of the former text confirm the new one no more.
    """
    key = {"tenant_id": tenant_id, "memory_id": after.memory_id}
    has_new_text = before.draft.content_hash != after.draft.content_hash
    changed_positions = _changed_positions(before, after, at=at)
    if not has_new_text and not changed_positions:
        return
    is_due = (before.draft.source, before.draft.source_agent) != (after.draft.source, after.draft.source_agent)
    principals = {
        row["position"]: row["name"]
        for row in await tx.rows(QUERIES["read_sources"], tenant_id=tenant_id, memory_ids=[after.memory_id])
        if row["position"] < 0
    }
    had_writer = has_writer = PRINCIPAL_POSITIONS["writer"] in principals
    if has_new_text:
        has_writer = after.updated_by != after.created_by
        if has_writer:
            is_due |= await put_principal(tx, tenant_id, after.memory_id, "writer", after.updated_by)
        elif had_writer:
            is_due |= bool(await tx.execute(QUERIES["delete_writer"], **key))
        changed = {row["memory_id"] for row in await tx.rows(QUERIES["replace_repeats"], **key)}
        is_due |= after.memory_id in changed
        if changed - {after.memory_id}:
            await note(tx, tenant_id, [after.memory_id])
    editors = dict.fromkeys(changed_positions, after.updated_by)
    if has_writer and not had_writer:
        # The creator's statements stay the creator's, though the text is another's now.
        editors = {
            place: before.created_by
            for field, place in _EDITOR_POSITIONS.items()
            if place not in principals and getattr(before.draft, field) not in _UNSET
        } | editors
    for place, name in editors.items():
        if has_writer or place in principals or name != after.created_by:
            is_due |= await put_principal(tx, tenant_id, after.memory_id, "editor", name, position=place)
    if is_due:
        await rescore_with_derived(tx, tenant_id, [after.memory_id], at=at)


async def restore_writer(tx: Transaction, tenant_id: UUID, after: Memory, *, at: datetime) -> None:
    """Store for a memory that has a former text again who wrote the text; who restored it states it again beside."""
    draft, key = after.draft, {"tenant_id": tenant_id, "memory_id": after.memory_id}
    writer = await tx.value(
        QUERIES["find_former_writer"], **key, type=draft.type, content=draft.content, data=draft.data
    )
    if writer is None:
        return
    if writer == after.created_by:
        is_due = bool(await tx.execute(QUERIES["delete_writer"], **key))
    else:
        is_due = await put_principal(tx, tenant_id, after.memory_id, "writer", writer)
    if writer != after.updated_by:
        is_due |= await put_principal(
            tx, tenant_id, after.memory_id, "editor", after.updated_by, position=_RETURN_POSITION
        )
    if is_due:
        await rescore_with_derived(tx, tenant_id, [after.memory_id], at=at)


async def record_secret(tx: Transaction, tenant_id: UUID, memory: Memory, *, at: datetime) -> None:
    """Store who replaced the secret of a memory, and the trust of the memory where that may have changed."""
    if await put_principal(tx, tenant_id, memory.memory_id, "editor", memory.updated_by, position=_SECRET_POSITION):
        await rescore_with_derived(tx, tenant_id, [memory.memory_id], at=at)


def _changed_positions(before: Memory, after: Memory, *, at: datetime) -> list[int]:
    """Return the positions of what a change of a memory states anew beside its text."""
    places = [
        place
        for field, place in _EDITOR_POSITIONS.items()
        if field != "metadata" and getattr(before.draft, field) != getattr(after.draft, field)
    ]
    if not exact.equal_json(before.draft.metadata, after.draft.metadata):
        places.append(_EDITOR_POSITIONS["metadata"])
    if after.is_recalled(at) and not before.is_recalled(at):
        places.append(_RETURN_POSITION)
    return places


async def add_imported_writers(
    tx: Transaction, tenant_id: UUID, writers: Mapping[UUID, tuple[str, str]], *, at: datetime, by: str
) -> None:
    """Store who created new memories, and who changed them last, where the import by the principal `by` has them from.

    The rating of each limits the trust, that of the importer too. An empty name is none.
    """
    principals: list[tuple[UUID, Kind, str]] = []
    for memory_id, (creator, editor) in writers.items():
        principals += [(memory_id, "writer", creator), (memory_id, "declarer", by)]
        if editor and editor != creator:
            principals.append((memory_id, "editor", editor))
    rows = [
        {
            "memory_id": memory_id,
            "position": PRINCIPAL_POSITIONS[kind],
            "kind": kind,
            "name": name,
            "name_key": "".join(node_keys(name)),
        }
        for memory_id, kind, name in principals
    ]
    await tx.insert(QUERIES["put_principal"], tenant_id, rows)
    await rescore_with_derived(tx, tenant_id, list(writers), at=at)
