from __future__ import annotations

import uuid

import httpx
import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein

from skein.auth.v1 import accounts_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_cluster.cli.exit_codes import ExitCode


@pytest.mark.system
async def test_the_operator_keeps_the_members_of_a_tenant(cluster: Cluster, tenant: Tenant) -> None:
    operator = {
        **test_environment(),
        "SKEIN_ENDPOINT": cluster.endpoint,
        "SKEIN_OPERATOR_KEY": cluster.operator_key,
    }
    address = f"{uuid.uuid4().hex[:12]}@example.com"
    await cluster.operator.auth.CreateAccount(accounts_pb2.CreateAccountRequest(email=address))
    tenant_id = str(tenant.tenant_id)

    async def members(*arguments: str) -> str:
        ended = await skein("tenants", "members", *arguments, environment=operator)
        assert ended.code == ExitCode.OK, ended.err
        return ended.out

    added = await members("add", tenant_id, address, "viewer")
    raised = await members("role", tenant_id, address, "owner")
    listed = await members("list", tenant_id)
    last = await skein("tenants", "members", "remove", tenant_id, address, environment=operator)
    lowered = await skein("tenants", "members", "role", tenant_id, address, "nobody", environment=operator)

    assert (added.strip(), raised.strip()) == (f"{address} is viewer.", f"{address} is owner.")
    assert address in listed
    assert last.code == ExitCode.REFUSED
    assert "last owner" in last.err or "without an owner" in last.err
    assert lowered.code == ExitCode.USAGE


async def test_an_invitation_without_mail_shows_a_link_that_opens(cluster: Cluster, tenant: Tenant) -> None:
    operator = {
        **test_environment(),
        "SKEIN_ENDPOINT": cluster.endpoint,
        "SKEIN_OPERATOR_KEY": cluster.operator_key,
    }

    made = await skein(
        "tenants", "invite", str(tenant.tenant_id), "Ann@example.com", "member", "--days", "2", environment=operator
    )
    result = await skein(
        "tenants", "invite", str(tenant.tenant_id), "ben@example.com", "member", "--json", environment=operator
    )

    assert made.code == ExitCode.OK, made.err
    assert made.out.startswith(f"http://{cluster.addresses['http']}/account/invitation?token=skein_inv_")
    assert "Send the link to ann@example.com. It works once, until" in " ".join(made.err.split())
    assert result.json["invitation"]["email"] == "ben@example.com"
    assert result.json["token"].startswith("skein_inv_")
    assert result.json["link"].endswith(f"/account/invitation?token={result.json['token']}")
    async with httpx.AsyncClient() as browser:
        page = await browser.get(made.out.strip())
    assert (page.status_code, "You are invited" in page.text) == (200, True)


async def test_a_tenant_is_named_by_its_slug_too(cluster: Cluster, tenant: Tenant) -> None:
    operator = {
        **test_environment(),
        "SKEIN_ENDPOINT": cluster.endpoint,
        "SKEIN_OPERATOR_KEY": cluster.operator_key,
    }
    request = tenancy_pb2.GetTenantRequest(tenant_id=str(tenant.tenant_id))
    slug = (await cluster.operator.tenancy.GetTenant(request)).tenant.slug

    result = await skein("tenants", "members", "list", slug, environment=operator)
    missed = await skein("tenants", "members", "list", f"{slug}-not", environment=operator)

    assert result.code == ExitCode.OK, result.err
    assert missed.code == ExitCode.REFUSED
    assert "skein tenants list" in missed.err
