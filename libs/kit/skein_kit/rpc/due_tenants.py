"""Pages of tenants in which the worker has something to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import DatabaseUnavailable
from skein_kit.rpc import pagination
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from uuid import UUID

    from google.protobuf.message import Message

    from skein_kit.database.named_queries import Query
    from skein_kit.database.transactions import Database

    Response = TypeVar("Response", bound=Message)

_DIRECTORY = Queries.load("skein_kit")["list_directory"]


async def list_due_tenants(
    database: Database, query: Query, request: Any, response_type: type[Response], **values: object
) -> Response:
    """Answer a ListDueTenants request with a page of the tenants that a query returns, by id.

    The query takes `after` and `size` beside `values`. It calls a function of the owner, which alone sees the rows of
    all tenants, in the transaction of an operator.
    """
    size = pagination.resolve_page_size(request.page_size)
    after = pagination.read_id(None, request) or NO_TENANT
    try:
        async with database.operator_transaction() as tx:
            due_ids = [row["tenant_id"] for row in await tx.rows(query, **values, after=after, size=size + 1)]
    except DatabaseUnavailable:
        due_ids = await list_directory(database, after, size + 1)
    tenant_ids = [str(tenant_id) for tenant_id in due_ids]
    token = pagination.write_token([tenant_ids[size - 1]], None, request) if len(tenant_ids) > size else ""
    return response_type(tenant_ids=tenant_ids[:size], next_page_token=token)


async def list_directory(database: Database, after: UUID, size: int) -> list[UUID]:
    """Return the next tenants by id, with work or without: for a list that a machine of Citus keeps from an answer.

    The coordinator has the directory, so the tenants on the other machines are visited. Raises DatabaseUnavailable
    elsewhere.
    """
    if not database.is_citus:
        raise DatabaseUnavailable
    logs.get(database.service).warning("citus_machine_away", list="due tenants")
    async with database.operator_transaction() as tx:
        return [row["tenant_id"] for row in await tx.rows(_DIRECTORY, after=after, size=size)]
