"""RPCs of items. A claim saves an empty response, so deletions save none."""

from __future__ import annotations

from skein.session.v1 import states_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import now
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.row_times import ImportTimes
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.items import convert
from skein_session.items.store import ItemStore
from skein_session.page_tokens import keys_from_page_token


class ItemHandlers:
    """Puts, reads and deletes items."""

    def __init__(self, store: ItemStore, idempotency: SessionIdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def PutSessionItem(self, request: pb.PutSessionItemRequest, context: Context) -> pb.PutSessionItemResponse:
        caller, at = caller_of(context), now()
        times = ImportTimes.read(request, caller, at, keep_times=request.keep_times)
        put = convert.item_put(request, at=at, times=times)
        async with self._idempotency.begin(caller, request) as write:
            row = await self._store.put_item(write.tx, caller.require_tenant(), put, at=at, created_by=caller.principal)
            return await write.save(pb.PutSessionItemResponse(item=convert.session_item(row)))

    async def GetSessionItem(self, request: pb.GetSessionItemRequest, context: Context) -> pb.GetSessionItemResponse:
        row = await self._store.get_item(caller_of(context).require_tenant(), request.session_id, request.key, now())
        return pb.GetSessionItemResponse(item=convert.session_item(row))

    async def ListSessionItems(
        self, request: pb.ListSessionItemsRequest, context: Context
    ) -> pb.ListSessionItemsResponse:
        tenant_id = caller_of(context).require_tenant()
        after_key, *_ = keys_from_page_token(read_token(request.page_token, tenant_id, request))
        size = resolve_page_size(request.page_size)
        rows = await self._store.list_items(
            tenant_id, request.session_id, prefix=request.prefix or None, after_key=after_key, at=now(), limit=size + 1
        )
        items = fit_items(convert.session_item(row) for row in rows[:size])
        response = pb.ListSessionItemsResponse(items=items)
        if len(rows) > len(items):
            response.next_page_token = write_token([items[-1].key, "", str(DEFAULT_SPACE)], tenant_id, request)
        return response

    async def DeleteSessionItem(
        self, request: pb.DeleteSessionItemRequest, context: Context
    ) -> pb.DeleteSessionItemResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_item(write.tx, caller.require_tenant(), request.session_id, request.key, now())
        return pb.DeleteSessionItemResponse()
