"""Typed memories: what each type holds, what is searched of it, and which types a tenant accepts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import grpc
import pytest
from fix_calls import struct
from fix_cluster import Tenant, refused
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT
# One of each structured type, complete, with a word of its own in each field that is searched.
COMPLETE: Mapping[str, dict[str, Any]] = {
    "episodic": {
        "occurred_at": "2026-05-17T12:00:00Z",
        "actor": "marabou",
        "event_type": "shipwreck",
        "summary": "the okapi arrived",
        "details": "with a platypus",
    },
    "semantic": {
        "name": "quokka",
        "summary": "a small wallaby",
        "details": "lives on islands like rottnest",
        "source": "almanac",
    },
    "procedural": {"entry_type": "recipe", "summary": "bake brioche", "steps": ["knead dough", "wait overnight"]},
    "resource": {"title": "handbook", "type": "pdf", "content": "chapter about turbines", "uri": "file:///a.pdf"},
}


async def create(tenant: Tenant, **fields: Any) -> pb.Memory:
    return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(**fields)))).memory


def violations(error: aio.AioRpcError) -> dict[str, str]:
    """Return the fields that a refusal names, and what is wrong with each."""
    bad = error_details_pb2.BadRequest()
    for detail in _details(error):
        if detail.Unpack(bad):
            return {violation.field: violation.description for violation in bad.field_violations}
    return {}


def facts(error: aio.AioRpcError) -> dict[str, str]:
    """Return what a refusal says besides its reason."""
    info = error_details_pb2.ErrorInfo()
    return next((dict(info.metadata) for detail in _details(error) if detail.Unpack(info)), {})


def _details(error: aio.AioRpcError) -> list[Any]:
    status: Any = rpc_status.from_call(error)  # type: ignore[arg-type]  # It reads three methods that both have.
    return list(status.details)


async def accept_only(tenant: Tenant, *types: str) -> None:
    request = subjects_pb2.UpdatePolicyRequest(
        policy=subjects_pb2.Policy(memory_types=types), update_mask=FieldMask(paths=["memory_types"])
    )
    await tenant.tenancy.UpdatePolicy(request)


async def ids_by_words(tenant: Tenant, query: str) -> set[str]:
    response = await tenant.recall.Recall(recall_pb2.RecallRequest(query=query, limit=100))
    return {
        hit.memory.memory_id for hit in response.hits if any(c.signal == "lexical" and c.raw for c in hit.components)
    }


@pytest.mark.parametrize("type_name", COMPLETE)
async def test_a_complete_memory_of_a_type_comes_back_as_it_was_given(tenant: Tenant, type_name: str) -> None:
    data = struct(**COMPLETE[type_name])

    made = await create(tenant, type=type_name, data=data)

    read = await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=made.memory_id))
    assert read.memory.data == data
    assert read.memory.content == ""


@pytest.mark.parametrize("type_name", COMPLETE)
async def test_the_words_of_a_type_s_data_are_searched(tenant: Tenant, type_name: str) -> None:
    made = await create(tenant, type=type_name, data=struct(**COMPLETE[type_name]))

    searched = {
        "episodic": ("marabou", "shipwreck", "okapi", "platypus"),
        "semantic": ("quokka", "wallaby", "rottnest"),
    }
    others = {"procedural": ("brioche", "knead", "overnight"), "resource": ("handbook", "turbines")}
    for word in {**searched, **others}[type_name]:
        assert made.memory_id in await ids_by_words(tenant, word), word


async def test_changed_data_is_searched_anew(tenant: Tenant) -> None:
    made = await create(tenant, type="semantic", data=struct(name="quokka", summary="an animal"))
    changed = pb.Memory(memory_id=made.memory_id, data=struct(name="wombat", summary="an animal"))

    await tenant.memory.UpdateMemory(pb.UpdateMemoryRequest(memory=changed, update_mask=FieldMask(paths=["data"])))

    assert await ids_by_words(tenant, "wombat") == {made.memory_id}
    assert await ids_by_words(tenant, "quokka") == set()


async def test_the_data_of_a_type_without_fields_is_free_and_searched(tenant: Tenant) -> None:
    made = await create(tenant, type="entity", content="a person", data=struct(anything={"deep": ["axolotl"]}))

    assert made.data == struct(anything={"deep": ["axolotl"]})
    assert await ids_by_words(tenant, "axolotl") == {made.memory_id}


@pytest.mark.parametrize("type_name", COMPLETE)
async def test_a_field_that_a_type_does_not_have_is_refused_by_name(tenant: Tenant, type_name: str) -> None:
    with refused(INVALID, "MEMORY_DATA_INVALID") as caught:
        await create(tenant, type=type_name, data=struct(**COMPLETE[type_name], colour="secret red"))

    assert set(violations(caught.value)) == {"memory.data.colour"}
    assert "secret red" not in str(caught.value)


@pytest.mark.parametrize(
    ("type_name", "missing"),
    [("episodic", "summary"), ("semantic", "name"), ("procedural", "steps"), ("resource", "type")],
)
async def test_a_required_field_is_named_when_it_is_missing(tenant: Tenant, type_name: str, missing: str) -> None:
    data = {name: value for name, value in COMPLETE[type_name].items() if name != missing}

    with refused(INVALID, "MEMORY_DATA_INVALID") as caught:
        await create(tenant, type=type_name, data=struct(**data))

    assert set(violations(caught.value)) == {f"memory.data.{missing}"}


@pytest.mark.parametrize(
    ("type_name", "field", "value"),
    [
        ("episodic", "occurred_at", "yesterday"),
        ("episodic", "occurred_at", "2026-05-17T12:00:00"),
        ("episodic", "summary", ""),
        ("episodic", "actor", ["a", "list"]),
        ("episodic", "details", None),
        ("procedural", "steps", []),
        ("procedural", "steps", [1]),
        ("procedural", "steps", {"first": "knead"}),
        ("resource", "title", 7),
    ],
)
async def test_a_value_that_a_field_cannot_have_is_refused(
    tenant: Tenant, type_name: str, field: str, value: object
) -> None:
    with refused(INVALID, "MEMORY_DATA_INVALID") as caught:
        await create(tenant, type=type_name, data=struct(**{**COMPLETE[type_name], field: value}))

    assert all(name.startswith(f"memory.data.{field}") for name in violations(caught.value))


async def test_a_memory_told_in_words_alone_needs_no_data(tenant: Tenant) -> None:
    for type_name in (*COMPLETE, "task", "objective"):
        assert (await create(tenant, type=type_name, content="in words")).type == type_name


async def test_the_memory_s_own_fields_count_for_those_of_its_data(tenant: Tenant) -> None:
    made = await create(tenant, type="resource", title="a", content="b", data=struct(type="page"))

    assert made.data == struct(type="page")


async def test_a_batch_says_which_memory_is_at_fault(tenant: Tenant) -> None:
    bad = pb.Memory(type="semantic", data=struct(name="n"))
    with refused(INVALID, "MEMORY_DATA_INVALID") as caught:
        await tenant.memory.BatchCreateMemories(
            pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content="good"), bad])
        )

    assert set(violations(caught.value)) == {"memories[1].data.summary"}


async def test_a_change_of_type_must_suit_the_data(tenant: Tenant) -> None:
    made = await create(tenant, content="c", data=struct(anything=1))
    changed = pb.Memory(memory_id=made.memory_id, type="semantic")

    with refused(INVALID, "MEMORY_DATA_INVALID"):
        await tenant.memory.UpdateMemory(pb.UpdateMemoryRequest(memory=changed, update_mask=FieldMask(paths=["type"])))


async def test_a_tenant_that_names_its_types_accepts_no_other(tenant: Tenant) -> None:
    await accept_only(tenant, "note", "sighting")

    assert (await create(tenant, type="sighting", content="c", data=struct(free=True))).type == "sighting"
    note = await create(tenant, content="c")
    with refused(INVALID, "TYPE_NOT_ALLOWED"):
        await create(tenant, type="fact", content="c")
    with refused(INVALID, "TYPE_NOT_ALLOWED") as caught:
        await tenant.memory.BatchCreateMemories(
            pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content="a"), pb.Memory(content="b", type="journal")])
        )
    assert facts(caught.value) == {"type": "journal", "index": "1"}
    changed = pb.Memory(memory_id=note.memory_id, type="fact")
    with refused(INVALID, "TYPE_NOT_ALLOWED"):
        await tenant.memory.UpdateMemory(pb.UpdateMemoryRequest(memory=changed, update_mask=FieldMask(paths=["type"])))


@pytest.mark.system
async def test_types_are_listed_with_their_schemas_and_whether_they_are_accepted(tenant: Tenant) -> None:
    everything = await tenant.memory.ListMemoryTypes(pb.ListMemoryTypesRequest())
    await accept_only(tenant, "episodic", "sighting")
    async with asyncio.timeout(30):
        while (narrowed := await tenant.memory.ListMemoryTypes(pb.ListMemoryTypesRequest())).others_accepted:
            await asyncio.sleep(0.2)

    first = await tenant.memory.ListMemoryTypes(pb.ListMemoryTypesRequest(page_size=3))
    request = pb.ListMemoryTypesRequest(page_size=100, page_token=first.next_page_token)
    second = await tenant.memory.ListMemoryTypes(request)
    assert [*first.memory_types, *second.memory_types] == list(narrowed.memory_types)
    assert (len(first.memory_types), second.next_page_token) == (3, "")
    types = {match.type: match for match in everything.memory_types}
    assert everything.others_accepted
    assert all(match.built_in and match.accepted for match in types.values())
    schema = json_format.MessageToDict(types["episodic"].json_schema)
    assert set(schema["properties"]) == {"occurred_at", "actor", "event_type", "summary", "details"}
    assert schema["required"] == ["event_type", "summary"]
    assert "secret_value" not in str(types["knowledge_vault"].json_schema)
    assert {match.type for match in narrowed.memory_types if match.accepted} == {"episodic", "sighting"}
    assert [match.type for match in narrowed.memory_types if not match.built_in] == ["sighting"]


async def test_a_memory_can_be_given_a_time_to_live(tenant: Tenant) -> None:
    made = await create(tenant, content="soon forgotten", ttl=Duration(seconds=3600))

    assert made.expire_time.seconds - made.create_time.seconds == 3600
    assert not made.HasField("ttl")
    with refused(INVALID, "INVALID_FIELD"):
        await create(tenant, content="c", ttl=Duration(seconds=5), expire_time=Timestamp(seconds=2_000_000_000))
    with refused(INVALID, "INVALID_FIELD"):
        await create(tenant, content="c", ttl=Duration(seconds=-5))
