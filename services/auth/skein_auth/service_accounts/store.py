"""Service accounts in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth import permissions
from skein_auth.api_keys.grant_end import revoke_keys_of_ended_grants
from skein_auth.api_keys.quota import count_api_keys
from skein_auth.errors import ServiceAccountNotFound
from skein_auth.queries import QUERIES
from skein_auth.service_accounts import convert
from skein_kit.errors import RevisionStale
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import new_id, now

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg

    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.service_accounts.model import Change, Draft
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_kit.identity.identity_token import Caller


class ServiceAccountStore:
    """The service accounts of a tenant.

    Methods that take `once` do their work once for each request and return the first answer whenever it is repeated.
    """

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit
        self._requests = IdempotencyStore(database, "auth")

    async def create_service_account(
        self, tenant_id: UUID, draft: Draft, once: IdempotencyKey
    ) -> pb.CreateServiceAccountResponse:
        async with self._database.transaction(tenant_id) as tx:
            if (first := (await self._requests.claim(tx, tenant_id, once)).saved_response) is not None:
                return pb.CreateServiceAccountResponse.FromString(first)
            at = now()
            row = await tx.row(
                QUERIES["create_service_account"],
                tenant_id=tenant_id,
                service_account_id=new_id(at),
                display_name=draft.display_name,
                permissions=draft.permissions,
                agent_id=draft.agent_id or None,
                disabled=draft.disabled,
                create_time=at,
                created_by=draft.created_by,
                grant_ids=list(draft.grant_ids),
            )
            response = pb.CreateServiceAccountResponse(service_account=convert.service_account(_there(row)))
            await self._told(tx, "created", tenant_id, response.service_account.service_account_id)
            await self._requests.save(tx, tenant_id, once, response.SerializeToString())
        return response

    async def get_service_account(self, tenant_id: UUID, service_account_id: UUID) -> pb.ServiceAccount:
        async with self._database.transaction(tenant_id) as tx:
            await revoke_keys_of_ended_grants(tx, tenant_id, now(), self._audit)
            row = await tx.row(
                QUERIES["get_service_account"], tenant_id=tenant_id, service_account_id=service_account_id
            )
        if row is None:
            raise ServiceAccountNotFound
        return convert.service_account(row)

    async def list_service_accounts(
        self, tenant_id: UUID, *, before: UUID | None, size: int
    ) -> list[pb.ServiceAccount]:
        async with self._database.transaction(tenant_id) as tx:
            await revoke_keys_of_ended_grants(tx, tenant_id, now(), self._audit)
            rows = await tx.rows(QUERIES["list_service_accounts"], tenant_id=tenant_id, before=before, size=size)
        return [convert.service_account(row) for row in rows]

    async def update_service_account(
        self, tenant_id: UUID, change: Change, once: IdempotencyKey
    ) -> pb.UpdateServiceAccountResponse:
        async with self._database.transaction(tenant_id) as tx:
            if (first := (await self._requests.claim(tx, tenant_id, once)).saved_response) is not None:
                return pb.UpdateServiceAccountResponse.FromString(first)
            await revoke_keys_of_ended_grants(tx, tenant_id, now(), self._audit)
            current = await _locked(tx, tenant_id, change.service_account_id)
            if change.revision not in (0, current["revision"]):
                raise RevisionStale(given=change.revision, current=current["revision"])
            row = await tx.row(
                QUERIES["update_service_account"],
                tenant_id=tenant_id,
                service_account_id=change.service_account_id,
                update_time=now(),
                **change.applied(dict(current)),
            )
            response = pb.UpdateServiceAccountResponse(service_account=convert.service_account(_there(row)))
            await self._told(tx, "updated", tenant_id, str(change.service_account_id))
            await self._requests.save(tx, tenant_id, once, response.SerializeToString())
        return response

    async def adopt_service_account(
        self, tenant_id: UUID, service_account_id: UUID, by: Caller, once: IdempotencyKey
    ) -> pb.AdoptServiceAccountResponse:
        """Let a service account outlive the grants that made it; one that has ended stays disabled.

        Raises ServiceAccountNotFound and PermissionWidened.
        """
        async with self._database.transaction(tenant_id) as tx:
            if (first := (await self._requests.claim(tx, tenant_id, once)).saved_response) is not None:
                return pb.AdoptServiceAccountResponse.FromString(first)
            at = now()
            await revoke_keys_of_ended_grants(tx, tenant_id, at, self._audit)
            row = await _locked(tx, tenant_id, service_account_id)
            permissions.require_subset(row["permissions"], row["agent_id"] or "", by)
            if row["grant_ids"]:
                row = _there(
                    await tx.row(
                        QUERIES["adopt_service_account"],
                        tenant_id=tenant_id,
                        service_account_id=service_account_id,
                        update_time=at,
                    )
                )
                await self._told(tx, "adopted", tenant_id, str(service_account_id))
            response = pb.AdoptServiceAccountResponse(service_account=convert.service_account(row))
            await self._requests.save(tx, tenant_id, once, response.SerializeToString())
        return response

    async def delete_service_account(self, tenant_id: UUID, service_account_id: UUID, once: IdempotencyKey) -> None:
        """Remove a service account; its keys end, and stay in the list of keys."""
        async with self._database.transaction(tenant_id) as tx:
            answer = pb.DeleteServiceAccountResponse()
            write = await self._requests.claim(tx, tenant_id, once, response=answer.SerializeToString())
            if write.saved_response is not None:
                return
            await _locked(tx, tenant_id, service_account_id)
            whose = {"tenant_id": tenant_id, "service_account_id": service_account_id}
            at = now()
            await tx.execute(QUERIES["revoke_api_keys_of_service_account"], revoke_time=at, **whose)
            await count_api_keys(tx, tenant_id, at)
            await tx.execute(QUERIES["free_api_keys_of_service_account"], **whose)
            await tx.execute(QUERIES["delete_service_account"], **whose)
            await self._told(tx, "deleted", tenant_id, str(service_account_id))

    async def _told(self, tx: Transaction, what: str, tenant_id: UUID, service_account_id: str) -> None:
        await self._audit.within(
            tx, f"service_account_{what}", tenant_id=tenant_id, target=f"service_account:{service_account_id}"
        )


async def _locked(tx: Transaction, tenant_id: UUID, service_account_id: UUID) -> asyncpg.Record:
    row = await tx.row(QUERIES["lock_service_account"], tenant_id=tenant_id, service_account_id=service_account_id)
    if row is None:
        raise ServiceAccountNotFound
    return row


def _there(row: asyncpg.Record | None) -> asyncpg.Record:
    """Return the row that an insert or a change of a locked row returned."""
    if row is None:
        message = "a statement returned no row"
        raise LookupError(message)
    return row
