"""Handlers of the RPCs for aliases."""

from __future__ import annotations

from skein.memory.v1 import curation_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import read_id, resolve_page_size
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import to_message
from skein_memory.aliases.model import DEFAULT_CONFIDENCE, Alias, AliasDraft
from skein_memory.aliases.store import AliasStore
from skein_memory.paging import cut_page
from skein_memory.validation import check_storable


class AliasHandlers:
    """Aliases and their canonical memories."""

    def __init__(self, store: AliasStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def ResolveEntity(self, request: pb.ResolveEntityRequest, context: Context) -> pb.ResolveEntityResponse:
        caller, at = caller_of(context), now()
        draft = _draft(request, ImportTimes.read(request, caller, at, keep_times=request.keep_times))

        async with self._idempotency.begin(caller, request) as write:
            alias, moved_count = await self._store.resolve_entity(
                write.tx, caller.require_tenant(), draft, at=at, by=caller.principal
            )
            return await write.save(pb.ResolveEntityResponse(alias=_alias(alias), moved_count=moved_count))

    async def GetCanonicalMemory(
        self, request: pb.GetCanonicalMemoryRequest, context: Context
    ) -> pb.GetCanonicalMemoryResponse:
        at = now()
        canonical_id, alias = await self._store.get_canonical_memory(
            caller_of(context).require_tenant(),
            request.memory_id,
            at=at,
            as_of_time=read_as_of_time(request, at=at),
        )
        return pb.GetCanonicalMemoryResponse(
            canonical_memory_id=str(canonical_id), alias=None if alias is None else _alias(alias)
        )

    async def ListAliases(self, request: pb.ListAliasesRequest, context: Context) -> pb.ListAliasesResponse:
        at, tenant_id, size = now(), caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        aliases = await self._store.list_aliases(
            tenant_id,
            request.memory_id,
            after=read_id(tenant_id, request),
            count=size + 1,
            at=at,
            as_of_time=read_as_of_time(request, at=at),
        )
        page, token = cut_page(map(_alias, aliases), size, "alias_memory_id", tenant_id, request)
        return pb.ListAliasesResponse(aliases=page, next_page_token=token)

    async def DeleteAlias(self, request: pb.DeleteAliasRequest, context: Context) -> pb.DeleteAliasResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_alias(
                write.tx, caller.require_tenant(), request.alias_memory_id, at=now(), by=caller.principal
            )
            await write.save(pb.DeleteAliasResponse())
        return pb.DeleteAliasResponse()


def _draft(request: pb.ResolveEntityRequest, times: ImportTimes) -> AliasDraft:
    check_storable([("note", request.note)], [])
    return AliasDraft(
        alias_name=request.alias_memory_id,
        canonical_name=request.canonical_memory_id,
        confidence=request.confidence if request.HasField("confidence") else DEFAULT_CONFIDENCE,
        note=request.note or None,
        archive=request.archive_alias,
        times=times,
    )


def _alias(value: Alias) -> pb.Alias:
    return to_message(pb.Alias, value)
