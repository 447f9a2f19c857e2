from __future__ import annotations

import asyncio
import uuid

import asyncpg
import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_json import with_texts
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct
from grpc import aio

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.database.connection_settings import connect_arguments


def facts(**values: object) -> Struct:
    return json_format.ParseDict(values, Struct())


def whole_agent() -> pb.Agent:
    return pb.Agent(
        agent_id="kitchen-voice",
        display_name="Kitchen",
        agent_type="voice_assistant",
        description="Listens in the kitchen.",
        system_prompt="You help in a kitchen.",
        topic="dinner",
        metadata=facts(room="kitchen"),
        llm_config=facts(model="small", temperature=0.2),
        embedding_config=facts(dimensions=384),
        tool_rules=facts(timer={"max": 3}),
        mcp_servers=["timers", "recipes"],
        message_ids=["second", "first"],
    )


async def test_an_agent_comes_back_as_it_was_made(tenant: Tenant) -> None:
    agent = whole_agent()

    made = await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=agent))
    read = await tenant.tenancy.GetAgent(pb.GetAgentRequest(agent_id="kitchen-voice"))

    assert read.agent == made.agent
    agent.revision, agent.created_by, agent.updated_by = 1, read.agent.created_by, read.agent.created_by
    agent.create_time.CopyFrom(read.agent.create_time)
    agent.update_time.CopyFrom(read.agent.create_time)
    with_texts(agent)
    assert read.agent == agent
    assert read.agent.created_by.startswith("api_key:")


async def test_an_agent_without_an_id_gets_one(tenant: Tenant) -> None:
    made = await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent()))

    assert uuid.UUID(made.agent.agent_id).version == 7


async def test_an_id_belongs_to_one_agent_of_a_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    request = pb.CreateAgentRequest(agent=pb.Agent(agent_id="same"))
    await tenant.tenancy.CreateAgent(request)

    with refused(grpc.StatusCode.ALREADY_EXISTS, "AGENT_EXISTS"):
        await tenant.tenancy.CreateAgent(request)
    assert (await other_tenant.tenancy.CreateAgent(request)).agent.agent_id == "same"


async def test_agents_are_paged_in_order_of_their_ids(tenant: Tenant) -> None:
    names = ["b", "a", "ä", "C", "a/1"]
    for name in names:
        await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id=name)))

    seen: list[str] = []
    request = pb.ListAgentsRequest(page_size=2)
    while True:
        page = await tenant.tenancy.ListAgents(request)
        seen += [agent.agent_id for agent in page.agents]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token

    assert seen == sorted(names)


async def test_the_id_of_an_agent_cannot_be_updated(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
        await tenant.tenancy.UpdateAgent(
            pb.UpdateAgentRequest(agent=pb.Agent(agent_id="a"), update_mask=FieldMask(paths=["agent_id"]))
        )


async def test_a_number_that_json_cannot_say_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(metadata=facts(x=float("nan")))))


async def test_one_of_concurrent_deletes_finds_the_agent(tenant: Tenant) -> None:
    await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id="a")))

    results = await asyncio.gather(
        *(tenant.tenancy.DeleteAgent(pb.DeleteAgentRequest(agent_id="a")) for _ in range(4)), return_exceptions=True
    )

    assert sum(isinstance(result, aio.AioRpcError) for result in results) == 3


async def test_an_operator_manages_the_agents_of_the_tenant_that_it_names(cluster: Cluster, tenant: Tenant) -> None:
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})

    made = await acting.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id="a")))

    assert made.agent.created_by.startswith("operator:")
    assert (await tenant.tenancy.GetAgent(pb.GetAgentRequest(agent_id="a"))).agent == made.agent


@pytest.mark.parametrize("table", ["agents", "tenants", "organizations", "requests"])
async def test_sql_without_a_tenant_sees_no_rows(cluster: Cluster, tenant: Tenant, table: str) -> None:
    await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id="a"), request_id="r"))
    url = cluster.postgres.url(user="postgres", database="skein")
    connection = await asyncpg.connect(**connect_arguments(url, "skein_tenancy"))
    try:
        count = await connection.fetchval(f"SELECT count(*) FROM tenancy.{table}")  # noqa: S608 - names of ours.
    finally:
        await connection.close()

    assert count == 0
