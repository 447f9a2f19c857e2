"""Handlers of the RPCs for trust in sources."""

from __future__ import annotations

from skein.memory.v1 import curation_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_kit.rpc.pagination import read_token, resolve_page_size
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import to_message
from skein_memory.paging import cut_page
from skein_memory.source_trust.model import SourceTrust, TrustDraft, key_of
from skein_memory.source_trust.store import SourceTrustStore
from skein_memory.validation import check_storable


class SourceTrustHandlers:
    """Trust in sources: set, read and deleted."""

    def __init__(self, store: SourceTrustStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def SetSourceTrust(self, request: pb.SetSourceTrustRequest, context: Context) -> pb.SetSourceTrustResponse:
        caller, at = caller_of(context), now()
        draft = _draft(request, ImportTimes.read(request, caller, at, keep_times=request.keep_times))

        async with self._idempotency.begin(caller, request) as write:
            trust = await self._store.set_source_trust(
                write.tx, caller.require_tenant(), draft, at=at, by=caller.principal
            )
            return await write.save(pb.SetSourceTrustResponse(source_trust=_source_trust(trust)))

    async def GetSourceTrust(self, request: pb.GetSourceTrustRequest, context: Context) -> pb.GetSourceTrustResponse:
        trust = await self._store.get_source_trust(caller_of(context).require_tenant(), key_of(request.source))
        return pb.GetSourceTrustResponse(source_trust=_source_trust(trust))

    async def ListSourceTrust(self, request: pb.ListSourceTrustRequest, context: Context) -> pb.ListSourceTrustResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        position = read_token(request.page_token, tenant_id, request) or [""]
        trusts = await self._store.list_source_trust(tenant_id, after=position[0], count=size + 1)
        page, token = cut_page(map(_source_trust, trusts), size, "source_key", tenant_id, request)
        return pb.ListSourceTrustResponse(source_trust=page, next_page_token=token)

    async def DeleteSourceTrust(
        self, request: pb.DeleteSourceTrustRequest, context: Context
    ) -> pb.DeleteSourceTrustResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_source_trust(
                write.tx, caller.require_tenant(), key_of(request.source), at=now(), by=caller.principal
            )
            await write.save(pb.DeleteSourceTrustResponse())
        return pb.DeleteSourceTrustResponse()


def _draft(request: pb.SetSourceTrustRequest, times: ImportTimes) -> TrustDraft:
    check_storable([("notes", request.notes)], [])
    return TrustDraft(
        source_key=key_of(request.source),
        trust=request.trust if request.HasField("trust") else None,
        notes=request.notes if request.HasField("notes") else None,
        revision=request.revision,
        times=times,
    )


def _source_trust(value: SourceTrust) -> pb.SourceTrust:
    return to_message(pb.SourceTrust, value, source=value.source_key)
