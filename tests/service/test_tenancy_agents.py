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

from skein.auth.v1 import auth_pb2
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


async def test_a_repeated_create_agent_makes_one(tenant: Tenant) -> None:
    request = pb.CreateAgentRequest(agent=pb.Agent(display_name="Once"), request_id="r")

    answers = await asyncio.gather(*(tenant.tenancy.CreateAgent(request) for _ in range(6)))
    listed = await tenant.tenancy.ListAgents(pb.ListAgentsRequest())

    assert all(answer == answers[0] for answer in answers)
    assert list(listed.agents) == [answers[0].agent]


async def test_a_request_id_of_another_agent_is_refused(tenant: Tenant) -> None:
    await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id="a"), request_id="r"))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED"):
        await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id="b"), request_id="r"))


async def test_an_id_belongs_to_one_agent_of_a_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    request = pb.CreateAgentRequest(agent=pb.Agent(agent_id="same"))
    await tenant.tenancy.CreateAgent(request)

    with refused(grpc.StatusCode.ALREADY_EXISTS, "AGENT_EXISTS"):
        await tenant.tenancy.CreateAgent(request)
    assert (await other_tenant.tenancy.CreateAgent(request)).agent.agent_id == "same"


async def test_agents_of_another_tenant_do_not_exist(tenant: Tenant, other_tenant: Tenant) -> None:
    await other_tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id="theirs")))

    with refused(grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND"):
        await tenant.tenancy.GetAgent(pb.GetAgentRequest(agent_id="theirs"))
    with refused(grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND"):
        await tenant.tenancy.UpdateAgent(pb.UpdateAgentRequest(agent=pb.Agent(agent_id="theirs")))
    with refused(grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND"):
        await tenant.tenancy.DeleteAgent(pb.DeleteAgentRequest(agent_id="theirs"))
    assert not (await tenant.tenancy.ListAgents(pb.ListAgentsRequest())).agents


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


async def test_a_page_token_of_another_tenant_is_refused(tenant: Tenant, other_tenant: Tenant) -> None:
    for name in ("a", "b"):
        await other_tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id=name)))
    page = await other_tenant.tenancy.ListAgents(pb.ListAgentsRequest(page_size=1))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
        await tenant.tenancy.ListAgents(pb.ListAgentsRequest(page_size=1, page_token=page.next_page_token))


async def test_only_the_masked_fields_of_an_agent_change(tenant: Tenant) -> None:
    made = await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=whole_agent()))
    change = pb.Agent(agent_id="kitchen-voice", topic="breakfast", display_name="ignored", revision=1)

    updated = await tenant.tenancy.UpdateAgent(
        pb.UpdateAgentRequest(agent=change, update_mask=FieldMask(paths=["topic", "mcp_servers", "llm_config"]))
    )

    expected = pb.Agent()
    expected.CopyFrom(made.agent)
    expected.topic, expected.revision = "breakfast", 2
    expected.ClearField("mcp_servers")
    expected.ClearField("llm_config")
    expected.ClearField("llm_config_json")
    expected.update_time.CopyFrom(updated.agent.update_time)
    assert updated.agent == expected
    assert (await tenant.tenancy.GetAgent(pb.GetAgentRequest(agent_id="kitchen-voice"))).agent == expected


async def test_a_repeated_update_changes_an_agent_once(tenant: Tenant) -> None:
    await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id="a")))
    request = pb.UpdateAgentRequest(agent=pb.Agent(agent_id="a", topic="new", revision=1), request_id="r")

    first = await tenant.tenancy.UpdateAgent(request)
    again = await tenant.tenancy.UpdateAgent(request)

    assert again == first
    assert first.agent.revision == 2


async def test_a_stale_agent_is_refused(tenant: Tenant) -> None:
    await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id="a")))
    request = pb.UpdateAgentRequest(agent=pb.Agent(agent_id="a", topic="new", revision=1))
    await tenant.tenancy.UpdateAgent(request)

    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await tenant.tenancy.UpdateAgent(request)


async def test_the_id_of_an_agent_cannot_be_updated(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
        await tenant.tenancy.UpdateAgent(
            pb.UpdateAgentRequest(agent=pb.Agent(agent_id="a"), update_mask=FieldMask(paths=["agent_id"]))
        )


async def test_a_number_that_json_cannot_say_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(metadata=facts(x=float("nan")))))


async def test_a_deleted_agent_is_gone_and_its_id_stays_taken(tenant: Tenant) -> None:
    create = pb.CreateAgentRequest(agent=pb.Agent(agent_id="a", topic="old"))
    await tenant.tenancy.CreateAgent(create)
    await tenant.tenancy.DeleteAgent(pb.DeleteAgentRequest(agent_id="a"))

    with refused(grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND"):
        await tenant.tenancy.GetAgent(pb.GetAgentRequest(agent_id="a"))
    with refused(grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND"):
        await tenant.tenancy.DeleteAgent(pb.DeleteAgentRequest(agent_id="a"))
    assert not (await tenant.tenancy.ListAgents(pb.ListAgentsRequest())).agents
    with refused(grpc.StatusCode.ALREADY_EXISTS, "AGENT_DELETED"):
        await tenant.tenancy.CreateAgent(create)


async def test_one_of_concurrent_deletes_finds_the_agent(tenant: Tenant) -> None:
    await tenant.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id="a")))

    results = await asyncio.gather(
        *(tenant.tenancy.DeleteAgent(pb.DeleteAgentRequest(agent_id="a")) for _ in range(4)), return_exceptions=True
    )

    assert sum(isinstance(result, aio.AioRpcError) for result in results) == 3


async def test_a_reading_key_cannot_write_agents(cluster: Cluster, tenant: Tenant) -> None:
    key = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="reader", permissions=["tenant.read"])
    )
    reader = cluster.with_key(key.secret)

    assert not (await reader.tenancy.ListAgents(pb.ListAgentsRequest())).agents
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await reader.tenancy.CreateAgent(pb.CreateAgentRequest(agent=pb.Agent(agent_id="a")))


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
