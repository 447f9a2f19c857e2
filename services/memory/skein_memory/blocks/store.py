"""Blocks in the database, with their agents and revisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from dataclasses import replace as but
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from skein_kit.calls.call import Call
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.database.tx_options import READ_ONLY, TxOptions
from skein_kit.errors import AgentNotActive, MessageTooLarge
from skein_kit.json_values import exact
from skein_kit.quotas.store import QuotaCounter
from skein_kit.rpc.pagination import PAGE_BYTES
from skein_kit.text.writers import Writers, is_trusted
from skein_memory.blocks.model import MAX_BLOCKS_PER_AGENT, Block, BlockDraft, Position, revision_of
from skein_memory.errors import (
    AgentBlocksFull,
    BlockExists,
    BlockLabelTaken,
    BlockNotAttached,
    BlockNotFound,
    BlockRevisionNotFound,
)
from skein_memory.events import writer
from skein_memory.events.model import Event, time_of_next_record
from skein_memory.events.writer import Revision
from skein_memory.lineage import store as lineage
from skein_memory.queries import QUERIES
from skein_memory.tenant_reader import TenantReader

_IMMUTABLE_COLUMNS = frozenset({"create_time", "created_by"})
# Above every revision.
_NEWEST = (1 << 63) - 1
# Attachments of purged agents that one call removes.
_DETACHED_BATCH_SIZE = 1000


class BlockStore:
    """Reads and writes blocks."""

    def __init__(self, database: Database, quotas: QuotaCounter) -> None:
        self._database = database
        self._quotas = quotas

    async def create_block(self, tx: Transaction, tenant_id: UUID, block: Block, *, agent_id: str) -> None:
        """Store a block, and attach it to an agent unless `agent_id` is empty.

        Raises BlockExists, BlockLabelTaken, AgentBlocksFull and QuotaExceeded.
        """
        await insert(tx, tenant_id, block)
        if agent_id:
            await attach(tx, tenant_id, block, agent_id, at=block.record_time, by=block.created_by)
        await self._quotas.charge(tx, tenant_id, {"blocks": 1})

    async def locate(self, request: Any, call: Call) -> None:
        """Narrow a read that names a block to the block's space: several spaces may have the id."""
        block_id = getattr(request, "block_id", "")
        if not block_id:
            return
        tenant_id = caller_of(call).require_tenant()
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            space_id = await tx.value(QUERIES["space_of_block"], tenant_id=tenant_id, block_id=block_id)
        if space_id is not None:
            call.narrow_to(space_id)

    async def read_block(self, tx: Transaction, tenant_id: UUID, block_id: str) -> Block | None:
        """Read a block, deleted or not; None when there is none."""
        row = await tx.row(QUERIES["get_block"], tenant_id=tenant_id, block_id=block_id)
        return None if row is None else block_of(row)

    async def get_block(
        self, tenant_id: UUID, block_id: str, *, at: datetime, as_of_time: datetime | None = None
    ) -> Block | None:
        """Read a block, deleted or not, as of a time; None when there is none."""
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            row = await reader.row("get_block", block_id=block_id)
            return None if row is None else (await _read(reader, [row]))[0]

    async def get_block_revision(self, tenant_id: UUID, block_id: str, revision: int) -> Block:
        """Read one revision of a block. Raises BlockNotFound and BlockRevisionNotFound."""
        async with self._database.transaction(tenant_id, TxOptions(read_only=True, skip_replica=True)) as tx:
            row = await tx.row(QUERIES["get_block"], tenant_id=tenant_id, block_id=block_id)
            if row is None:
                raise BlockNotFound
            # Revisions are only added, so one that is not the present one is an earlier one.
            is_present = row["revision"] == revision
            block = block_of(row) if is_present else await self.read_revision(tx, tenant_id, block_id, revision)
            ratings = await lineage.read_ratings(tx, tenant_id, block.writers.keys)
            return but(block, trust=block.writers.trust(ratings))

    async def list_blocks(
        self, tenant_id: UUID, *, after: Position, count: int, at: datetime, as_of_time: datetime | None = None,
        **conditions: object,
    ) -> list[Block]:  # fmt: skip
        """Read up to `count` blocks that match as of a time, in the order of their ids and spaces, after one."""
        after_id, after_space_id = after
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            rows = await reader.rows(
                "list_blocks", after_id=after_id, after_space_id=after_space_id, count=count, **conditions
            )
            return await _read(reader, rows)

    async def list_agent_blocks(
        self, tenant_id: UUID, agent_id: str, subject_id: str | None, *, after: Position, count: int, at: datetime,
        as_of_time: datetime | None = None,
    ) -> list[Block]:  # fmt: skip
        """Read up to `count` blocks of an agent, as of a time, in the order of their ids and spaces.

        Blocks about one subject and blocks without one; an empty subject_id selects only the latter, None all.
        """
        after_id, after_space_id = after
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            rows = await reader.rows(
                "list_agent_blocks",
                agent_id=agent_id,
                subject_id=subject_id,
                as_of_time=as_of_time,
                after_id=after_id,
                after_space_id=after_space_id,
                count=count,
            )
            return await _read(reader, rows)

    async def lock_block(self, tx: Transaction, tenant_id: UUID, block_id: str) -> Block:
        """Read a block, deleted or not, and lock it. Raises BlockNotFound."""
        block = await lock_if_exists(tx, tenant_id, block_id)
        if block is None:
            raise BlockNotFound
        return block

    async def update_block(
        self,
        tx: Transaction,
        tenant_id: UUID,
        before: Block,
        after: Block,
        *,
        at: datetime,
        by: str,
        event: str = "block_updated",
    ) -> None:
        """Store the next revision of a locked block and the one before, unless `after` is `before`.

        Raises BlockLabelTaken and QuotaExceeded.
        """
        if after is not before:
            await replace(tx, tenant_id, before, after, at=at, by=by, event=event)
            await self._quotas.charge(tx, tenant_id, {"blocks": int(after.is_active) - int(before.is_active)})

    async def read_revision(self, tx: Transaction, tenant_id: UUID, block_id: str, revision: int) -> Block:
        """Read an earlier revision of a block. Raises BlockRevisionNotFound."""
        rows = await _revisions(tx, tenant_id, block_id, before_revision=min(revision + 1, _NEWEST), count=1)
        if not rows or rows[0]["revision"] != revision:
            raise BlockRevisionNotFound
        return _earlier_revision(rows[0])

    async def list_revisions(
        self, tenant_id: UUID, block_id: str, *, before: int | None, count: int
    ) -> list[tuple[Block, datetime, str]]:
        """Read up to `count` earlier revisions of a block, newest first: the block, its end, and who changed it.

        Raises BlockNotFound.
        """
        async with self._database.transaction(tenant_id) as tx:
            if await tx.row(QUERIES["get_block"], tenant_id=tenant_id, block_id=block_id) is None:
                raise BlockNotFound
            rows = await _revisions(tx, tenant_id, block_id, before_revision=before or _NEWEST, count=count)
        return [(_earlier_revision(row), row["until_time"], row["changed_by"]) for row in rows]

    async def attach_block(
        self, tx: Transaction, tenant_id: UUID, block_id: str, agent_id: str, *, at: datetime, by: str
    ) -> None:
        """Attach a block to an agent. Raises BlockNotFound, BlockLabelTaken and AgentBlocksFull."""
        block = await self.lock_block(tx, tenant_id, block_id)
        block.check_revision(0)
        await attach(tx, tenant_id, block, agent_id, at=at, by=by)

    async def detach_block(
        self, tx: Transaction, tenant_id: UUID, block_id: str, agent_id: str, *, at: datetime, by: str
    ) -> None:
        """Detach a block from an agent. Raises BlockNotAttached."""
        if not await tx.execute(QUERIES["detach_block"], tenant_id=tenant_id, agent_id=agent_id, block_id=block_id):
            raise BlockNotAttached
        await writer.insert_events(tx, tenant_id, [_agent_event("block_detached", block_id, agent_id)], at=at, by=by)

    async def detach_deleted_agents(self, tenant_id: UUID, *, at: datetime, by: str) -> int:
        """Detach some blocks from agents that are being purged, and record the events; return how many."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["detach_purged_agents"], tenant_id=tenant_id, count=_DETACHED_BATCH_SIZE)
            if rows:
                events = [_agent_event("block_detached", row["block_id"], row["agent_id"]) for row in rows]
                await writer.insert_events(tx, tenant_id, events, at=at, by=by)
        return len(rows)

    async def list_block_agents(
        self, tenant_id: UUID, block_id: str, *, after: str, count: int, at: datetime, as_of_time: datetime | None
    ) -> list[tuple[str, datetime, str]]:
        """Read up to `count` agents of a block, as of a time, in the order of their ids.

        Each has the time and the principal of the attachment. Raises BlockNotFound.
        """
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            block = await reader.row("get_block", block_id=block_id)
            if block is None or block["delete_time"] is not None:
                raise BlockNotFound
            rows = await reader.rows("list_block_agents", block_id=block_id, after_id=after, count=count)
        return [(row["agent_id"], row["attach_time"], row["attached_by"]) for row in rows]

    async def prompt_blocks(
        self, tenant_id: UUID, agent_id: str, subject_id: str, labels: Sequence[str], *, min_trust: float, at: datetime,
        as_of_time: datetime | None,
    ) -> list[Block]:  # fmt: skip
        """Read the blocks of an agent for a prompt about a subject, as of a time, one for each label in each space.

        A block about the subject replaces one without a subject; no labels select all. Blocks with less than
        `min_trust` are left out before. Raises MessageTooLarge.
        """
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            rows = await reader.rows(
                "measure_prompt_bytes", agent_id=agent_id, subject_ids=["", subject_id], as_of_time=as_of_time
            )
            writers = {_position(row): Writers.read(row["writers"]) for row in rows}
            ratings = await _ratings(reader, writers.values())
            rows = [row for row in rows if is_trusted(writers[_position(row)].trust(ratings), min_trust)]
            rows_by_label: dict[tuple[str, UUID], asyncpg.Record] = {}
            for row in sorted(rows, key=lambda row: str(row["subject_id"])):
                if not labels or row["label"] in labels:
                    rows_by_label[row["label"], row["space_id"]] = row
            size = sum(row["bytes"] for row in rows_by_label.values())
            if size > PAGE_BYTES:
                raise MessageTooLarge(limit=PAGE_BYTES, size=size)
            positions = {_position(row) for row in rows_by_label.values()}
            ids = [block_id for block_id, _ in positions]
            block_rows = await reader.rows("get_blocks", block_ids=ids) if ids else []
        return [block_of(row) for row in block_rows if _position(row) in positions]

    async def _blocks(self, query: Query, *, tenant_id: UUID, **values: object) -> list[Block]:
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            rows = await tx.rows(query, tenant_id=tenant_id, **values)
        return [block_of(row) for row in rows]


async def _read(reader: TenantReader, rows: Sequence[asyncpg.Record]) -> list[Block]:
    """Return the blocks of rows with the trust in their writers."""
    blocks = [block_of(row) for row in rows]
    ratings = await _ratings(reader, (block.writers for block in blocks))
    return [but(block, trust=block.writers.trust(ratings)) for block in blocks] if ratings else blocks


async def _ratings(reader: TenantReader, writers: Iterable[Writers]) -> Mapping[str, float]:
    keys = {key for one in writers for key in one.keys}
    is_as_of = reader.as_of_time is not None
    return await lineage.read_ratings(reader.tx, reader.tenant_id, keys, is_as_of=is_as_of)


async def replace(
    tx: Transaction, tenant_id: UUID, before: Block, after: Block, *, at: datetime, by: str, event: str
) -> None:
    """Store the next revision of a locked block and the one before, and record the event. Raises BlockLabelTaken."""
    after = but(after, record_time=time_of_next_record(before.record_time, after.record_time))
    await _update_attachments(tx, tenant_id, before, after)
    revision_before = Revision(
        kind="block",
        item_id=before.block_id,
        revision=before.revision,
        state=before.state,
        from_time=before.record_time,
        until_time=after.record_time,
        changed_by=by,
        subject_id=before.draft.subject_id or None,
    )
    await writer.insert_revisions(tx, tenant_id, [revision_before])
    columns = {name: value for name, value in _columns(after).items() if name not in _IMMUTABLE_COLUMNS}
    await tx.execute(QUERIES["update_block"], tenant_id=tenant_id, **columns)
    changed_fields = [name for name, value in asdict(after.draft).items() if asdict(before.draft)[name] != value]
    await writer.insert_events(tx, tenant_id, [_event(event, after, changed_fields)], at=at, by=by)


async def _update_attachments(tx: Transaction, tenant_id: UUID, before: Block, after: Block) -> None:
    """Update the label and the subject in all attachments of a block. Raises BlockLabelTaken."""
    label_key = {"label": after.draft.label, "subject_id": after.draft.subject_id}
    if label_key == {"label": before.draft.label, "subject_id": before.draft.subject_id}:
        return
    keys = {"tenant_id": tenant_id, "block_id": after.block_id, **label_key}
    await tx.execute(QUERIES["release_labels"], **keys)
    if (other := await tx.row(QUERIES["find_block_with_label"], **keys)) is not None:
        raise BlockLabelTaken(label=after.draft.label, agent_id=other["agent_id"], block_id=other["block_id"])
    with translate_constraint_errors({"block_agents_label_key": BlockLabelTaken(label=after.draft.label)}):
        await tx.execute(QUERIES["rename_attachments"], **keys)


async def insert(tx: Transaction, tenant_id: UUID, block: Block) -> None:
    """Store a new block and record the event. Raises BlockExists."""
    with translate_constraint_errors({"blocks_pkey": BlockExists}):
        await tx.execute(QUERIES["insert_block"], tenant_id=tenant_id, **_columns(block))
    await writer.insert_events(
        tx, tenant_id, [_event("block_created", block)], at=block.record_time, by=block.updated_by
    )


async def lock_if_exists(tx: Transaction, tenant_id: UUID, block_id: str) -> Block | None:
    """Read a block, deleted or not, and lock it; None when there is none."""
    row = await tx.row(QUERIES["lock_block"], tenant_id=tenant_id, block_id=block_id)
    return None if row is None else block_of(row)


async def attach(tx: Transaction, tenant_id: UUID, block: Block, agent_id: str, *, at: datetime, by: str) -> bool:
    """Attach a locked block to an agent, and record the event; return whether it was not attached before.

    Raises AgentNotActive, BlockLabelTaken and AgentBlocksFull; none leaves a trace.
    """
    agent_key = {"agent_id": agent_id, "subject_id": block.draft.subject_id}
    await tx.rows(QUERIES["lock_agent"], tenant_id=tenant_id, agent_id=agent_id)
    keys = {"tenant_id": tenant_id, "agent_id": agent_id, "block_id": block.block_id}
    # First: a repeated import changes nothing, also for an agent that is deleted since.
    if await tx.row(QUERIES["get_attachment"], **keys) is not None:
        return False
    if await tx.row(QUERIES["deleted_agent"], tenant_id=tenant_id, agent_id=agent_id) is not None:
        raise AgentNotActive(agent_id=agent_id)
    if await tx.value(QUERIES["count_agent_blocks"], tenant_id=tenant_id, **agent_key) >= MAX_BLOCKS_PER_AGENT:
        raise AgentBlocksFull(limit=MAX_BLOCKS_PER_AGENT)
    await tx.execute(QUERIES["release_label"], tenant_id=tenant_id, label=block.draft.label, **agent_key)
    inserted = await tx.execute(
        QUERIES["attach_block"],
        label=block.draft.label,
        attach_time=at,
        attached_by=by,
        **keys,
        subject_id=block.draft.subject_id,
    )
    if not inserted:
        other_id = await tx.value(
            QUERIES["find_label_holder"], tenant_id=tenant_id, label=block.draft.label, **agent_key
        )
        raise BlockLabelTaken(label=block.draft.label, agent_id=agent_id, block_id=other_id)
    await writer.insert_events(tx, tenant_id, [_agent_event("block_attached", block.block_id, agent_id)], at=at, by=by)
    return True


async def _revisions(
    tx: Transaction, tenant_id: UUID, block_id: str, *, before_revision: int, count: int
) -> list[asyncpg.Record]:
    return await tx.rows(
        QUERIES["list_revisions"],
        tenant_id=tenant_id,
        kind="block",
        item_id=block_id,
        before_revision=before_revision,
        count=count,
    )


def _earlier_revision(row: asyncpg.Record) -> Block:
    return revision_of(row["item_id"], row["state"], revision=row["revision"], record_time=row["from_time"])


def _columns(block: Block) -> dict[str, object]:
    return asdict(block.draft) | {
        "block_id": block.block_id,
        "revision": block.revision,
        "create_time": block.create_time,
        "update_time": block.update_time,
        "record_time": block.record_time,
        "delete_time": block.delete_time,
        "created_by": block.created_by,
        "updated_by": block.updated_by,
        "writers": block.writers.text,
    }


def same(block: Block, other: Block) -> bool:
    """Return whether two blocks are equal; the format of their JSON does not matter."""
    return but(block.draft, metadata=None) == but(other.draft, metadata=None) and exact.equal_json(
        block.draft.metadata, other.draft.metadata
    )


def block_of(row: asyncpg.Record) -> Block:
    return Block(
        block_id=row["block_id"],
        draft=BlockDraft(**{name: row[name] for name in BlockDraft.__dataclass_fields__}),
        revision=row["revision"],
        create_time=row["create_time"],
        update_time=row["update_time"],
        record_time=row["record_time"],
        delete_time=row["delete_time"],
        created_by=row["created_by"],
        updated_by=row["updated_by"],
        writers=Writers.read(row["writers"]),
        space_id=row.get("space_id"),
    )


def _position(row: asyncpg.Record) -> Position:
    return row["block_id"], row["space_id"]


def _event(kind: str, block: Block, fields: Sequence[str] = ()) -> Event:
    payload: dict[str, object] = {"revision": block.revision}
    if fields:
        payload["fields"] = list(fields)
    verb = kind.removeprefix("block_")
    return Event(
        type=kind,
        entity_type="block",
        entity_id=block.block_id,
        summary=f"block {verb}{': ' if fields else ''}{', '.join(fields)}",
        payload=payload,
    )


def _agent_event(kind: str, block_id: str, agent_id: str) -> Event:
    verb = kind.removeprefix("block_")
    return Event(
        type=kind, entity_type="block", entity_id=block_id, summary=f"block {verb}", payload={"agent_id": agent_id}
    )
