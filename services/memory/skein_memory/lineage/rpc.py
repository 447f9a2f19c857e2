"""Handlers of the RPCs for lineages and the trust along them."""

from __future__ import annotations

from uuid import UUID

from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid, PageTokenInvalid
from skein_kit.ids import now, parse_id
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import read_token, resolve_page_size, write_token
from skein_kit.text.source_keys import source_key
from skein_memory.lineage import convert
from skein_memory.lineage.model import NodeKey
from skein_memory.lineage.rescoring import TrustRescorer
from skein_memory.lineage.store import LineageStore

# Memories that one call computes.
DEFAULT_RESCORE_LIMIT = 1000


class LineageHandlers:
    """Lineages: read, searched for what derives from a source, and trust computed again."""

    def __init__(self, store: LineageStore, rescorer: TrustRescorer) -> None:
        self._store = store
        self._rescorer = rescorer

    async def GetLineage(self, request: pb.GetLineageRequest, context: Context) -> pb.GetLineageResponse:
        caller, at = caller_of(context), now()
        reader = request.visible_to if request.HasField("visible_to") else None
        as_of_time = read_as_of_time(request, at=at)
        memory_ids, lineage = await self._store.read(
            caller.require_tenant(), list(request.memory_ids), as_of_time, at=at
        )
        return convert.lineage(lineage, memory_ids, reader, may_read_messages="session.read" in caller.permissions)

    async def ListImpacted(self, request: pb.ListImpactedRequest, context: Context) -> pb.ListImpactedResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        position = read_token(request.page_token, tenant_id, request)
        after_id = None if position is None else parse_id(position[0])
        if position is not None and after_id is None:
            raise PageTokenInvalid
        page = await self._store.list_impacted(
            tenant_id, _node_of(request.source), after_id=after_id, count=size, at=now()
        )
        return pb.ListImpactedResponse(
            memories=[
                pb.ImpactedMemory(
                    memory_id=str(one.memory_id), trust=one.trust, has_erased_source=one.has_erased_source
                )
                for one in page.memories
            ],
            next_page_token="" if page.after_id is None else write_token([str(page.after_id)], tenant_id, request),
            truncated=page.is_truncated,
        )

    async def RescoreTrust(
        self, request: memory_pb2.RescoreTrustRequest, context: Context
    ) -> memory_pb2.RescoreTrustResponse:
        tenant_id, limit = caller_of(context).require_tenant(), request.limit or DEFAULT_RESCORE_LIMIT
        rescored_count, changed_count, step_count, more = 0, 0, 0, True
        # A step that finds nothing to compute costs as much as a memory.
        while more and rescored_count + step_count < limit:
            step_count += 1
            step = await self._rescorer.step(tenant_id, at=now())
            rescored_count, changed_count = rescored_count + step.rescored_count, changed_count + step.changed_count
            more = step.has_more
        return memory_pb2.RescoreTrustResponse(rescored_count=rescored_count, changed_count=changed_count, more=more)


def _node_of(source: memory_pb2.SourceReference) -> NodeKey:
    """Return the node of a source. Raises FieldInvalid."""
    kind = convert.KINDS[source.kind]
    key: UUID | str | None = parse_id(source.id) if kind in {"message", "memory"} else source_key(source.name)
    if not key:
        field, text = ("id", "is no UUID") if kind in {"message", "memory"} else ("name", "holds only spaces")
        raise FieldInvalid(violations=[(f"source.{field}", text)])
    return kind, key
