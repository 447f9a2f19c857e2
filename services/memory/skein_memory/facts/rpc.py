"""RPCs that end or purge the facts which extractors found in a message."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import json_text
from skein_memory.approvals.store import ApprovalStore
from skein_memory.erasure.store import PurgeStore
from skein_memory.facts.model import MessageState
from skein_memory.memories.model import Memory
from skein_memory.memories.store import MemoryStore


class FactHandlers:
    """Follows corrected, deleted and purged messages with the facts that were found in them."""

    def __init__(self, memories: MemoryStore, purges: PurgeStore, approvals: ApprovalStore) -> None:
        self._memories = memories
        self._approvals = approvals
        self._purges = purges

    async def RetractFacts(self, request: pb.RetractFactsRequest, context: Context) -> pb.RetractFactsResponse:
        caller, at = caller_of(context), now()
        tenant_id = caller.require_tenant()
        message = MessageState(
            message_id=UUID(request.message_id),
            change_time=request.before_time.ToDatetime(tzinfo=UTC),
            revision=request.revision,
        )
        proposed = await self._approvals.find_proposed(tenant_id, message.message_id)
        outdated = [row for row in proposed if message.makes_outdated(row["create_time"], _metadata_of(row["content"]))]
        await self._approvals.withdraw(tenant_id, outdated, at=at, by=caller.principal)
        retracted_count = await self._memories.end_facts(tenant_id, message, _ended, at=at, by=caller.principal)
        return pb.RetractFactsResponse(retracted_count=retracted_count)

    async def PurgeFacts(self, request: pb.PurgeFactsRequest, context: Context) -> pb.PurgeFactsResponse:
        caller = caller_of(context)
        purged_count = await self._purges.purge_facts(
            caller.require_tenant(), [UUID(id_) for id_ in request.message_ids], at=now(), by=caller.principal
        )
        return pb.PurgeFactsResponse(purged_count=purged_count)


def _metadata_of(content: bytes) -> str | None:
    """Return the metadata of a write that waits, as JSON text."""
    return json_text(pb.Memory.FromString(content), "metadata")


def _ended(fact: Memory, at: datetime, by: str) -> Memory:
    """Return the next revision of a fact whose message no longer says it; itself where it has ended already."""
    draft = fact.draft
    end = at if draft.valid_from_time is None else max(at, draft.valid_from_time)
    if draft.valid_to_time is not None:
        end = min(end, draft.valid_to_time)
    ended = replace(draft, key=None, valid_to_time=end)
    return fact if ended == draft else fact.revise(ended, at=at, by=by)
