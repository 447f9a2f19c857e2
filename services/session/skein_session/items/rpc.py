"""RPCs of items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import states_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.row_times import ImportTimes
from skein_session.items import convert
from skein_session.items.model import ItemPut
from skein_session.page_tokens import keys_from_page_token

if TYPE_CHECKING:
    from skein_session.items.store import ItemStore


class ItemRpc:
    """Puts, reads and deletes items."""

    def __init__(self, items: ItemStore) -> None:
        self._items = items

    async def PutItem(self, request: pb.PutItemRequest, context: Context) -> pb.PutItemResponse:
        identity, at = caller(context), now()
        times = ImportTimes.of(request, identity, at, keep_times=request.keep_times)
        return await self._items.put_item(
            identity, IdempotencyKey.of(identity, request), ItemPut.of(request, at=at, times=times), at
        )

    async def GetItem(self, request: pb.GetItemRequest, context: Context) -> pb.GetItemResponse:
        row = await self._items.get_item(caller(context).tenant(), request.session_id, request.key, now())
        return pb.GetItemResponse(item=convert.session_item(row))

    async def ListItems(self, request: pb.ListItemsRequest, context: Context) -> pb.ListItemsResponse:
        tenant_id = caller(context).tenant()
        after_key, _ = keys_from_page_token(read_token(request.page_token, tenant_id, request))
        size = resolve_page_size(request.page_size)
        rows = await self._items.list_items(
            tenant_id, request.session_id, prefix=request.prefix or None, after_key=after_key, at=now(), limit=size + 1
        )
        items = fit_items(convert.session_item(row) for row in rows[:size])
        response = pb.ListItemsResponse(items=items)
        if len(rows) > len(items):
            response.next_page_token = write_token([items[-1].key, ""], tenant_id, request)
        return response

    async def DeleteItem(self, request: pb.DeleteItemRequest, context: Context) -> pb.DeleteItemResponse:
        identity = caller(context)
        return await self._items.delete_item(
            identity.tenant(), IdempotencyKey.of(identity, request), request.session_id, request.key, now()
        )
