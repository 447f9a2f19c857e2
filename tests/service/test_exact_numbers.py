"""Numbers in free JSON come back as they were given, over gRPC and over HTTP."""

from __future__ import annotations

import asyncio
import http.client
import json
import uuid
from decimal import Decimal
from typing import Any, cast

import grpc
import pytest
from fix_calls import struct
from fix_cluster import Cluster, Tenant, refused
from fix_mcp import Mcp
from google.protobuf.field_mask_pb2 import FieldMask
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2, snapshots_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_client import Client, get_json, with_json
from skein_langgraph.store import SkeinStore

EXACT = (
    '{"big":9007199254740993,"whole":3,"point":3.0,"fine":0.123456789012345678901234567891,"far":1e300,'
    '"list":[-12345678901234567890,1.10,null,true,"ä"],"deep":{"n":-0.5}}'
)
# Beyond these a number is refused.
NUMBERS = (
    st.integers(min_value=-(10**60), max_value=10**60)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False).map(repr).map(Decimal)
    | st.decimals(min_value=-(10**9), max_value=10**9, places=30).filter(bool)
    | st.sampled_from([Decimal("1e300"), Decimal("-0.0"), Decimal("1.0"), 1, 2**53 + 1, Decimal("1e-300")])
)
OBJECTS = st.dictionaries(st.text("abcdefä", min_size=1), NUMBERS | st.lists(NUMBERS, max_size=3), max_size=10)


def read(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def written(value: Any) -> str:
    """Write JSON with every digit of its Decimals."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


async def post(cluster: Cluster, tenant: Tenant, method: str, body: str) -> Any:
    status, answer = await posted(cluster, tenant, method, body)
    assert status == 200, answer
    return read(answer)


async def posted(cluster: Cluster, tenant: Tenant, method: str, body: str) -> tuple[int, str]:
    headers = {"content-type": "application/json", "authorization": f"Bearer {tenant.api_key}"}

    def do() -> tuple[int, str]:
        connection = http.client.HTTPConnection(cluster.addresses["http"], timeout=60)
        try:
            connection.request("POST", f"/skein.{method}", body.encode(), headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    return await asyncio.to_thread(do)


def fields_of(error: aio.AioRpcError) -> list[str]:
    """Read which fields a refusal's BadRequest names."""
    status = rpc_status.from_call(cast("Any", error))
    request = error_details_pb2.BadRequest()
    assert status is not None
    assert any(detail.Unpack(request) for detail in status.details)
    return [violation.field for violation in request.field_violations]


async def created(tenant: Tenant, **fields: Any) -> pb.Memory:
    return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="x", **fields)))).memory


async def test_text_alone_keeps_every_digit(tenant: Tenant) -> None:
    memory = await created(tenant, data_json=EXACT, metadata_json=EXACT)

    again = (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory.memory_id))).memory

    assert read(memory.data_json) == read(memory.metadata_json) == read(EXACT)
    assert read(again.data_json) == read(again.metadata_json) == read(EXACT)
    assert again.data["big"] == float(2**53)
    assert again.data_json == memory.data_json


async def test_whole_numbers_of_a_struct_are_whole_in_the_text(tenant: Tenant) -> None:
    memory = await created(tenant, data=struct(n=3, half=0.5, big=2.0**53))

    assert read(memory.data_json) == {"n": 3, "half": Decimal("0.5"), "big": 2**53}
    assert "3.0" not in memory.data_json
    assert memory.data == struct(n=3, half=0.5, big=2.0**53)


@pytest.mark.system
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=OBJECTS)
async def test_any_numbers_come_back_equal_over_grpc_http_and_an_export(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, data: dict[str, Any]
) -> None:
    text = written(data)
    name = uuid.uuid4().hex

    over_grpc = await created(tenant, external_id=name, data_json=text)
    over_http = await post(
        cluster, tenant, "memory.v1.MemoryService/CreateMemory", f'{{"memory":{{"content":"y","data":{text}}}}}'
    )
    export = snapshots_pb2.ExportDataRequest(page_size=1000)
    lines = (await tenant.snapshots.ExportData(export)).lines
    line = next(line for line in lines.splitlines() if name in line)
    await other_tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=line))
    imported = (await other_tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=name))).memory
    result = await post(
        cluster, tenant, "memory.v1.MemoryService/GetMemory", json.dumps({"memoryId": over_grpc.memory_id})
    )

    assert read(over_grpc.data_json) == data
    assert over_http["memory"]["data"] == data
    assert read(over_http["memory"]["dataJson"]) == data
    assert result["memory"]["data"] == data
    assert read(line)["memory"]["data"] == data
    assert read(imported.data_json) == data


async def test_a_struct_and_a_text_that_disagree_are_refused_by_name(tenant: Tenant) -> None:
    memory = pb.Memory(content="x", data=struct(n=1), data_json='{"n":2}')

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as caught:
        await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))

    assert fields_of(caught.value) == ["memory.data", "memory.data_json"]


async def test_a_struct_may_stand_beside_the_text_that_it_is_rounded_from(tenant: Tenant) -> None:
    memory = await created(tenant, data=struct(n=9007199254740993), data_json='{"n": 9007199254740993}')

    assert read(memory.data_json) == {"n": 9007199254740993}


@pytest.mark.parametrize(
    "text",
    [
        '{"n":1e400}',
        '{"n":1e-400}',
        '{"n":0e9999999999999}',
        f'{{"n":{"9" * 100_000}}}',
        '{"n":NaN}',
        '{"n":-Infinity}',
        '{"n":1,"n":2}',
        '{"n":{"a":1,"a":1}}',
        '{"n":1',
        "[1]",
        "null",
        "3",
        '{"n":"\\ud800"}',
        f'{{"n":{"[" * 40}{"]" * 40}}}',
        f'{{"n":{"[" * 5000}{"]" * 5000}}}',
        f'{{"n":"{"x" * 262_144}"}}',
    ],
)
async def test_text_that_is_no_plain_object_is_refused_by_name(tenant: Tenant, text: str) -> None:
    request = pb.CreateMemoryRequest(memory=pb.Memory(content="x", metadata_json=text))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as caught:
        await tenant.memory.CreateMemory(request)

    assert fields_of(caught.value) == ["memory.metadata_json"]


@pytest.mark.parametrize("number", ["1e400", "1e-400", "1e99999999999999999999", "9" * 100_000])
async def test_a_number_beyond_a_double_is_refused_by_name_over_http(
    cluster: Cluster, tenant: Tenant, number: str
) -> None:
    body = f'{{"memory":{{"content":"x","data":{{"n":{number}}}}}}}'

    status, answer = await posted(cluster, tenant, "memory.v1.MemoryService/CreateMemory", body)

    details = json.loads(answer)["details"]
    assert status == 400
    assert details[0]["debug"]["reason"] == "INVALID_FIELD"
    assert details[1]["debug"]["fieldViolations"][0]["field"] == "memory.data"


async def test_a_mask_may_name_the_field_or_its_text(tenant: Tenant) -> None:
    memory = await created(tenant, data_json='{"n":1}', metadata_json='{"m":1}')
    changed = pb.Memory(memory_id=memory.memory_id, data_json=EXACT)

    for path in ("data", "data_json"):
        request = pb.UpdateMemoryRequest(memory=changed, update_mask=FieldMask(paths=[path]))
        updated = (await tenant.memory.UpdateMemory(request)).memory
        assert read(updated.data_json) == read(EXACT)
        assert read(updated.metadata_json) == {"m": 1}


async def test_a_mask_may_spell_the_text_as_json_does(tenant: Tenant) -> None:
    created = await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="x")))
    change = pb.Memory(memory_id=created.memory.memory_id, data_json='{"n": 9007199254740993}')

    updated = await tenant.memory.UpdateMemory(
        pb.UpdateMemoryRequest(memory=change, update_mask=FieldMask(paths=["dataJson"]))
    )

    assert json.loads(updated.memory.data_json) == {"n": 9007199254740993}


async def test_a_memory_that_is_a_dict_keeps_every_digit(cluster: Cluster, tenant: Tenant) -> None:
    data = {"big": 9007199254740993, "price": Decimal("0.10")}
    async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as client:
        (stored,) = (await client.remember({"content": "x", "data": data, "metadata": {}})).memories

    assert get_json(stored, "data") == {"big": 9007199254740993, "price": 0.1}
    assert stored.HasField("metadata")


@pytest.mark.parametrize("number", ["1e-999999", "1e-9999999", "0e99999999"])
async def test_a_number_beyond_a_double_in_a_condition_is_a_word_like_any_other(tenant: Tenant, number: str) -> None:
    await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="x", data_json='{"n": 1}')))
    condition = pb.MemoryFilter(where=f"data.n = {number}")

    response = await tenant.memory.ListMemories(pb.ListMemoriesRequest(filter=condition))

    assert not response.memories


async def test_requests_differ_by_digits_that_no_double_has(tenant: Tenant) -> None:
    def request(text: str) -> pb.CreateMemoryRequest:
        return pb.CreateMemoryRequest(request_id=name, memory=pb.Memory(content="x", data_json=text))

    name = uuid.uuid4().hex
    first = await tenant.memory.CreateMemory(request('{"n":9007199254740993,"m":1}'))

    again = await tenant.memory.CreateMemory(request('{"m": 1, "n": 9007199254740993}'))

    assert again == first
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED"):
        await tenant.memory.CreateMemory(request('{"n":9007199254740992,"m":1}'))


async def test_conditions_compare_every_digit(tenant: Tenant) -> None:
    memory = await created(tenant, data_json='{"exact_n":9007199254740993,"exact_d":0.1000000000000000055}')

    async def matching_memory(where: str) -> bool:
        request = pb.ListMemoriesRequest(filter=pb.MemoryFilter(where=where))
        listed = await tenant.memory.ListMemories(request)
        return memory.memory_id in {one.memory_id for one in listed.memories}

    assert await matching_memory("data.exact_n = 9007199254740993")
    assert await matching_memory("data.exact_n > 9007199254740992")
    assert await matching_memory("data.exact_d = 0.1000000000000000055")
    assert not await matching_memory("data.exact_n = 9007199254740992")
    assert not await matching_memory("data.exact_d = 0.1")


async def test_sessions_messages_states_and_items_keep_numbers(cluster: Cluster, tenant: Tenant) -> None:
    name = uuid.uuid4().hex
    array = f"[{EXACT}]"
    session = session_pb2.Session(session_id=name, metadata_json=EXACT)
    opened = await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    message = session_pb2.Message(
        role=session_pb2.MESSAGE_ROLE_USER,
        content="x",
        parts_json=array,
        tool_calls_json=array,
        tool_returns_json=array,
        metadata_json=EXACT,
    )
    appended = await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id=name, messages=[message])
    )
    listed = await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id=name))
    state = states_pb2.AgentState(agent_id="a", session_id=name, state_data_json=EXACT)
    await tenant.sessions.PutAgentState(states_pb2.PutAgentStateRequest(state=state))
    patch = states_pb2.AgentState(agent_id="a", session_id=name, state_data_json='{"more":1.50}')
    merged = await tenant.sessions.PutAgentState(
        states_pb2.PutAgentStateRequest(state=patch, mode=states_pb2.STATE_MODE_MERGE)
    )
    put = await tenant.sessions.PutSessionItem(
        states_pb2.PutSessionItemRequest(session_id=name, key="k", value_json=EXACT)
    )
    result = await post(
        cluster, tenant, "session.v1.SessionService/GetSessionItem", json.dumps({"sessionId": name, "key": "k"})
    )

    assert read(opened.session.metadata_json) == read(EXACT)
    for one in (appended.messages[0], listed.messages[0]):
        assert read(one.parts_json) == read(one.tool_calls_json) == read(one.tool_returns_json) == [read(EXACT)]
        assert read(one.metadata_json) == read(EXACT)
        assert one.parts.values[0].struct_value["whole"] == 3
    assert appended.messages[0] == listed.messages[0]
    assert read(merged.state.state_data_json) == read(EXACT) | {"more": Decimal("1.50")}
    assert read(put.item.value_json) == read(EXACT)
    assert result["item"]["value"] == read(EXACT)


async def test_sessions_and_subjects_are_found_by_every_digit(tenant: Tenant) -> None:
    name = uuid.uuid4().hex
    session = session_pb2.Session(session_id=name, metadata_json='{"exact":9007199254740993}')
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))

    async def matching_memory(text: str) -> list[str]:
        match = session_pb2.SessionProperty(path="metadata.exact", value_json=text)
        listed = await tenant.sessions.ListSessions(session_pb2.ListSessionsRequest(properties=[match]))
        return [one.session_id for one in listed.sessions]

    assert await matching_memory("9007199254740993") == [name]
    assert await matching_memory("9007199254740992") == []


async def test_links_blocks_agents_subjects_and_tools_keep_numbers(tenant: Tenant) -> None:
    one, other = await created(tenant), await created(tenant)
    link = pb.Link(from_memory_id=one.memory_id, to_memory_id=other.memory_id, metadata_json=EXACT)
    linked = await tenant.links.CreateLink(pb.CreateLinkRequest(link=link))
    block = blocks_pb2.Block(label="human", value="x", metadata_json=EXACT)
    blocked = await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))
    agent = tenancy_pb2.Agent(
        metadata_json=EXACT, llm_config_json=EXACT, embedding_config_json=EXACT, tool_rules_json=EXACT
    )
    made = (await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=agent))).agent
    subject = subjects_pb2.Subject(profile_json=EXACT, preferences_json=EXACT)
    known = (await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))).subject
    schema = '{"type":"object","properties":{"n":{"maximum":9007199254740993,"multipleOf":0.10}}}'
    tool = subjects_pb2.Tool(name=uuid.uuid4().hex, json_schema_json=schema, metadata_json=EXACT)
    kept = (await tenant.tenancy.CreateTool(subjects_pb2.CreateToolRequest(tool=tool))).tool

    texts = [
        linked.link.metadata_json,
        blocked.block.metadata_json,
        made.metadata_json,
        made.llm_config_json,
        made.embedding_config_json,
        made.tool_rules_json,
        known.profile_json,
        known.preferences_json,
        kept.metadata_json,
    ]
    assert [read(text) for text in texts] == [read(EXACT)] * len(texts)
    assert read(kept.json_schema_json) == read(schema)


async def test_tools_take_and_tell_every_digit(cluster: Cluster, tenant: Tenant) -> None:
    async def call(http: Mcp, tool: str, arguments: str) -> Any:
        body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}'
        return read((await http.post(body)).text)["result"]

    async with Mcp.of(cluster.addresses["http"], tenant.api_key, "?toolsets=all") as http:
        tool_result = await call(http, "remember", f'{{"content":"x","data":{EXACT}}}')
        memory_id = tool_result["structuredContent"]["memory"]["memory_id"]
        again = await call(http, "get_memory", json.dumps({"memory_id": memory_id}))
    memory = (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory_id))).memory

    assert read(memory.data_json) == read(EXACT)
    for one in (tool_result, again):
        assert one["structuredContent"]["memory"]["data"] == read(EXACT)
        assert "data_json" not in one["structuredContent"]["memory"]
    assert "9007199254740993" in again["content"][0]["text"]
    assert "0.123456789012345678901234567891" in again["content"][0]["text"]


async def test_the_python_client_takes_and_gives_python_s_values(cluster: Cluster, tenant: Tenant) -> None:
    big = 2**53 + 1
    value = {"n": big, "fine": Decimal("0.123456789012345678901234567891"), "half": 0.5, "none": None, "l": [{}]}
    name = uuid.uuid4().hex

    async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as skein:
        memory = with_json(pb.Memory(content="x", external_id=name), data=value, metadata={})
        stored = await skein.remember(
            memory, messages=[{"role": "user", "content": "x", "metadata": value, "parts": [value]}], session_id=name
        )
        matching_memory = (await skein.memories.GetMemory(pb.GetMemoryRequest(memory_id=name))).memory
        first = get_json(matching_memory, "data")
        changed = with_json(matching_memory, data={**value, "n": -big})
        request = pb.UpdateMemoryRequest(memory=changed, update_mask=FieldMask(paths=["data"]))
        updated = (await skein.memories.UpdateMemory(request)).memory

    assert first == get_json(stored.memories[0], "data") == value
    assert get_json(matching_memory, "metadata") == {}
    assert get_json(updated, "data") == {**value, "n": -big}
    assert get_json(stored.messages[0], "metadata") == value
    assert get_json(stored.messages[0], "parts") == [value]


async def test_a_recall_tells_every_digit(tenant: Tenant) -> None:
    name = uuid.uuid4().hex
    request = pb.CreateMemoryRequest(memory=pb.Memory(content=f"zebra {name}", data_json=EXACT, metadata_json=EXACT))
    await tenant.memory.CreateMemory(request)

    answer = await tenant.gateway.Recall(gateway_pb2.RecallRequest(query=f"zebra {name}", limit=1))

    memory = answer.hits[0].memory
    assert read(memory.data_json) == read(memory.metadata_json) == read(EXACT)
    assert memory.data["whole"] == 3


async def test_langgraph_s_store_keeps_every_digit(cluster: Cluster, tenant: Tenant) -> None:
    value = {"n": 2**53 + 1, "fine": Decimal("0.123456789012345678901234567891"), "half": 0.5, "one": 1.0, "far": 1e300}

    async with SkeinStore(endpoint=cluster.endpoint, api_key=tenant.api_key) as store:
        await store.aput(("exact",), "k", value)
        item = await store.aget(("exact",), "k")
        more = await store.asearch(("exact",), filter={"n": {"$gt": 2**53}})
        fewer = await store.asearch(("exact",), filter={"n": {"$gt": 2**53 + 1}})

    assert item is not None
    assert item.value == value
    assert isinstance(item.value["one"], float)
    assert [match.key for match in more] == ["k"]
    assert fewer == []
