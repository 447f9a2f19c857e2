"""Agents, subjects and tools that are deleted, brought back and purged, and what belongs to an agent meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import grpc
import pytest
from fix_cluster import AuthorizedChannel, Cluster, Stubs, Tenant, refused
from fix_world import system_identity
from google.protobuf.struct_pb2 import Struct

from skein.auth.v1 import accounts_pb2, auth_pb2, auth_pb2_grpc
from skein.memory.v1 import blocks_pb2, memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc, states_pb2
from skein.tenancy.v1 import members_pb2, subjects_pb2, tenancy_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2 as pb

NOT_FOUND = grpc.StatusCode.NOT_FOUND
TAKEN = grpc.StatusCode.ALREADY_EXISTS
REFUSED = grpc.StatusCode.FAILED_PRECONDITION


@asynccontextmanager
async def superuser(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Look into the database past row-level security."""
    async with cluster.superuser() as connection:
        yield connection


async def make_agent(tenant: Stubs, agent_id: str = "butler") -> pb.Agent:
    agent = pb.Agent(agent_id=agent_id, system_prompt="Serve tea.")
    return (await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=agent))).agent


async def delete_agent(tenant: Stubs, agent_id: str = "butler") -> None:
    await tenant.tenancy.DeleteAgent(pb.DeleteAgentRequest(agent_id=agent_id))


async def undelete_agent(tenant: Stubs, agent_id: str = "butler") -> pb.Agent:
    return (await tenant.tenancy.UndeleteAgent(pb.UndeleteAgentRequest(agent_id=agent_id))).agent


async def carry(tenant: Stubs, value: str = "I am patient.", agent_id: str = "butler") -> str:
    block = blocks_pb2.Block(label="persona", value=value)
    made = await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id=agent_id))
    return made.block.block_id


async def compiled(tenant: Stubs, agent_id: str = "butler") -> str:
    return (await tenant.blocks.CompileBlocks(blocks_pb2.CompileBlocksRequest(agent_id=agent_id))).text


async def carried(tenant: Stubs, agent_id: str = "butler") -> int:
    return len((await tenant.blocks.ListAgentBlocks(blocks_pb2.ListAgentBlocksRequest(agent_id=agent_id))).blocks)


async def keep(tenant: Stubs, agent_id: str = "butler", session_id: str = "") -> None:
    state = states_pb2.AgentState(agent_id=agent_id, session_id=session_id, state_data=Struct())
    state.state_data.update({"mood": "calm"})
    await tenant.sessions.PutAgentState(states_pb2.PutAgentStateRequest(state=state))


async def states(tenant: Stubs, **fields: Any) -> list[str]:
    response = await tenant.sessions.ListAgentStates(states_pb2.ListAgentStatesRequest(**fields))
    return [state.session_id for state in response.states]


async def with_everything(tenant: Tenant) -> None:
    """Make an agent that has a block, states, a tool, a memory and a message."""
    await make_agent(tenant)
    await carry(tenant)
    await tenant.sessions.CreateSession(
        session_pb2.CreateSessionRequest(session=session_pb2.Session(session_id="s", agent_id="butler"))
    )
    await keep(tenant)
    await keep(tenant, session_id="s")
    tool = subjects_pb2.Tool(tool_id="kettle", name="kettle")
    await tenant.tenancy.CreateTool(subjects_pb2.CreateToolRequest(tool=tool))
    await tenant.tenancy.AttachTool(subjects_pb2.AttachToolRequest(agent_id="butler", tool_id="kettle"))
    memory = memory_pb2.Memory(memory_id="", external_id="m", content="tea at five", agent_id="butler")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))


async def tools_of(tenant: Stubs, agent_id: str = "butler") -> list[str]:
    response = await tenant.tenancy.ListTools(subjects_pb2.ListToolsRequest(agent_id=agent_id))
    return [tool.tool_id for tool in response.tools]


async def test_nothing_of_a_deleted_agent_answers_and_all_of_it_comes_back(tenant: Tenant) -> None:
    await with_everything(tenant)
    before = await compiled(tenant)

    await delete_agent(tenant)

    assert await compiled(tenant) == ""
    assert await carried(tenant) == 0
    assert await states(tenant) == await states(tenant, agent_id="butler") == await states(tenant, session_id="s") == []
    with refused(NOT_FOUND, "AGENT_STATE_NOT_FOUND"):
        await tenant.sessions.GetAgentState(states_pb2.GetAgentStateRequest(agent_id="butler"))
    assert await tools_of(tenant) == []
    response = await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id="m"))
    assert response.memory.agent_id == "butler"

    agent = await undelete_agent(tenant)

    assert (agent.system_prompt, agent.revision, agent.HasField("delete_time")) == ("Serve tea.", 3, False)
    assert before
    assert await compiled(tenant) == before
    assert await carried(tenant) == 1
    assert await states(tenant, agent_id="butler") == ["", "s"]
    assert await tools_of(tenant) == ["kettle"]


async def test_a_deleted_agent_gets_nothing_new(tenant: Tenant) -> None:
    await make_agent(tenant)
    await make_agent(tenant, "cook")
    block_id = await carry(tenant, agent_id="cook")
    await delete_agent(tenant)

    with refused(REFUSED, "AGENT_NOT_ACTIVE"):
        await carry(tenant)
    with refused(REFUSED, "AGENT_NOT_ACTIVE"):
        await tenant.blocks.AttachBlock(blocks_pb2.AttachBlockRequest(block_id=block_id, agent_id="butler"))
    with refused(REFUSED, "AGENT_NOT_ACTIVE"):
        await keep(tenant)
    with refused(NOT_FOUND, "AGENT_NOT_FOUND"):
        await tenant.tenancy.UpdateAgent(pb.UpdateAgentRequest(agent=pb.Agent(agent_id="butler", topic="x")))

    assert await compiled(tenant, "cook")


async def test_attaching_again_what_a_deleted_agent_has_changes_nothing(tenant: Tenant) -> None:
    await make_agent(tenant)
    block_id = await carry(tenant)
    await delete_agent(tenant)

    await tenant.blocks.AttachBlock(blocks_pb2.AttachBlockRequest(block_id=block_id, agent_id="butler"))

    assert not await carried(tenant)
    await undelete_agent(tenant)
    assert await carried(tenant) == 1


async def test_an_unregistered_agent_keeps_its_blocks_and_states(tenant: Tenant) -> None:
    await carry(tenant, agent_id="stranger")
    await keep(tenant, agent_id="stranger")

    assert await compiled(tenant, "stranger")
    assert await states(tenant, agent_id="stranger") == [""]


async def test_a_deleted_agent_s_id_stays_taken_and_the_refusal_says_what_to_do(tenant: Tenant) -> None:
    await make_agent(tenant)
    with refused(TAKEN, "AGENT_EXISTS"):
        await make_agent(tenant)

    await delete_agent(tenant)

    with refused(TAKEN, "AGENT_DELETED") as caught:
        await make_agent(tenant)
    assert "UndeleteAgent" in (caught.value.details() or "")
    shown = await tenant.tenancy.ListAgents(pb.ListAgentsRequest(show_deleted=True))
    assert [(agent.agent_id, agent.HasField("delete_time")) for agent in shown.agents] == [("butler", True)]
    assert shown.agents[0].updated_by.startswith("api_key:")
    assert not (await tenant.tenancy.ListAgents(pb.ListAgentsRequest())).agents


async def refused_soon(stubs: Stubs) -> None:
    """Call until the credential is refused; the test's own time limit ends the wait."""

    async def code() -> grpc.StatusCode:
        try:
            await stubs.auth.GetMe(auth_pb2.GetMeRequest())
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    while (result := await code()) is grpc.StatusCode.OK:
        await asyncio.sleep(0.05)
    assert result is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.system
async def test_keys_of_a_deleted_agent_are_refused_until_it_is_back(cluster: Cluster, tenant: Tenant) -> None:
    await make_agent(tenant)
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", agent_id="butler"))
    account = await tenant.auth.CreateServiceAccount(
        accounts_pb2.CreateServiceAccountRequest(
            service_account=accounts_pb2.ServiceAccount(
                display_name="bot", permissions=["memory.read"], agent_id="butler"
            )
        )
    )
    of_account = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(
            display_name="b", service_account_id=account.service_account.service_account_id, permissions=["memory.read"]
        )
    )
    bound = [cluster.with_key(one.secret) for one in (key, of_account)]
    for one in bound:
        assert (await one.auth.GetMe(auth_pb2.GetMeRequest())).agent_id == "butler"

    await delete_agent(tenant)

    for one in bound:
        await refused_soon(one)
    await undelete_agent(tenant)
    for one in bound:
        assert (await one.auth.GetMe(auth_pb2.GetMeRequest())).agent_id == "butler"


class Upkeep:
    """The worker's calls that remove what is over, for one tenant."""

    def __init__(self, cluster: Cluster, tenant: Tenant, token: str) -> None:
        self._cluster, self._tenant, self._token = cluster, tenant, token

    async def round(self) -> None:
        """Do what the worker's expiry job does."""
        calls = {
            "auth": (auth_pb2_grpc.AuthInternalServiceStub, auth_pb2.DeleteExpiredRequest()),
            "tenancy": (tenancy_pb2_grpc.TenancyInternalServiceStub, members_pb2.DeleteExpiredRequest()),
            "session": (session_pb2_grpc.SessionInternalServiceStub, session_pb2.DeleteExpiredRequest()),
            "memory": (memory_pb2_grpc.MemoryInternalServiceStub, memory_pb2.DeleteExpiredRequest()),
        }
        for service, (stub, request) in calls.items():
            async with self._cluster.direct(service) as channel:
                authorized: Any = AuthorizedChannel(channel, self._token)
                await stub(authorized).DeleteExpired(request)

    async def purged_before(self, minutes: int) -> None:
        """Pretend that agents were purged so many minutes earlier."""
        async with superuser(self._cluster) as connection:
            await connection.execute(
                "UPDATE tenancy.agents SET purge_time = purge_time - make_interval(mins => $2)"
                " WHERE tenant_id = $1 AND purge_time IS NOT NULL",
                self._tenant.tenant_id,
                minutes,
            )


@asynccontextmanager
async def upkeep_of(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Upkeep]:
    yield Upkeep(cluster, tenant, await system_identity(cluster, str(tenant.tenant_id)))


@pytest.mark.system
async def test_a_purged_agent_s_id_is_free_only_when_nothing_of_it_is_left(cluster: Cluster, tenant: Tenant) -> None:
    await with_everything(tenant)
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", agent_id="butler"))

    await tenant.tenancy.PurgeAgent(pb.PurgeAgentRequest(agent_id="butler"))

    assert (await compiled(tenant), await states(tenant)) == ("", [])
    with refused(NOT_FOUND, "AGENT_NOT_FOUND"):
        await undelete_agent(tenant)
    assert not (await tenant.tenancy.ListAgents(pb.ListAgentsRequest(show_deleted=True))).agents
    async with upkeep_of(cluster, tenant) as upkeep:
        await upkeep.purged_before(11)
        await upkeep.round()
        # Tenancy came before session and memory: what they removed it sees in the next round.
        with refused(TAKEN, "AGENT_DELETED"):
            await make_agent(tenant)
        await upkeep.round()

    await make_agent(tenant)

    assert (await compiled(tenant), await carried(tenant), await states(tenant)) == ("", 0, [])
    assert await tools_of(tenant) == []
    await refused_soon(cluster.with_key(key.secret))


async def test_a_purge_waits_for_calls_that_began_before_it(cluster: Cluster, tenant: Tenant) -> None:
    await make_agent(tenant)
    await tenant.tenancy.PurgeAgent(pb.PurgeAgentRequest(agent_id="butler"))

    async with upkeep_of(cluster, tenant) as upkeep:
        await upkeep.round()
        with refused(TAKEN, "AGENT_DELETED"):
            await make_agent(tenant)
        await upkeep.purged_before(11)
        await upkeep.round()

    assert (await make_agent(tenant)).revision == 1


async def test_a_purged_agent_is_in_no_row_and_no_stored_answer(cluster: Cluster, tenant: Tenant) -> None:
    agent = pb.Agent(agent_id="butler", system_prompt="marker of a prompt")
    request = pb.CreateAgentRequest(agent=agent, request_id="r")
    await tenant.tenancy.CreateAgent(request)

    await tenant.tenancy.PurgeAgent(pb.PurgeAgentRequest(agent_id="butler"))

    async with superuser(cluster) as connection:
        kept = await connection.fetch("SELECT * FROM tenancy.agents WHERE tenant_id = $1", tenant.tenant_id)
        answers = await connection.fetch("SELECT response FROM tenancy.requests WHERE tenant_id = $1", tenant.tenant_id)
    assert "marker" not in str(kept)
    assert b"marker" not in b"".join(row["response"] for row in answers)
    assert (await tenant.tenancy.CreateAgent(request)) == pb.CreateAgentResponse()


async def test_a_deleted_agent_does_not_affect_another_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    for one in (tenant, other_tenant):
        await make_agent(one)
        await carry(one)
        await keep(one)

    await delete_agent(other_tenant)

    assert await compiled(tenant)
    assert await states(tenant) == [""]
    with refused(NOT_FOUND, "AGENT_NOT_FOUND"):
        await tenant.tenancy.UndeleteAgent(pb.UndeleteAgentRequest(agent_id="theirs"))


async def test_purging_a_session_takes_its_agents_states_along(tenant: Tenant) -> None:
    await with_everything(tenant)
    await delete_agent(tenant)

    purged = await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="s"))
    await undelete_agent(tenant)

    assert purged.receipt.counts["session.agent_states"] == 1
    assert await states(tenant) == [""]


# Subjects and tools.


@pytest.mark.parametrize("kind", ["subject", "tool"])
async def test_a_deleted_thing_keeps_its_id_comes_back_whole_and_is_purged_for_good(tenant: Tenant, kind: str) -> None:
    name, things = kind.capitalize(), subjects_pb2
    thing = getattr(things, name)(**{f"{kind}_id": "x"})
    if kind == "tool":
        thing.name = "kettle"
    else:
        thing.profile.update({"city": "Graz"})
    named = {f"{kind}_id": "x"}

    async def call(verb: str, plural: str = "", **fields: Any) -> Any:
        request = getattr(things, f"{verb}{name}{plural}Request")(**fields)
        return await getattr(tenant.tenancy, f"{verb}{name}{plural}")(request)

    async def listed(**fields: Any) -> list[str]:
        page = await call("List", "s", **fields)
        return [getattr(one, f"{kind}_id") for one in getattr(page, f"{kind}s")]

    made = getattr(await call("Create", **{kind: thing}), kind)
    await call("Delete", **named)

    assert (await listed(), await listed(show_deleted=True)) == ([], ["x"])
    for verb in ("Get", "Delete"):
        with refused(NOT_FOUND, f"{name.upper()}_NOT_FOUND"):
            await call(verb, **named)
    with refused(NOT_FOUND, f"{name.upper()}_NOT_FOUND"):
        await call("Update", **{kind: thing})
    with refused(TAKEN, f"{name.upper()}_DELETED") as caught:
        await call("Create", **{kind: thing})
    assert f"Undelete{name}" in (caught.value.details() or "")

    back = getattr(await call("Undelete", request_id="r", **named), kind)
    again = getattr(await call("Undelete", **named), kind)
    assert again == back == getattr(await call("Get", **named), kind)
    assert (back.create_time, back.revision, back.HasField("delete_time")) == (made.create_time, 3, False)

    await call("Delete", **named)
    await call("Purge", request_id="p", **named)
    await call("Purge", request_id="p", **named)
    for verb in ("Undelete", "Purge"):
        with refused(NOT_FOUND, f"{name.upper()}_NOT_FOUND"):
            await call(verb, **named)
    assert await listed(show_deleted=True) == []
    assert getattr(await call("Create", **{kind: thing}), kind).revision == 1


async def test_a_deleted_tool_keeps_its_name_and_its_agents(tenant: Tenant) -> None:
    await with_everything(tenant)
    await tenant.tenancy.DeleteTool(subjects_pb2.DeleteToolRequest(tool_id="kettle"))

    assert await tools_of(tenant) == []
    with refused(TAKEN, "TOOL_DELETED"):
        await tenant.tenancy.CreateTool(
            subjects_pb2.CreateToolRequest(tool=subjects_pb2.Tool(tool_id="other", name="kettle"))
        )
    pot = subjects_pb2.Tool(tool_id="pot", name="pot")
    await tenant.tenancy.CreateTool(subjects_pb2.CreateToolRequest(tool=pot))
    with refused(TAKEN, "TOOL_DELETED"):
        await tenant.tenancy.UpdateTool(
            subjects_pb2.UpdateToolRequest(tool=subjects_pb2.Tool(tool_id="pot", name="kettle"))
        )
    with refused(NOT_FOUND, "TOOL_NOT_FOUND"):
        await tenant.tenancy.AttachTool(subjects_pb2.AttachToolRequest(agent_id="butler", tool_id="kettle"))

    await tenant.tenancy.UndeleteTool(subjects_pb2.UndeleteToolRequest(tool_id="kettle"))

    assert await tools_of(tenant) == ["kettle"]


async def test_deleted_rows_do_not_count_until_they_are_back(cluster: Cluster, tenant: Tenant) -> None:
    await make_agent(tenant)

    async def used() -> dict[str, int]:
        async with superuser(cluster) as connection:
            rows = await connection.fetch(
                "SELECT kind, sum(amount)::bigint AS amount FROM tenancy.usage WHERE tenant_id = $1 GROUP BY kind",
                tenant.tenant_id,
            )
        return {row["kind"]: row["amount"] for row in rows if row["amount"]}

    counts = [await used()]
    await delete_agent(tenant)
    counts.append(await used())
    await undelete_agent(tenant)
    counts.append(await used())
    await tenant.tenancy.PurgeAgent(pb.PurgeAgentRequest(agent_id="butler"))
    counts.append(await used())

    assert [one.get("agents", 0) for one in counts] == [1, 0, 1, 0]
