"""Tools: what comes back, what is a JSON Schema, and who has them."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from fix_json import with_texts
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct

from skein.tenancy.v1 import subjects_pb2 as pb
from skein.tenancy.v1 import tenancy_pb2

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def facts(**values: object) -> Struct:
    return json_format.ParseDict(values, Struct())


async def make(tenant: Tenant, tool_id: str, **values: Any) -> pb.Tool:
    tool = pb.Tool(**{"tool_id": tool_id, "name": tool_id, **values})
    return (await tenant.tenancy.CreateTool(pb.CreateToolRequest(tool=tool))).tool


async def make_agent(tenant: Tenant, agent_id: str = "agent") -> None:
    agent = tenancy_pb2.Agent(agent_id=agent_id)
    await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=agent))


async def attach(tenant: Tenant, tool_id: str, agent_id: str = "agent") -> None:
    await tenant.tenancy.AttachTool(pb.AttachToolRequest(agent_id=agent_id, tool_id=tool_id))


async def tools_of(tenant: Tenant, agent_id: str = "") -> list[str]:
    listed = await tenant.tenancy.ListTools(pb.ListToolsRequest(agent_id=agent_id))
    return [tool.tool_id for tool in listed.tools]


async def test_a_tool_comes_back_as_it_was_made(tenant: Tenant) -> None:
    tool = pb.Tool(
        tool_id="timer",
        name="set_timer",
        description="Sets a timer.",
        json_schema=facts(type="object", properties={"minutes": {"type": "integer"}}, required=["minutes"]),
        source_type="python",
        source_code="def set_timer(minutes): ...",
        tags=["kitchen", "time"],
        metadata=facts(version=2),
    )

    made = (await tenant.tenancy.CreateTool(pb.CreateToolRequest(tool=tool))).tool
    read = (await tenant.tenancy.GetTool(pb.GetToolRequest(tool_id="timer"))).tool

    tool.revision, tool.created_by, tool.updated_by = 1, made.created_by, made.created_by
    tool.create_time.CopyFrom(made.create_time)
    tool.update_time.CopyFrom(made.create_time)
    with_texts(tool)
    assert read == made == tool


async def test_a_tool_without_an_id_gets_one_but_needs_a_name(tenant: Tenant) -> None:
    made = await tenant.tenancy.CreateTool(pb.CreateToolRequest(tool=pb.Tool(name="n")))

    assert uuid.UUID(made.tool.tool_id).version == 7
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.tenancy.CreateTool(pb.CreateToolRequest(tool=pb.Tool(tool_id="x", name=" ")))


@pytest.mark.system
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/never-fetched.json"}}},
        {"$schema": DRAFT_7, "type": "object", "definitions": {"a": {"type": "string"}}},
        {"$schema": "https://example.com/own-dialect", "type": "object"},
        {"$id": "https://example.com/x", "$ref": "#/nowhere"},
        {"type": "object", "properties": {f"property {number}": {"type": "string"} for number in range(2000)}},
    ],
)
async def test_a_json_schema_is_taken(tenant: Tenant, document: dict[str, object]) -> None:
    made = await make(tenant, "t", json_schema=json_format.ParseDict(document, Struct()))

    assert json_format.MessageToDict(made.json_schema) == document


@pytest.mark.parametrize(
    "document",
    [
        {"type": "objekt"},
        {"type": "object", "properties": {"a": {"minimum": "low"}}},
        {"$schema": DRAFT_7, "definitions": 3},
        {"$schema": {"not": "a text"}},
        {"properties": {f"property {number}": {"type": "text"} for number in range(2000)}},
    ],
)
async def test_an_invalid_json_schema_is_refused(tenant: Tenant, document: dict[str, object]) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "JSON_SCHEMA_INVALID"):
        await make(tenant, "t", json_schema=json_format.ParseDict(document, Struct()))
    assert await tools_of(tenant) == []


@pytest.mark.parametrize(
    "document",
    [
        {"pattern": "(?i)" + "[!-\U0010ffff]" * 2000},
        {"pattern": "a{99999999999999999999}"},
        {"pattern": "("},
        {"pattern": r"^\p{Letter}+$"},
    ],
    ids=["slow", "too-large", "broken", "of-another-dialect"],
)
async def test_a_regular_expression_is_kept_and_never_compiled(tenant: Tenant, document: dict[str, object]) -> None:
    async with asyncio.timeout(20):
        made = await make(tenant, "t", json_schema=json_format.ParseDict(document, Struct()))

    assert json_format.MessageToDict(made.json_schema) == document


@pytest.mark.parametrize("field", ["enum", "type", "required"])
async def test_a_long_list_of_mixed_values_does_not_delay_other_calls(tenant: Tenant, field: str) -> None:
    mixed = [value for number in range(8000) for value in (number, str(number))]
    document = {"$schema": "http://json-schema.org/draft-04/schema#", field: mixed}

    async with asyncio.timeout(20):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "JSON_SCHEMA_INVALID"):
            await make(tenant, "t", json_schema=json_format.ParseDict(document, Struct()))


async def test_a_schema_with_long_lists_of_one_kind_is_taken(tenant: Tenant) -> None:
    document = facts(enum=[str(number) for number in range(2000)], anyOf=[{"enum": [*range(2000)]}])

    assert (await make(tenant, "t", json_schema=document)).HasField("json_schema")


async def test_a_schema_that_is_too_deep_is_refused(tenant: Tenant) -> None:
    deep: dict[str, object] = {"type": "string"}
    for _ in range(30):
        deep = {"not": deep}

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await make(tenant, "t", json_schema=json_format.ParseDict(deep, Struct()))


async def test_an_id_and_a_name_belong_to_one_tool_of_a_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    await make(tenant, "a", name="one")
    await make(tenant, "b", name="two")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "TOOL_EXISTS"):
        await make(tenant, "a", name="three")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "TOOL_EXISTS"):
        await make(tenant, "c", name="one")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "TOOL_EXISTS"):
        await tenant.tenancy.UpdateTool(
            pb.UpdateToolRequest(tool=pb.Tool(tool_id="b", name="one"), update_mask=FieldMask(paths=["name"]))
        )
    assert (await make(other_tenant, "a", name="one")).tool_id == "a"


async def test_only_the_masked_fields_of_a_tool_change(tenant: Tenant) -> None:
    made = await make(tenant, "a", description="old", tags=["x"])
    change = pb.Tool(tool_id="a", description="new", name="ignored", revision=1)

    updated = await tenant.tenancy.UpdateTool(
        pb.UpdateToolRequest(tool=change, update_mask=FieldMask(paths=["description", "json_schema"]))
    )

    made.description, made.revision = "new", 2
    made.update_time.CopyFrom(updated.tool.update_time)
    assert updated.tool == made
    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await tenant.tenancy.UpdateTool(pb.UpdateToolRequest(tool=change, update_mask=FieldMask(paths=["description"])))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "JSON_SCHEMA_INVALID"):
        await tenant.tenancy.UpdateTool(
            pb.UpdateToolRequest(
                tool=pb.Tool(tool_id="a", json_schema=facts(type=3)), update_mask=FieldMask(paths=["json_schema"])
            )
        )


async def test_attaching_and_detaching_again_changes_nothing(tenant: Tenant) -> None:
    await make_agent(tenant)
    for name in ("b", "a", "c"):
        await make(tenant, name)

    await attach(tenant, "b")
    await attach(tenant, "b")
    await attach(tenant, "a")
    assert await tools_of(tenant, "agent") == ["a", "b"]
    assert await tools_of(tenant) == ["a", "b", "c"]

    for _ in range(2):
        await tenant.tenancy.DetachTool(pb.DetachToolRequest(agent_id="agent", tool_id="b"))
    assert await tools_of(tenant, "agent") == ["a"]


async def test_a_deleted_tool_leaves_its_agents(tenant: Tenant) -> None:
    await make_agent(tenant)
    await make(tenant, "a")
    await attach(tenant, "a")

    await tenant.tenancy.DeleteTool(pb.DeleteToolRequest(tool_id="a"))

    assert await tools_of(tenant, "agent") == []
    with refused(grpc.StatusCode.NOT_FOUND, "TOOL_NOT_FOUND"):
        await tenant.tenancy.GetTool(pb.GetToolRequest(tool_id="a"))


async def test_a_deleted_agent_has_no_tools_and_those_it_had_when_it_is_back(tenant: Tenant) -> None:
    await make_agent(tenant)
    await make(tenant, "a")
    await attach(tenant, "a")

    await tenant.tenancy.DeleteAgent(tenancy_pb2.DeleteAgentRequest(agent_id="agent"))
    with refused(grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND"):
        await attach(tenant, "a")
    assert await tools_of(tenant, "agent") == []

    await tenant.tenancy.UndeleteAgent(tenancy_pb2.UndeleteAgentRequest(agent_id="agent"))

    assert await tools_of(tenant, "agent") == ["a"]


async def test_an_agent_s_tools_are_paged_by_id(tenant: Tenant) -> None:
    await make_agent(tenant)
    for name in ("b", "a", "c"):
        await make(tenant, name)
        await attach(tenant, name)

    first = await tenant.tenancy.ListTools(pb.ListToolsRequest(agent_id="agent", page_size=2))
    response = await tenant.tenancy.ListTools(
        pb.ListToolsRequest(agent_id="agent", page_size=2, page_token=first.next_page_token)
    )

    assert [tool.tool_id for tool in (*first.tools, *response.tools)] == ["a", "b", "c"]
    assert not response.next_page_token
