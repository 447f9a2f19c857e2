"""Handlers of the RPCs for blocks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from google.protobuf.message import Message

from skein.memory.v1 import blocks_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.content_guard.guard import ContentGuard, GuardRules
from skein_kit.errors import FieldInvalid, PageTokenInvalid, UpdateMaskInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import now, parse_id
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import read_token, resolve_page_size, write_token
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import merge_masked, to_timestamp, updated_fields
from skein_memory.blocks import convert
from skein_memory.blocks import text as block_text
from skein_memory.blocks.model import Block, Position
from skein_memory.blocks.store import BlockStore
from skein_memory.errors import BlockNotFound, BlockTemplateNotFound
from skein_memory.paging import PageBuilder
from skein_memory.validation import prefix_field_paths

Response = TypeVar("Response", bound=Message)

UPDATABLE = frozenset(
    {
        "label", "value", "limit", "description", "read_only", "is_template", "template_name", "subject_id", "metadata",
    }
)  # fmt: skip
# Before every block.
_FIRST: Position = ("", DEFAULT_SPACE)
# Digits of the highest revision.
_MAX_DIGITS = 18


class BlockHandlers:
    """Storing, changing, sharing and compiling blocks."""

    def __init__(self, store: BlockStore, idempotency: IdempotencyStore, guard: ContentGuard) -> None:
        """Judge with `guard` what a block becomes by an edit; the chain judges the texts of requests."""
        self._store = store
        self._guard = guard
        self._idempotency = idempotency

    async def CreateBlock(self, request: pb.CreateBlockRequest, context: Context) -> pb.CreateBlockResponse:
        caller, at = caller_of(context), now()
        with prefix_field_paths("block"):
            block = Block.create(
                convert.draft(request.block), block_id=request.block.block_id, at=at, by=caller.principal
            )
            times = ImportTimes.read(request.block, caller, at, keep_times=request.keep_times)
            block = replace(block, create_time=times.create_time, update_time=times.update_time)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.create_block(write.tx, caller.require_tenant(), block, agent_id=request.agent_id)
            return await write.save(pb.CreateBlockResponse(block=convert.block(block)))

    async def CreateBlockFromTemplate(
        self, request: pb.CreateBlockFromTemplateRequest, context: Context
    ) -> pb.CreateBlockFromTemplateResponse:
        caller, at = caller_of(context), now()
        rules = await self._guard.rules(caller.require_tenant())
        async with self._idempotency.begin(caller, request) as write:
            template = await self._store.read_block(write.tx, caller.require_tenant(), request.template_block_id)
            if template is None or not template.is_active or not template.draft.is_template:
                raise BlockTemplateNotFound
            message = _fill_block(template, request)
            with prefix_field_paths("block"):
                block = Block.create(convert.draft(message), block_id=message.block_id, at=at, by=caller.principal)
            # The words are the template's.
            block = replace(block, writers=block.writers.joined(template.writers))
            block = await self._screened(rules, block)
            await self._store.create_block(write.tx, caller.require_tenant(), block, agent_id=request.agent_id)
            return await write.save(pb.CreateBlockFromTemplateResponse(block=convert.block(block)))

    async def GetBlock(self, request: pb.GetBlockRequest, context: Context) -> pb.GetBlockResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        if request.revision:
            revision = await self._store.get_block_revision(tenant_id, request.block_id, request.revision)
            return pb.GetBlockResponse(block=convert.block(revision))
        block = await self._store.get_block(
            tenant_id, request.block_id, at=at, as_of_time=read_as_of_time(request, at=at)
        )
        if block is None or not (block.is_active or request.show_deleted):
            raise BlockNotFound
        return pb.GetBlockResponse(block=convert.block(block))

    async def ListBlocks(self, request: pb.ListBlocksRequest, context: Context) -> pb.ListBlocksResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        as_of_time = read_as_of_time(request, at=at)

        async def read(after: Position, count: int) -> list[Block]:
            return await self._store.list_blocks(
                tenant_id,
                after=after,
                count=count,
                label=request.label or None,
                subject_id=request.subject_id or None,
                template_name=request.template_name or None,
                is_template=request.is_template if request.HasField("is_template") else None,
                show_deleted=request.show_deleted,
                at=at,
                as_of_time=as_of_time,
            )

        blocks, token = await _page(request, tenant_id, read)
        return pb.ListBlocksResponse(blocks=blocks, next_page_token=token)

    async def UpdateBlock(self, request: pb.UpdateBlockRequest, context: Context) -> pb.UpdateBlockResponse:
        caller, at = caller_of(context), now()
        if not request.block.block_id:
            raise FieldInvalid(violations=[("block.block_id", "must name the block")])
        if not request.update_mask.paths:
            raise UpdateMaskInvalid(violations=[("update_mask", "must name at least one field")])
        updated_fields(request.update_mask, UPDATABLE)

        def change(block: Block) -> Block:
            block.check_revision(request.block.revision)
            message = convert.block(block)
            merge_masked(request.update_mask, request.block, message)
            with prefix_field_paths("block"):
                draft = convert.draft(message)
            return block.revise(draft, at=at, by=caller.principal)

        return await self._change(caller, request, request.block.block_id, change, pb.UpdateBlockResponse, at=at)

    async def DeleteBlock(self, request: pb.DeleteBlockRequest, context: Context) -> pb.DeleteBlockResponse:
        caller, at = caller_of(context), now()

        def change(block: Block) -> Block:
            block.check_revision(request.revision)
            return block.delete(at=at, by=caller.principal)

        return await self._change(
            caller, request, request.block_id, change, pb.DeleteBlockResponse, at=at, event="block_deleted"
        )

    async def UndeleteBlock(self, request: pb.UndeleteBlockRequest, context: Context) -> pb.UndeleteBlockResponse:
        caller, at = caller_of(context), now()

        def change(block: Block) -> Block:
            return block if block.is_active else block.undelete(at=at, by=caller.principal)

        return await self._change(
            caller, request, request.block_id, change, pb.UndeleteBlockResponse, at=at, event="block_restored"
        )

    async def AppendToBlock(self, request: pb.AppendToBlockRequest, context: Context) -> pb.AppendToBlockResponse:
        def value(current: str) -> str:
            return block_text.append(current, request.text)

        return await self._write(request, context, value, pb.AppendToBlockResponse)

    async def ReplaceInBlock(self, request: pb.ReplaceInBlockRequest, context: Context) -> pb.ReplaceInBlockResponse:
        def value(current: str) -> str:
            return block_text.replace(current, request.old_text, request.new_text)

        return await self._write(request, context, value, pb.ReplaceInBlockResponse)

    async def InsertIntoBlock(self, request: pb.InsertIntoBlockRequest, context: Context) -> pb.InsertIntoBlockResponse:
        def value(current: str) -> str:
            return block_text.insert(current, request.text, request.line if request.HasField("line") else None)

        return await self._write(request, context, value, pb.InsertIntoBlockResponse)

    async def AttachBlock(self, request: pb.AttachBlockRequest, context: Context) -> pb.AttachBlockResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.attach_block(
                write.tx, caller.require_tenant(), request.block_id, request.agent_id, at=now(), by=caller.principal
            )
            await write.save(pb.AttachBlockResponse())
        return pb.AttachBlockResponse()

    async def DetachBlock(self, request: pb.DetachBlockRequest, context: Context) -> pb.DetachBlockResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.detach_block(
                write.tx, caller.require_tenant(), request.block_id, request.agent_id, at=now(), by=caller.principal
            )
            await write.save(pb.DetachBlockResponse())
        return pb.DetachBlockResponse()

    async def ListBlockAgents(self, request: pb.ListBlockAgentsRequest, context: Context) -> pb.ListBlockAgentsResponse:
        at, tenant_id, size = now(), caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        agents = await self._store.list_block_agents(
            tenant_id,
            request.block_id,
            after=_cursor(request, tenant_id),
            count=size + 1,
            at=at,
            as_of_time=read_as_of_time(request, at=at),
        )
        page = [
            pb.BlockAgent(agent_id=agent_id, attach_time=to_timestamp(attach_time), attached_by=by)
            for agent_id, attach_time, by in agents[:size]
        ]
        has_more = len(agents) > size
        return pb.ListBlockAgentsResponse(
            agents=page, next_page_token=write_token([page[-1].agent_id], tenant_id, request) if has_more else ""
        )

    async def ListAgentBlocks(self, request: pb.ListAgentBlocksRequest, context: Context) -> pb.ListAgentBlocksResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        as_of_time = read_as_of_time(request, at=at)
        # The empty text selects blocks without a subject, None all blocks.
        subject_id = request.subject_id if request.hide_other_subjects else request.subject_id or None

        async def read(after: Position, count: int) -> list[Block]:
            return await self._store.list_agent_blocks(
                tenant_id, request.agent_id, subject_id, after=after, count=count, at=at, as_of_time=as_of_time
            )

        blocks, token = await _page(request, tenant_id, read)
        return pb.ListAgentBlocksResponse(blocks=blocks, next_page_token=token)

    async def CompileBlocks(self, request: pb.CompileBlocksRequest, context: Context) -> pb.CompileBlocksResponse:
        at = now()
        blocks = await self._store.prompt_blocks(
            caller_of(context).require_tenant(),
            request.agent_id,
            request.subject_id,
            list(request.labels),
            min_trust=request.min_trust,
            at=at,
            as_of_time=read_as_of_time(request, at=at),
        )
        blocks.sort(key=lambda block: block_text.prompt_order(block.draft.label))
        text = block_text.render(blocks, request.variables)
        return pb.CompileBlocksResponse(
            text=text,
            character_count=len(text),
            block_ids=[block.block_id for block in blocks],
            nearly_full_block_ids=[block.block_id for block in blocks if block.is_nearly_full],
        )

    async def ListBlockRevisions(
        self, request: pb.ListBlockRevisionsRequest, context: Context
    ) -> pb.ListBlockRevisionsResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        cursor = _cursor(request, tenant_id)
        if cursor and not (cursor.isdecimal() and len(cursor) <= _MAX_DIGITS):
            raise PageTokenInvalid
        before, has_more = int(cursor) if cursor else None, True
        builder = PageBuilder[pb.BlockRevision]()
        while has_more and len(builder.items) < size and not builder.is_full:
            count = builder.next_batch_size(size - len(builder.items))
            rows = await self._store.list_revisions(tenant_id, request.block_id, before=before, count=count + 1)
            has_more = builder.add(_revision(*row) for row in rows[:count]) < len(rows)
            before = rows[:count][-1][0].revision if rows else None
        page = builder.items
        token = write_token([str(page[-1].block.revision)], tenant_id, request) if has_more else ""
        return pb.ListBlockRevisionsResponse(revisions=page, next_page_token=token)

    async def RevertBlock(self, request: pb.RevertBlockRequest, context: Context) -> pb.RevertBlockResponse:
        caller, at = caller_of(context), now()

        async with self._idempotency.begin(caller, request) as write:
            before = await self._store.lock_block(write.tx, caller.require_tenant(), request.block_id)
            revision = await self._store.read_revision(
                write.tx, caller.require_tenant(), request.block_id, request.to_revision
            )
            before.check_revision(request.revision)
            after = before.revert(revision, at=at, by=caller.principal)
            await self._store.update_block(write.tx, caller.require_tenant(), before, after, at=at, by=caller.principal)
            return await write.save(pb.RevertBlockResponse(block=convert.block(after)))

    async def _write(
        self,
        request: pb.AppendToBlockRequest | pb.ReplaceInBlockRequest | pb.InsertIntoBlockRequest,
        context: Context,
        value: Callable[[str], str],
        response: type[Response],
    ) -> Response:
        """Change the value of a block, and nothing else."""
        caller, at = caller_of(context), now()

        def change(block: Block) -> Block:
            block.check_revision(request.revision)
            block.check_writable()
            return block.write(value(block.draft.value), at=at, by=caller.principal)

        rules = await self._guard.rules(caller.require_tenant())
        return await self._change(caller, request, request.block_id, change, response, at=at, rules=rules)

    async def _screened(self, rules: GuardRules, block: Block) -> Block:
        """Return a block whose value the policy allows as a whole: two pieces may be a secret that neither is.

        Raises ContentRefused. The detector's endpoint is not asked: within a transaction nothing waits for it.
        """
        message = pb.Block(value=block.draft.value)
        await self._guard.apply(rules, message, path="block", built_in_only=True)
        if message.value == block.draft.value:
            return block
        return replace(block, draft=block.draft.with_value(message.value))

    async def _change(
        self,
        caller: Caller,
        request: Message,
        block_id: str,
        change: Callable[[Block], Block],
        kind: type[Response],
        *,
        at: datetime,
        event: str = "block_updated",
        rules: GuardRules | None = None,
    ) -> Response:
        """Store what a block becomes; `rules` judge its value, if any."""
        async with self._idempotency.begin(caller, request) as write:
            before = await self._store.lock_block(write.tx, caller.require_tenant(), block_id)
            after = change(before)
            if rules is not None:
                after = await self._screened(rules, after)
            await self._store.update_block(
                write.tx, caller.require_tenant(), before, after, at=at, by=caller.principal, event=event
            )
            response = kind()
            if "block" in kind.DESCRIPTOR.fields_by_name:
                response.block.CopyFrom(convert.block(after))  # type: ignore[attr-defined]  # As just seen.
            return await write.save(response)


async def _page(
    request: pb.ListBlocksRequest | pb.ListAgentBlocksRequest,
    tenant_id: UUID,
    read: Callable[[Position, int], Awaitable[list[Block]]],
) -> tuple[list[pb.Block], str]:
    """Read a page in batches that fit the response; return it with the token of the next page, empty after the last."""
    size, after, has_more = resolve_page_size(request.page_size), _position(request, tenant_id), True
    builder, positions = PageBuilder[pb.Block](), list[Position]()
    while has_more and len(builder.items) < size and not builder.is_full:
        count = builder.next_batch_size(size - len(builder.items))
        blocks = await read(after, count + 1)
        has_more = builder.add(convert.block(block) for block in blocks[:count]) < len(blocks)
        positions += [(block.block_id, block.space_id or DEFAULT_SPACE) for block in blocks[:count]]
        after = positions[-1] if blocks else _FIRST
    if not has_more:
        return builder.items, ""
    block_id, space_id = positions[len(builder.items) - 1]
    return builder.items, write_token([block_id, str(space_id)], tenant_id, request)


def _position(request: pb.ListBlocksRequest | pb.ListAgentBlocksRequest, tenant_id: UUID) -> Position:
    """Return the last block of the page before."""
    cursor = read_token(request.page_token, tenant_id, request)
    if cursor is None:
        return _FIRST
    space_id = parse_id(cursor[-1])
    if len(cursor) != 2 or "\0" in cursor[0] or space_id is None:  # noqa: PLR2004 - an id and its space.
        raise PageTokenInvalid
    return cursor[0], space_id


def _cursor(request: Message, tenant_id: UUID) -> str:
    """Return the last name of the page before; empty for the first page."""
    cursor = read_token(request.page_token, tenant_id, request)  # type: ignore[attr-defined]  # Every list has one.
    if cursor is None:
        return ""
    if len(cursor) != 1 or "\0" in cursor[0]:
        raise PageTokenInvalid
    return cursor[0]


def _revision(block: Block, until: datetime, by: str) -> pb.BlockRevision:
    return pb.BlockRevision(block=convert.block(block), until_time=to_timestamp(until), changed_by=by)


def _fill_block(template: Block, request: pb.CreateBlockFromTemplateRequest) -> pb.Block:
    """Return the block of a template: its value filled in, other fields from the request where it has them."""
    fields, variables = request.block, dict(request.variables)
    if fields.value:
        raise FieldInvalid(violations=[("block.value", "comes from the template")])
    unknown_names = sorted(variables.keys() - set(block_text.variables_of(template.draft.value)))
    if unknown_names:
        raise FieldInvalid(
            violations=[(f"variables.{name}", "is no variable of the template") for name in unknown_names]
        )
    message = convert.block(template)
    for field in ("label", "limit", "description", "subject_id"):
        if value := getattr(fields, field):
            setattr(message, field, value)
    if fields.HasField("metadata"):
        message.metadata.CopyFrom(fields.metadata)
        message.metadata_json = fields.metadata_json
    message.block_id = fields.block_id
    message.value = block_text.fill_template(template.draft.value, variables)
    message.read_only = fields.read_only or template.draft.read_only
    message.is_template = False
    return message
