"""Every database call of the tenancy service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.database import NO_TENANT, refusing
from skein_kit.errors import RevisionStale
from skein_kit.ids import new_id, now
from skein_kit.requests import Requests
from skein_kit.sql import Queries
from skein_tenancy import wire
from skein_tenancy.errors import (
    AgentExists,
    AgentNotFound,
    OrganizationExists,
    OrganizationNotEmpty,
    OrganizationNotFound,
    TenantExists,
    TenantNotFound,
)

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    import asyncpg
    from google.protobuf.message import Message

    from skein_kit.database import Database, Transaction
    from skein_kit.requests import Once
    from skein_tenancy import agents, directory

QUERIES = Queries.of("skein_tenancy")


class Store:
    """The tables of the tenancy schema.

    Where a method takes `own`, it is the one tenant that the caller sees, None for a caller that sees all. Methods that
    take `once` do their work once for each request and return the first answer whenever it is repeated.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._requests = Requests("tenancy")

    async def create_organization(self, draft: directory.Draft, once: Once) -> pb.CreateOrganizationResponse:
        async with self._database.operator() as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.CreateOrganizationResponse.FromString(first)
            at = now()
            for slug in draft.slugs():
                row = await tx.row(
                    QUERIES["create_organization"],
                    organization_id=new_id(at),
                    display_name=draft.display_name,
                    slug=slug,
                    metadata=draft.metadata,
                    create_time=at,
                )
                if row is not None:
                    break
            else:
                raise OrganizationExists
            response = pb.CreateOrganizationResponse(organization=wire.organization(row))
            await self._answer(tx, NO_TENANT, once, response)
            return response

    async def get_organization(self, organization_id: UUID) -> pb.Organization:
        async with self._database.operator() as tx:
            row = await tx.row(QUERIES["get_organization"], organization_id=organization_id)
        if row is None:
            raise OrganizationNotFound
        return wire.organization(row)

    async def list_organizations(self, *, before: UUID | None, size: int) -> list[pb.Organization]:
        async with self._database.operator() as tx:
            rows = await tx.rows(QUERIES["list_organizations"], before=before, size=size)
        return [wire.organization(row) for row in rows]

    async def update_organization(self, change: directory.Change, once: Once) -> pb.UpdateOrganizationResponse:
        with refusing({"organizations_slug_key": OrganizationExists()}):
            async with self._database.operator() as tx:
                if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                    return pb.UpdateOrganizationResponse.FromString(first)
                current = await tx.row(QUERIES["lock_organization"], organization_id=change.row_id)
                if current is None:
                    raise OrganizationNotFound
                _refuse_stale(change.revision, current)
                row = await tx.row(
                    QUERIES["update_organization"],
                    organization_id=change.row_id,
                    display_name=change.values.get("display_name", current["display_name"]),
                    slug=change.values.get("slug", current["slug"]),
                    metadata=change.values.get("metadata", current["metadata"]),
                    update_time=now(),
                )
                response = pb.UpdateOrganizationResponse(organization=wire.organization(_there(row)))
                await self._answer(tx, NO_TENANT, once, response)
                return response

    async def delete_organization(self, organization_id: UUID, once: Once) -> pb.DeleteOrganizationResponse:
        response = pb.DeleteOrganizationResponse()
        async with self._database.operator() as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.DeleteOrganizationResponse.FromString(first)
            if await tx.row(QUERIES["lock_organization"], organization_id=organization_id) is None:
                raise OrganizationNotFound
            if await tx.value(QUERIES["organization_has_tenants"], organization_id=organization_id):
                raise OrganizationNotEmpty
            await tx.execute(QUERIES["delete_organization"], organization_id=organization_id, update_time=now())
            await self._answer(tx, NO_TENANT, once, response)
        return response

    async def create_tenant(
        self, draft: directory.Draft, organization_id: UUID | None, once: Once
    ) -> pb.CreateTenantResponse:
        async with self._database.operator() as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.CreateTenantResponse.FromString(first)
            organization_id = await tx.value(QUERIES["share_organization"], organization_id=organization_id)
            if organization_id is None:
                raise OrganizationNotFound
            at = now()
            for slug in draft.slugs():
                row = await tx.row(
                    QUERIES["create_tenant"],
                    tenant_id=new_id(at),
                    organization_id=organization_id,
                    display_name=draft.display_name,
                    slug=slug,
                    metadata=draft.metadata,
                    create_time=at,
                )
                if row is not None:
                    break
            else:
                raise TenantExists
            response = pb.CreateTenantResponse(tenant=wire.tenant(row))
            await self._answer(tx, NO_TENANT, once, response)
            return response

    async def get_tenant(self, tenant_id: UUID, *, own: UUID | None) -> pb.Tenant:
        async with self._sight(own) as tx:
            row = await tx.row(QUERIES["get_tenant"], tenant_id=tenant_id)
        if row is None:
            raise TenantNotFound
        return wire.tenant(row)

    async def list_tenants(
        self, *, own: UUID | None, organization_id: UUID | None, before: UUID | None, size: int
    ) -> list[pb.Tenant]:
        async with self._sight(own) as tx:
            rows = await tx.rows(
                QUERIES["list_tenants"], own=own, organization_id=organization_id, before=before, size=size
            )
        return [wire.tenant(row) for row in rows]

    async def update_tenant(self, change: directory.Change, once: Once, *, own: UUID | None) -> pb.UpdateTenantResponse:
        keeper = own or NO_TENANT
        with refusing({"tenants_slug_key": TenantExists()}):
            async with self._sight(own) as tx:
                if (first := await self._requests.claim(tx, keeper, once)) is not None:
                    return pb.UpdateTenantResponse.FromString(first)
                current = await tx.row(QUERIES["lock_tenant"], tenant_id=change.row_id)
                if current is None:
                    raise TenantNotFound
                _refuse_stale(change.revision, current)
                row = await tx.row(
                    QUERIES["update_tenant"],
                    tenant_id=change.row_id,
                    display_name=change.values.get("display_name", current["display_name"]),
                    slug=change.values.get("slug", current["slug"]),
                    metadata=change.values.get("metadata", current["metadata"]),
                    update_time=now(),
                )
                response = pb.UpdateTenantResponse(tenant=wire.tenant(_there(row)))
                await self._answer(tx, keeper, once, response)
                return response

    async def delete_tenant(self, tenant_id: UUID, once: Once) -> pb.DeleteTenantResponse:
        response = pb.DeleteTenantResponse()
        async with self._database.operator() as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.DeleteTenantResponse.FromString(first)
            if not await tx.execute(QUERIES["delete_tenant"], tenant_id=tenant_id, update_time=now()):
                raise TenantNotFound
            await self._answer(tx, NO_TENANT, once, response)
        return response

    async def create_agent(
        self, tenant_id: UUID, draft: agents.Draft, once: Once, *, created_by: str
    ) -> pb.CreateAgentResponse:
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.CreateAgentResponse.FromString(first)
            at = now()
            row = await tx.row(
                QUERIES["create_agent"],
                tenant_id=tenant_id,
                agent_id=draft.agent_id or str(new_id(at)),
                create_time=at,
                created_by=created_by,
                **draft.values,
            )
            if row is None:
                raise AgentExists
            response = pb.CreateAgentResponse(agent=wire.agent(row))
            await self._answer(tx, tenant_id, once, response)
            return response

    async def get_agent(self, tenant_id: UUID, agent_id: str) -> pb.Agent:
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.row(QUERIES["get_agent"], tenant_id=tenant_id, agent_id=agent_id)
        if row is None:
            raise AgentNotFound
        return wire.agent(row)

    async def list_agents(self, tenant_id: UUID, *, after: str, size: int) -> list[pb.Agent]:
        """Read agents whose ids come after `after`; the empty text comes before all."""
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_agents"], tenant_id=tenant_id, after=after, size=size)
        return [wire.agent(row) for row in rows]

    async def update_agent(
        self, tenant_id: UUID, change: agents.Change, once: Once, *, updated_by: str
    ) -> pb.UpdateAgentResponse:
        query = QUERIES["update_agent"]
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.UpdateAgentResponse.FromString(first)
            current = await tx.row(QUERIES["lock_agent"], tenant_id=tenant_id, agent_id=change.agent_id)
            if current is None:
                raise AgentNotFound
            _refuse_stale(change.revision, current)
            values = {
                "tenant_id": tenant_id,
                **current,
                **change.values,
                "updated_by": updated_by,
                "update_time": now(),
            }
            row = await tx.row(query, **{name: values[name] for name in query.parameters})
            response = pb.UpdateAgentResponse(agent=wire.agent(_there(row)))
            await self._answer(tx, tenant_id, once, response)
            return response

    async def delete_agent(
        self, tenant_id: UUID, agent_id: str, once: Once, *, deleted_by: str
    ) -> pb.DeleteAgentResponse:
        at, response = now(), pb.DeleteAgentResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.DeleteAgentResponse.FromString(first)
            deleted = await tx.execute(
                QUERIES["delete_agent"],
                tenant_id=tenant_id,
                agent_id=agent_id,
                free_id=str(new_id(at)),
                delete_time=at,
                deleted_by=deleted_by,
            )
            if not deleted:
                raise AgentNotFound
            await self._answer(tx, tenant_id, once, response)
        return response

    def _sight(self, own: UUID | None) -> AbstractAsyncContextManager[Transaction]:
        return self._database.operator() if own is None else self._database.tenant(own)

    async def _answer(self, tx: Transaction, keeper: UUID, once: Once, response: Message) -> None:
        """Keep the answer, and let go of those that nobody can ask for any more: writes here are too rare for a job."""
        if once.request_id:
            await self._requests.answer(tx, keeper, once, response)
            await self._requests.delete_expired(tx, keeper, now())


def _refuse_stale(given: int, current: asyncpg.Record) -> None:
    if given not in (0, current["revision"]):
        raise RevisionStale(given=given, current=current["revision"])


def _there(row: asyncpg.Record | None) -> asyncpg.Record:
    """Return the row that the transaction holds the lock of."""
    if row is None:
        message = "a locked row disappeared"
        raise LookupError(message)
    return row
