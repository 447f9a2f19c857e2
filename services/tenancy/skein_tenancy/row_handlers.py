"""RPCs of resources whose ids callers choose (agents, subjects, tools): parse, one call, reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID

from google.protobuf.message import Message

from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_kit.rpc import pagination, well_known_types
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.rows import RowChange, RowDraft, RowStore

Row = TypeVar("Row")
Response = TypeVar("Response", bound=Message)


class RowHandlers(ABC, Generic[Row]):
    """What answers the RPCs of a resource. A subclass names the RPCs, and reads the values of a message."""

    noun: str
    updatable: Sequence[str]
    message: type[Message]

    def __init__(self, store: RowStore[Row], idempotency: IdempotencyStore) -> None:
        self._rows = store
        self._idempotency = idempotency

    @abstractmethod
    async def values(self, message: Any, names: Iterable[str]) -> dict[str, object]:
        """Return the values of some fields by column, JSON as text. Raises FieldInvalid."""

    def to_message(self, row: Any) -> Message:
        return well_known_types.to_message(self.message, row)

    async def create(self, request: Any, context: Context, response: type[Response]) -> Response:
        caller, message = caller_of(context), getattr(request, self.noun)
        values = await self.values(message, self.updatable)
        draft = RowDraft(row_id=getattr(message, f"{self.noun}_id"), values=values)
        times = ImportTimes.read(message, caller, now(), keep_times=request.keep_times)
        async with self._idempotency.begin(caller, request) as write:
            row = await self._rows.create(write.tx, caller.require_tenant(), draft, times, created_by=caller.principal)
            return await write.save(self._response(response, row))

    async def get(self, request: Any, context: Context, response: type[Response]) -> Response:
        row_id = getattr(request, f"{self.noun}_id")
        return self._response(response, await self._rows.get(caller_of(context).require_tenant(), row_id))

    def page(
        self,
        request: Any,
        tenant_id: UUID,
        rows: Sequence[Row],
        response: type[Response],
        *,
        position: Callable[[Any], list[str]] | None = None,
    ) -> Response:
        """Return a page of rows, of which one beyond the page shows that there is a next one."""
        size = pagination.resolve_page_size(request.page_size)
        position = position or (lambda row: [getattr(row, f"{self.noun}_id")])
        page, token = pagination.fit_rows(rows, self.to_message, position, request, tenant_id, size=size)
        return response(**{f"{self.noun}s": page, "next_page_token": token})

    async def update(self, request: Any, context: Context, response: type[Response]) -> Response:
        """Change the fields that the mask names, or all when it is empty."""
        caller, message = caller_of(context), getattr(request, self.noun)
        names = well_known_types.updated_fields(request.update_mask, self.updatable)
        change = RowChange(
            row_id=getattr(message, f"{self.noun}_id"),
            revision=message.revision,
            values=await self.values(message, names),
        )
        async with self._idempotency.begin(caller, request) as write:
            row = await self._rows.update(write.tx, caller.require_tenant(), change, updated_by=caller.principal)
            return await write.save(self._response(response, row))

    async def delete(self, request: Any, context: Context, response: type[Response]) -> Response:
        caller, row_id = caller_of(context), getattr(request, f"{self.noun}_id")
        async with self._idempotency.begin(caller, request) as write:
            await self._rows.delete(write.tx, caller.require_tenant(), row_id, deleted_by=caller.principal)
        return response()

    async def undelete(self, request: Any, context: Context, response: type[Response]) -> Response:
        caller, row_id = caller_of(context), getattr(request, f"{self.noun}_id")
        async with self._idempotency.begin(caller, request) as write:
            row = await self._rows.undelete(write.tx, caller.require_tenant(), row_id, updated_by=caller.principal)
            return await write.save(self._response(response, row))

    async def purge(
        self, request: Any, context: Context, response: type[Response], *, saved_by: Sequence[type[Message]] = ()
    ) -> Response:
        """Remove a row for good, and from the saved responses of the requests of these types."""
        caller, row_id = caller_of(context), getattr(request, f"{self.noun}_id")
        async with self._idempotency.begin(caller, request) as write:
            tenant_id = caller.require_tenant()
            await self._rows.purge(write.tx, tenant_id, row_id, purged_by=caller.principal)
            if saved_by:
                await self._rows.clear_responses(
                    write.tx,
                    tenant_id,
                    methods=[kind.DESCRIPTOR.full_name for kind in saved_by],
                    # The row begins with its id inside a saved response.
                    prefix=self.message(**{f"{self.noun}_id": row_id}).SerializeToString(),
                )
        return response()

    def _response(self, response: type[Response], row: Row) -> Response:
        return response(**{self.noun: self.to_message(row)})
