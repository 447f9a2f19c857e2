"""Memories that are approved, and applications that act for a person (OAuth), as agents of MCP do."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest
from fix_accounts import sign_in
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_web import PASSWORD, REDIRECT, Person, Pkce, Web, authorize_url, new_person
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import approvals_pb2 as pb
from skein.tenancy.v1 import members_pb2, subjects_pb2

EVERYTHING = "memory.read memory.write memory.approve"


@pytest.fixture
async def web(cluster: Cluster) -> AsyncIterator[Web]:
    async with Web.of(cluster.addresses["http"]) as browser:
        yield browser


@pytest.fixture
async def admin(cluster: Cluster, tenant: Tenant) -> Person:
    return await new_person(cluster, tenant, role=members_pb2.ROLE_ADMIN)


async def require(tenant: Tenant, approval: str) -> None:
    request = subjects_pb2.UpdatePolicyRequest(
        policy=subjects_pb2.Policy(approval=approval), update_mask=FieldMask(paths=["approval"])
    )
    await tenant.tenancy.UpdatePolicy(request)


async def application(cluster: Cluster, web: Web, person: Person, tenant: Tenant, scope: str) -> Stubs:
    """Let an application act for a person, with what it asks for."""
    client, pkce = await web.register(), Pkce()
    code = (await web.code(authorize_url(client["client_id"], pkce, scope=scope), person, tenant))["code"]
    form = {
        "grant_type": "authorization_code",
        "client_id": client["client_id"],
        "code": code,
        "redirect_uri": REDIRECT,
        "code_verifier": pkce.verifier,
    }
    answer = await web.post("/token", form)
    assert answer.status_code == 200, answer.text
    return cluster.with_key(answer.json()["access_token"])


async def test_an_application_is_an_agent_and_its_person_is_none(
    cluster: Cluster, web: Web, admin: Person, tenant: Tenant
) -> None:
    await require(tenant, "agents")
    agent = await application(cluster, web, admin, tenant, EVERYTHING)
    access_token = (await sign_in(cluster, admin.email, PASSWORD)).access_token
    person = cluster.with_key(access_token, **{"skein-tenant-id": str(tenant.tenant_id)})

    waiting = await agent.create_memory("the kettle sings")

    assert waiting.pending_approval
    with refused(grpc.StatusCode.PERMISSION_DENIED, "APPROVAL_REQUIRED"):
        await agent.curation.ApproveMemory(pb.ApproveMemoryRequest(pending_id=waiting.memory_id))
    approved = await person.curation.ApproveMemory(pb.ApproveMemoryRequest(pending_id=waiting.memory_id))
    assert approved.memory.content == "the kettle sings"
    assert not (await person.create_memory("tea")).pending_approval


@pytest.mark.parametrize(("scope", "waits"), [("memory.read memory.write", True), ("", True), (EVERYTHING, False)])
async def test_with_all_an_application_waits_unless_its_scope_names_the_permission(
    cluster: Cluster, web: Web, admin: Person, tenant: Tenant, scope: str, *, waits: bool
) -> None:
    await require(tenant, "all")
    agent = await application(cluster, web, admin, tenant, scope)

    memory = await agent.create_memory("the kettle sings")

    assert memory.pending_approval == waits


async def test_the_scope_that_approves_is_offered_to_no_application_and_shown_to_its_person(
    web: Web, admin: Person
) -> None:
    client = await web.register()
    documents = [
        (await web.client.get(f"/.well-known/{name}")).json()
        for name in ("oauth-authorization-server", "oauth-protected-resource", "oauth-protected-resource/mcp")
    ]

    page = await web.consent(authorize_url(client["client_id"], Pkce(), scope=EVERYTHING), admin)

    assert all("memory.write" in document["scopes_supported"] for document in documents)
    assert not any("memory.approve" in document["scopes_supported"] for document in documents)
    assert "Approve and refuse what others remember" in page.text
