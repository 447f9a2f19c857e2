"""The query of deploy/upgrading.md finds what applications made before rows said which grant made them."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

if TYPE_CHECKING:
    from fix_database import TestDatabase

ROOT = Path(__file__).parents[2]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
PERSON = "account:0"


def query_of_page() -> str:
    page = (ROOT / "deploy/upgrading.md").read_text("utf-8")
    (query,) = re.findall(r"```sql\n(WITH RECURSIVE .*?)```", page, re.DOTALL)
    return str(query)


class Rows:
    """Puts keys, and what keys made, into a tenant."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], tenant_id: uuid.UUID) -> None:
        self.connection = connection
        self.tenant_id = tenant_id

    async def key(self, maker: str, *, client: str = "", at: datetime = LONG_AGO, is_revoked: bool = False) -> str:
        key_id = uuid.uuid4()
        await self.connection.execute(
            "INSERT INTO auth.api_keys (tenant_id, api_key_id, display_name, permissions, secret_hash, create_time,"
            " created_by, revoke_time) VALUES ($1, $2, 'k', '{}', $3, $4, $5, $6)",
            self.tenant_id,
            key_id,
            key_id.bytes * 2,
            at,
            maker,
            at if is_revoked else None,
        )
        await self.connection.execute(
            "INSERT INTO auth.audit_events (tenant_id, audit_event_id, event, outcome, target, client_id, create_time)"
            " VALUES ($1, $2, 'api_key_created', 'success', $3, $4, $5)",
            self.tenant_id,
            uuid.uuid4(),
            f"api_key:{key_id}",
            client,
            at,
        )
        return f"api_key:{key_id}"

    async def service_account(self, maker: str) -> str:
        account_id = uuid.uuid4()
        await self.connection.execute(
            "INSERT INTO auth.service_accounts (tenant_id, service_account_id, display_name, permissions, create_time,"
            " update_time, created_by) VALUES ($1, $2, 's', '{}', $3, $3, $4)",
            self.tenant_id,
            account_id,
            LONG_AGO,
            maker,
        )
        return f"service_account:{account_id}"

    async def invitation(self, maker: str) -> str:
        invitation_id = uuid.uuid4()
        await self.connection.execute(
            "INSERT INTO tenancy.invitations (tenant_id, invitation_id, email, role, secret_hash, create_time,"
            " expire_time, created_by) VALUES ($1, $2, 'a@example.com', 'member', $3, $4, $5, $6)",
            self.tenant_id,
            invitation_id,
            invitation_id.bytes * 2,
            LONG_AGO,
            LONG_AGO + timedelta(days=1),
            maker,
        )
        return f"invitation:{invitation_id}"


async def test_it_names_what_applications_made_directly_and_through_keys_and_nothing_else(
    database: TestDatabase,
) -> None:
    connection = await asyncpg.connect(database.url)
    organization_id, tenant_id = uuid.uuid4(), uuid.uuid4()
    await connection.execute(
        "INSERT INTO tenancy.organizations (organization_id, display_name, slug, create_time, update_time)"
        " VALUES ($1, 'o', 'o', now(), now())",
        organization_id,
    )
    await connection.execute(
        "INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time)"
        " VALUES ($1, $2, 't', 't', now(), now())",
        tenant_id,
        organization_id,
    )
    rows = Rows(connection, tenant_id)
    first = await rows.key(PERSON, client="app")
    second = await rows.key(first)
    account = await rows.service_account(second)
    invitation = await rows.invitation(account)
    await rows.key(PERSON)
    await rows.service_account(PERSON)
    await rows.key(PERSON, client="app", at=datetime.now(UTC) + timedelta(hours=1))
    await rows.key(PERSON, client="app", is_revoked=True)

    found = await connection.fetch(query_of_page())

    await connection.close()
    assert {row["name"] for row in found} == {first, second, account, invitation}
