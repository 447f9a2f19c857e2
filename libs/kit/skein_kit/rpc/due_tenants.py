"""Pages of tenants in which the worker has something to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from skein_kit.database.transactions import NO_TENANT
from skein_kit.rpc import pagination

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from skein_kit.database.named_queries import Query
    from skein_kit.database.transactions import Database

    Response = TypeVar("Response", bound=Message)


async def list_due_tenants(
    database: Database, query: Query, request: Any, response_type: type[Response], **values: object
) -> Response:
    """Answer a ListDueTenants request with a page of the tenants that a query returns, by id.

    The query takes `after` and `size` beside `values`. It calls a function of the owner, which alone sees the rows of
    all tenants, in the transaction of an operator.
    """
    size = pagination.resolve_page_size(request.page_size)
    after = pagination.read_id(None, request) or NO_TENANT
    async with database.operator_transaction() as tx:
        rows = await tx.rows(query, **values, after=after, size=size + 1)
    tenant_ids = [str(row["tenant_id"]) for row in rows]
    token = pagination.write_token([tenant_ids[size - 1]], None, request) if len(tenant_ids) > size else ""
    return response_type(tenant_ids=tenant_ids[:size], next_page_token=token)
