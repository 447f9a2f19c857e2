"""Who sees a space and until when: what a delegate passes on, applications, explanations, and the access log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_access_log import logged_accesses
from fix_accounts import sign_in
from fix_calls import stamp
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_space_tables import SPACE_TABLES
from fix_spaces import ROLES, SPACE_KEY, first_spaces, grant, new_key
from fix_web import PASSWORD, REDIRECT, Person, Pkce, Web, authorize_url, new_person

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import history_pb2, memory_pb2
from skein.tenancy.v1 import members_pb2
from skein.tenancy.v1 import spaces_pb2 as pb
from skein_kit.identity.permissions import TENANT_PERMISSIONS

DEFAULT = "00000000-0000-0000-0000-000000000000"
DENIED = (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING")
NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND")
TEXT = "The red rose needs manure"
# The others of SPACE_TABLES have the same policy, which tests/schema compares.
FILLED = {
    *("memory.blocks", "memory.changes", "memory.external_ids", "memory.fact_keys", "memory.memories", "memory.tasks"),
    *("memory.versions", "recall.documents", "recall.documents_history", "session.message_order", "session.messages"),
    *("session.sessions", "session.title_terms", "tenancy.subjects"),
}


async def grants_of(tenant: Tenant, space_id: str) -> dict[str, pb.SpaceGrant]:
    listed = await tenant.tenancy.ListSpaceGrants(pb.ListSpaceGrantsRequest(space_id=space_id))
    return {one.principal: one for one in listed.grants}


async def delegable(tenant: Tenant, space_id: str, principal: str, role: str = "writer", **fields: Any) -> None:
    message = pb.SpaceGrant(space_id=space_id, principal=principal, role=ROLES[role], is_delegable=True, **fields)
    await tenant.tenancy.GrantSpace(pb.GrantSpaceRequest(grant=message))


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the gateway has a new identity: it keeps one for some seconds."""
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.1)


@pytest.mark.system
async def test_what_a_delegate_passed_on_ends_with_the_delegate_s_own_grant(cluster: Cluster, tenant: Tenant) -> None:
    [space_id] = await first_spaces(cluster, tenant, "garden")
    delegate, secret = await new_key(cluster, tenant, [space_id])
    await delegable(tenant, space_id, delegate)
    helper, helper_secret = await new_key(cluster, tenant, [])
    memory = await cluster.with_key(secret, **{SPACE_KEY: space_id}).create_memory(TEXT)
    await grant(cluster.with_key(secret), space_id, helper, "reader")
    reader = cluster.with_key(helper_secret)
    await eventually(lambda: _sees(reader, memory.memory_id))
    grants = await grants_of(tenant, space_id)
    assert grants[helper].delegating_grant_id == grants[delegate].grant_id

    await tenant.tenancy.RevokeSpaceGrant(pb.RevokeSpaceGrantRequest(space_id=space_id, principal=delegate))

    assert await grants_of(tenant, space_id) == {}
    await eventually(lambda: _is_hidden(reader, memory.memory_id))


@pytest.mark.system
async def test_an_open_stream_of_a_delegate_s_grant_ends_with_the_grant_at_its_root(
    cluster: Cluster, tenant: Tenant
) -> None:
    [space_id] = await first_spaces(cluster, tenant, "garden")
    delegate, secret = await new_key(cluster, tenant, [space_id])
    await delegable(tenant, space_id, delegate)
    helper, helper_secret = await new_key(cluster, tenant, [])
    gardener = cluster.with_key(secret, **{SPACE_KEY: space_id})
    memory = await gardener.create_memory(TEXT)
    await grant(cluster.with_key(secret), space_id, helper, "reader")
    reader = cluster.with_key(helper_secret)
    await eventually(lambda: _sees(reader, memory.memory_id))
    stream: Any = reader.history.StreamChanges(history_pb2.StreamChangesRequest())
    await stream.read()
    # The stream is one of the space.
    seen = await gardener.create_memory("The rose is fed")
    async with asyncio.timeout(30):
        while (await stream.read()).change.entity_id != seen.memory_id:
            pass

    await tenant.tenancy.RevokeSpaceGrant(pb.RevokeSpaceGrantRequest(space_id=space_id, principal=delegate))

    with refused(grpc.StatusCode.PERMISSION_DENIED, "SPACES_CHANGED"):
        async with asyncio.timeout(30):
            while await stream.read() is not grpc.aio.EOF:
                pass
    # It was the last grant of the chain, and no other stream of it begins.
    await eventually(lambda: _is_hidden(reader, memory.memory_id))


async def _sees(stubs: Stubs, memory_id: str) -> bool:
    return memory_id in [memory.memory_id for memory in await stubs.list_memories()]


async def _is_hidden(stubs: Stubs, memory_id: str) -> bool:
    return not await _sees(stubs, memory_id)


async def test_a_grant_that_replaces_a_delegate_s_ends_what_it_passed_on(cluster: Cluster, tenant: Tenant) -> None:
    [space_id] = await first_spaces(cluster, tenant, "garden")
    delegate, secret = await new_key(cluster, tenant, [space_id])
    await delegable(tenant, space_id, delegate)
    await grant(cluster.with_key(secret), space_id, "agent:helper", "reader")

    await delegable(tenant, space_id, delegate, "reader")

    assert set(await grants_of(tenant, space_id)) == {delegate}


@pytest.mark.system
async def test_what_was_passed_on_shows_nothing_once_the_delegate_s_own_grant_has_expired(
    cluster: Cluster, tenant: Tenant
) -> None:
    [space_id] = await first_spaces(cluster, tenant, "garden")
    delegate, secret = await new_key(cluster, tenant, [space_id])
    end = datetime.now(UTC) + timedelta(days=1)
    await delegable(tenant, space_id, delegate, expire_time=stamp(end))
    holder = cluster.with_key(secret)
    with refused(*DENIED):
        # Longer than its own.
        await grant(holder, space_id, "agent:helper", "reader")
    message = pb.SpaceGrant(
        space_id=space_id, principal="agent:helper", role=pb.SPACE_ROLE_READER, expire_time=stamp(end)
    )
    await holder.tenancy.GrantSpace(pb.GrantSpaceRequest(grant=message))

    async with cluster.superuser() as connection:
        # Its own row alone: the grant that was passed on has a day left.
        await connection.execute(
            "UPDATE tenancy.space_grants SET expire_time = now() WHERE tenant_id = $1 AND principal = $2"
            " AND revoke_time IS NULL",
            tenant.tenant_id,
            delegate,
        )

    answer = await tenant.tenancy.ExplainAccess(
        pb.ExplainAccessRequest(space_id=space_id, principal="service_account:x", agent_id="helper")
    )
    assert (answer.is_visible, answer.reason) == (False, pb.ACCESS_REASON_GRANT_ENDED)


@pytest.mark.system
async def test_access_is_explained_to_who_manages_spaces_and_to_the_principal_itself(
    cluster: Cluster, tenant: Tenant
) -> None:
    [space_id] = await first_spaces(cluster, tenant, "garden")
    member, secret = await new_key(cluster, tenant, [space_id], permissions=TENANT_PERMISSIONS - {"spaces.write"})
    stranger, stranger_secret = await new_key(cluster, tenant, [], permissions=TENANT_PERMISSIONS - {"spaces.write"})
    bound, _ = await new_key(cluster, tenant, [space_id], "reader", bind=True)
    own, other = cluster.with_key(secret), cluster.with_key(stranger_secret)
    hidden = await cluster.with_key(secret, **{SPACE_KEY: space_id}).create_memory(TEXT)
    shared = await tenant.create_memory("The oven is hot")
    of_hidden = pb.ExplainAccessRequest(memory_id=hidden.memory_id)

    async def explained(stubs: Stubs, memory_id: str, principal: str = "") -> pb.ExplainAccessResponse:
        request = pb.ExplainAccessRequest(memory_id=memory_id, principal=principal)
        return await stubs.tenancy.ExplainAccess(request)

    mine = await own.tenancy.ExplainAccess(of_hidden)
    assert (mine.is_visible, mine.reason, mine.space_id) == (True, pb.ACCESS_REASON_GRANT, space_id)
    assert [one.principal for one in mine.grants] == [member]
    assert mine.role == pb.SPACE_ROLE_WRITER
    with refused(*NOT_FOUND):
        await other.tenancy.ExplainAccess(of_hidden)
    with refused(*DENIED):
        await explained(own, hidden.memory_id, stranger)
    reasons = {
        (hidden.memory_id, stranger): (False, pb.ACCESS_REASON_NO_GRANT),
        (shared.memory_id, stranger): (True, pb.ACCESS_REASON_DEFAULT_SPACE),
        (shared.memory_id, bound): (False, pb.ACCESS_REASON_BOUND),
        (hidden.memory_id, bound): (True, pb.ACCESS_REASON_GRANT),
    }
    for (memory_id, principal), expected in reasons.items():
        answer = await explained(tenant, memory_id, principal)
        assert (answer.is_visible, answer.reason) == expected
        assert answer.is_bound == (principal == bound)
    await tenant.tenancy.RevokeSpaceGrant(pb.RevokeSpaceGrantRequest(space_id=space_id, principal=member))
    ended = await explained(tenant, hidden.memory_id, member)
    assert (ended.is_visible, ended.reason) == (False, pb.ACCESS_REASON_GRANT_ENDED)
    assert ended.grants[0].HasField("revoke_time")
    assert [one.grant_id for one in ended.grants] == [one.grant_id for one in mine.grants]


@pytest.mark.system
async def test_the_access_log_tells_by_which_grant_a_memory_was_read(cluster: Cluster, tenant: Tenant) -> None:
    garden_id, cellar_id = await first_spaces(cluster, tenant, "garden", "cellar")
    principal, secret = await new_key(cluster, tenant, [garden_id, cellar_id])
    auditor_principal, auditor_secret = await new_key(
        cluster, tenant, [garden_id, cellar_id], permissions=TENANT_PERMISSIONS
    )
    _, outsider = await new_key(cluster, tenant, [garden_id], permissions=TENANT_PERMISSIONS)
    memory = await cluster.with_key(secret, **{SPACE_KEY: garden_id}).create_memory(TEXT)
    reader = cluster.with_key(secret)
    # It reaches three spaces.
    await reader.get_memory(memory.memory_id)
    await reader.search("red rose", min_relevance=0)
    auditor = Tenant(channel=cluster.with_key(auditor_secret).channel, tenant_id=tenant.tenant_id, api_key="")

    events = await logged_accesses(auditor, lambda found: len(found) >= 3, memory_id=memory.memory_id)

    grants = {one: await grants_of(tenant, one) for one in (garden_id, cellar_id)}
    by = [(garden_id, grants[garden_id][principal].grant_id)]
    assert {event.method for event in events} == {"CreateMemory", "GetMemory", "Recall"}
    for event in events:
        assert [(space.space_id, space.grant_id) for space in event.spaces] == by, event.method
    # It returns no memory.
    await reader.memory.ListTasks(memory_pb2.ListTasksRequest())
    of_all = await logged_accesses(auditor, lambda found: "ListTasks" in {event.method for event in found})
    listed = next(event for event in of_all if event.method == "ListTasks" and event.principal == principal)
    assert {space.space_id for space in listed.spaces} == {DEFAULT, garden_id, cellar_id}
    # Who does not see the cellar does not learn that it was listed.
    less = Tenant(channel=cluster.with_key(outsider).channel, tenant_id=tenant.tenant_id, api_key="")
    some = await logged_accesses(less, lambda found: "GetMemory" in {event.method for event in found})
    assert "ListTasks" not in {event.method for event in some}
    assert auditor_principal


@pytest.fixture
async def web(cluster: Cluster) -> AsyncIterator[Web]:
    async with Web.of(cluster.addresses["http"]) as browser:
        yield browser


async def application(
    cluster: Cluster, web: Web, person: Person, tenant: Tenant, scope: str
) -> tuple[str, Callable[..., Stubs]]:
    """Let an application act for a person; return its client id, and a maker of its stubs."""
    client, pkce = await web.register(), Pkce()
    code = (await web.code(authorize_url(client["client_id"], pkce, scope=scope), person, tenant))["code"]
    form = {
        "grant_type": "authorization_code",
        "client_id": client["client_id"],
        "code": code,
        "redirect_uri": REDIRECT,
        "code_verifier": pkce.verifier,
    }
    token = (await web.post("/token", form)).json()["access_token"]
    return client["client_id"], lambda **metadata: cluster.with_key(token, **metadata)


@pytest.mark.system
async def test_an_application_sees_what_both_it_and_its_person_may_see(
    cluster: Cluster, web: Web, tenant: Tenant
) -> None:
    garden_id, cellar_id = await first_spaces(cluster, tenant, "garden", "cellar")
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_MEMBER)
    _, secret = await new_key(cluster, tenant, [garden_id, cellar_id])
    memories = {
        space_id: (await cluster.with_key(secret, **{SPACE_KEY: space_id}).create_memory(TEXT)).memory_id
        for space_id in (garden_id, cellar_id)
    }
    shared = await tenant.create_memory("The oven is hot")
    client_id, stubs = await application(cluster, web, person, tenant, "memory.read memory.write spaces.read")
    access_token = (await sign_in(cluster, person.email, PASSWORD)).access_token
    owner = cluster.with_key(access_token, **{"skein-tenant-id": str(tenant.tenant_id)})
    account = (await owner.auth.GetMe(auth_pb2.GetMeRequest())).principal

    async def seen() -> set[str]:
        return {memory.memory_id for memory in await stubs().list_memories()}

    await delegable(tenant, garden_id, account)
    await delegable(tenant, cellar_id, account)
    await grant(tenant, garden_id, f"client:{client_id}", "reader", bind=True)

    async def is_bound() -> bool:
        return await seen() == {memories[garden_id]}

    # Neither the cellar, which the person alone sees, nor the default space.
    await eventually(is_bound)
    await eventually(lambda: _sees(owner, memories[cellar_id]))
    assert {memory.memory_id for memory in await owner.list_memories()} == {shared.memory_id, *memories.values()}
    with refused(grpc.StatusCode.PERMISSION_DENIED, "SPACE_READ_ONLY"):
        await stubs(**{SPACE_KEY: garden_id}).create_memory("x")
    explained = await stubs().tenancy.ExplainAccess(pb.ExplainAccessRequest(memory_id=memories[garden_id]))
    assert [one.principal for one in explained.grants] == [account, f"client:{client_id}"]
    assert explained.role == pb.SPACE_ROLE_READER
    of_cellar = await tenant.tenancy.ExplainAccess(
        pb.ExplainAccessRequest(memory_id=memories[cellar_id], principal=account, client_id=client_id)
    )
    assert (of_cellar.is_visible, of_cellar.reason) == (False, pb.ACCESS_REASON_CLIENT_NOT_GRANTED)
    # By the person's delegable grant the application passes on no more than it sees itself.
    with refused(*DENIED):
        await grant(stubs(), garden_id, "agent:helper", "writer")
    with refused(grpc.StatusCode.NOT_FOUND, "SPACE_NOT_FOUND"):
        await grant(stubs(), cellar_id, "agent:helper", "reader")
    await grant(stubs(), garden_id, "agent:helper", "reader")
    assert (await grants_of(tenant, garden_id))["agent:helper"].delegating_grant_id


@pytest.mark.system
async def test_no_table_of_a_space_shows_its_rows_to_another_one(cluster: Cluster, tenant: Tenant) -> None:
    space_id, other_id = await first_spaces(cluster, tenant, "garden", "cellar")
    _, secret = await new_key(cluster, tenant, [space_id], permissions=TENANT_PERMISSIONS)
    inside = cluster.with_key(secret, **{SPACE_KEY: space_id})
    task = await inside.create_memory("Feed the rose", type="task", external_id="task")
    fact = await inside.create_memory(TEXT, type="fact", key="rose")
    await inside.update_memory(fact.memory_id, content="The rose is fed")
    await inside.append("garden", "The rose is red")
    await inside.create_session("tulips", title="Tulips")
    await inside.create_block("human", "Likes roses", block_id="rose")
    await inside.create_subject("mira", display_name="Mira")

    filled = set()
    async with cluster.superuser() as connection:
        for name in sorted(SPACE_TABLES):
            role = f"skein_{name.partition('.')[0]}"
            counts = {}
            for seen in (space_id, other_id, DEFAULT):
                async with connection.transaction():
                    await connection.execute(f"SET LOCAL ROLE {role}")
                    await connection.execute(f"SET LOCAL skein.tenant_id = '{tenant.tenant_id}'")
                    await connection.execute(f"SET LOCAL skein.spaces = '{{{seen}}}'")
                    counts[seen] = await connection.fetchval(f"SELECT count(*) FROM {name}")  # noqa: S608 - its own.

            assert not counts[other_id], name
            assert not counts[DEFAULT], name
            filled |= {name} if counts[space_id] else set()
    assert task.memory_id
    assert filled >= FILLED
