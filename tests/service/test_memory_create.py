from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import grpc
import pytest
from fix_calls import stamp, struct
from fix_cluster import Cluster, Tenant, refused
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein_kit.ids import id_time

SECOND = timedelta(seconds=1)


def facts_of(error: aio.AioRpcError) -> Mapping[str, str]:
    """Read the metadata of a refusal's ErrorInfo."""
    status = rpc_status.from_call(cast("Any", error))
    info = error_details_pb2.ErrorInfo()
    assert status is not None
    assert any(detail.Unpack(info) for detail in status.details)
    return dict(info.metadata)


def fields_of(error: aio.AioRpcError) -> list[str]:
    """Read which fields a refusal's BadRequest names."""
    status = rpc_status.from_call(cast("Any", error))
    request = error_details_pb2.BadRequest()
    assert status is not None
    assert any(detail.Unpack(request) for detail in status.details)
    return [violation.field for violation in request.field_violations]


async def create(tenant: Tenant, **fields: Any) -> pb.Memory:
    response = await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(**fields)))
    return response.memory


async def all_of(tenant: Tenant) -> list[pb.Memory]:
    listed = await tenant.memory.ListMemories(pb.ListMemoriesRequest(page_size=1000))
    return list(listed.memories)


COMPLETE: dict[str, Any] = {
    "external_id": "ext-1",
    "type": "fact",
    "title": "The wifi",
    "key": "wifi.password",
    "content": "on the fridge 🧊",
    "tags": ["home", "network", "überall"],
    "source": "https://example.org/a",
    "source_agent": "kitchen",
    "agent_id": "agent-7",
    "subject_id": "anna",
    "session_id": "session-3",
    "scope": pb.SCOPE_USER,
    "level": pb.LEVEL_STRATEGIC,
    "confidence": 0.0,
    "importance": 1.0,
    "expire_time": stamp(datetime(2999, 1, 1, tzinfo=UTC)),
    "valid_from_time": stamp(datetime(1912, 6, 23, tzinfo=UTC)),
    "valid_to_time": stamp(datetime(2050, 1, 1, 12, 30, 1, 5, tzinfo=UTC)),
    "data": struct(a=[1, None, {"b": "ü 🧵"}], big=1e300, small=-1.5),
    "metadata": struct(k=True),
    "create_time": stamp(datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC)),
}


async def test_every_field_comes_back_as_it_was_given(tenant: Tenant) -> None:
    created = await create(tenant, **COMPLETE)

    assert await tenant.get_memory(created.memory_id) == created
    memory = pb.Memory(**COMPLETE)
    for field in COMPLETE:
        assert getattr(created, field) == getattr(memory, field), field
    assert (created.revision, created.created_by) == (1, created.updated_by)
    assert created.created_by.startswith("api_key:")
    stored = await create(tenant, type="fact", content="on the fridge 🧊", data=COMPLETE["data"])
    assert created.content_hash == stored.content_hash
    assert id_time(uuid.UUID(created.memory_id)) == datetime(2024, 2, 29, 23, 59, 59, 999000, tzinfo=UTC)


async def test_missing_fields_get_defaults(tenant: Tenant) -> None:
    before = datetime.now(UTC)

    created = await create(tenant, content="  prefers tea \n")

    assert (created.content, created.type) == ("prefers tea", "note")
    assert (created.scope, created.level) == (pb.SCOPE_GLOBAL, pb.LEVEL_OPERATIONAL)
    assert (created.confidence, created.importance) == (0.7, 0.5)
    assert before <= created.create_time.ToDatetime(tzinfo=UTC) <= datetime.now(UTC)
    assert created.update_time == created.create_time
    assert not created.HasField("delete_time")
    assert await tenant.get_memory(created.memory_id) == created


async def test_the_agent_of_the_credential_stands_in(cluster: Cluster, tenant: Tenant) -> None:
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="kitchen", agent_id="kitchen"))
    kitchen = cluster.with_key(key.secret)

    own = await kitchen.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="a")))

    assert own.memory.agent_id == "kitchen"


@pytest.mark.parametrize(
    "at",
    [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2014, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2015, 1, 1, tzinfo=UTC),
        datetime(2016, 2, 29, tzinfo=UTC),
    ],
)
async def test_old_memories_keep_their_time(tenant: Tenant, at: datetime) -> None:
    old = await create(tenant, content="long ago", create_time=stamp(at))
    new = await create(tenant, content="just now")

    assert old.create_time.ToDatetime(tzinfo=UTC) == at
    # A read by id counts as a use, which changes the scores soon after.
    assert await all_of(tenant) == [new, old]
    assert await tenant.get_memory(old.memory_id) == old


async def test_an_old_month_made_by_several_at_once_is_made_once(tenant: Tenant) -> None:
    at = stamp(datetime(2017, 7, 7, tzinfo=UTC))

    created = await asyncio.gather(*(create(tenant, content=f"n{n}", create_time=at) for n in range(8)))

    assert len(await all_of(tenant)) == len({memory.memory_id for memory in created}) == 8


async def test_a_memory_of_the_future_is_refused(tenant: Tenant) -> None:
    future = stamp(datetime.now(UTC) + timedelta(minutes=10))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await create(tenant, content="tomorrow", create_time=future)

    assert await all_of(tenant) == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"content": " \n "}, "CONTENT_EMPTY"),
        ({"content": "x" * 100_001}, "CONTENT_TOO_LONG"),
        ({"content": "a\0b"}, "TEXT_NOT_STORABLE"),
        ({"content": "a", "data": struct(deep=[{"k": "\0"}])}, "TEXT_NOT_STORABLE"),
        ({"content": "a", "tags": ["\0"]}, "TEXT_NOT_STORABLE"),
        ({"content": "a", "data": struct(n=float("nan"))}, "INVALID_FIELD"),
        ({"content": "a", "type": "Not A Type"}, "INVALID_FIELD"),
        ({"content": "a", "tags": ["twice", "twice"]}, "INVALID_FIELD"),
        ({"content": "a", "confidence": 1.5}, "INVALID_FIELD"),
        ({"content": "a", "importance": float("nan")}, "INVALID_FIELD"),
        ({"content": "a", "scope": 9}, "INVALID_FIELD"),
        ({"content": "a", "source": "語" * 1000}, "INVALID_FIELD"),
        ({"content": "a", "external_id": "e" * 256}, "INVALID_FIELD"),
        ({"content": "a", "create_time": Timestamp(seconds=-1)}, "INVALID_FIELD"),
        ({"content": "a", "expire_time": Timestamp(seconds=1 << 40)}, "INVALID_FIELD"),
        (
            {"content": "a", "valid_from_time": Timestamp(seconds=2), "valid_to_time": Timestamp(seconds=1)},
            "INVALID_FIELD",
        ),
    ],
)
async def test_an_invalid_memory_is_refused_and_leaves_nothing(
    tenant: Tenant, fields: dict[str, Any], reason: str
) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, reason):
        await create(tenant, **fields)

    assert await all_of(tenant) == []


@pytest.mark.parametrize("value", [0.0, float("nan"), float("-inf")])
async def test_a_vector_that_points_nowhere_is_refused_by_its_place(tenant: Tenant, value: float) -> None:
    wrong = pb.Memory(content="Owls hunt at night.", embedding=[1.0] * 383 + [value] if value else [0.0] * 384)
    batch = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content="Owls."), wrong])

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as one:
        await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=wrong))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as many:
        await tenant.memory.BatchCreateMemories(batch)

    assert fields_of(one.value) == ["memory.embedding"]
    assert (fields_of(many.value), facts_of(many.value)["index"]) == (["memories[1].embedding"], "1")
    assert await all_of(tenant) == []


@pytest.mark.system
async def test_the_longest_texts_are_kept_whole(tenant: Tenant) -> None:
    created = await create(
        tenant,
        content="語" * 100_000,
        title="🧵" * 1000,
        key="🔑" * 255,
        type="fact",
        external_id="🧊" * 255,
        source="s" * 1000,
        session_id="💬" * 255,
        tags=["🧵" * 254 + str(n) for n in range(10)],
    )

    assert await tenant.get_memory("🧊" * 255) == created


async def test_an_external_id_names_one_memory(tenant: Tenant) -> None:
    first = await create(tenant, content="a", external_id="x")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN") as caught:
        await create(tenant, content="b", external_id="x")

    assert facts_of(caught.value)["external_id"] == "x"
    assert await all_of(tenant) == [first]


async def test_a_key_names_one_fact(tenant: Tenant) -> None:
    fact = await create(tenant, type="fact", key="wifi", content="a")
    note = await create(tenant, type="note", key="wifi", content="not a fact")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN") as caught:
        await create(tenant, type="fact", key="wifi", content="b")

    assert facts_of(caught.value)["key"] == "wifi"
    assert await all_of(tenant) == [note, fact]


async def test_a_key_names_one_fact_of_each_subject_whatever_its_case(tenant: Tenant) -> None:
    facts = [
        await create(tenant, type="fact", key="Straße 1", content="x", subject_id=who) for who in ("ann", "bob", "")
    ]

    for fact in facts:
        with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN") as caught:
            await create(tenant, type="fact", key="STRAßE 1", content="y", subject_id=fact.subject_id)
        assert facts_of(caught.value)["key"] == "STRAßE 1"
    umlaut = await create(tenant, type="fact", key="Über", content="x", subject_id="ann")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await create(tenant, type="fact", key="über", content="y", subject_id="ann")
    batch = [pb.Memory(type="fact", key=key, content="x", subject_id=who) for key, who in (("a", "x"), ("A", "x"))]
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "DUPLICATE_IN_BATCH"):
        await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=batch))
    batch[1].subject_id = "y"
    await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=batch))

    assert {memory.memory_id for memory in await all_of(tenant)} >= {
        umlaut.memory_id,
        *(one.memory_id for one in facts),
    }


async def test_one_of_many_facts_at_once_takes_the_key(tenant: Tenant) -> None:
    attempts = (create(tenant, type="fact", key="race", content=f"n{n}") for n in range(8))

    outcomes = await asyncio.gather(*attempts, return_exceptions=True)

    assert sum(isinstance(outcome, pb.Memory) for outcome in outcomes) == 1
    codes = {outcome.code() for outcome in outcomes if isinstance(outcome, aio.AioRpcError)}
    assert codes == {grpc.StatusCode.ALREADY_EXISTS}
    assert len(await all_of(tenant)) == 1


async def test_names_of_other_tenants_are_free(tenant: Tenant, other_tenant: Tenant) -> None:
    for each in (tenant, other_tenant):
        await create(each, type="fact", key="wifi", external_id="x", content="a")

    assert len(await all_of(tenant)) == len(await all_of(other_tenant)) == 1


async def test_a_refused_request_may_be_repeated_mended(tenant: Tenant) -> None:
    taken = await create(tenant, content="a", external_id="x")
    request = pb.CreateMemoryRequest(request_id="r1", memory=pb.Memory(content="b", external_id="x"))
    with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"):
        await tenant.memory.CreateMemory(request)

    request.memory.external_id = "y"
    mended = await tenant.memory.CreateMemory(request)

    assert await all_of(tenant) == [mended.memory, taken]


async def test_request_ids_are_a_callers_and_a_methods_own(cluster: Cluster, tenant: Tenant) -> None:
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="another"))
    another = cluster.with_key(key.secret)
    memory = pb.Memory(content="a")

    await tenant.memory.CreateMemory(pb.CreateMemoryRequest(request_id="r", memory=memory))
    await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(request_id="r", memories=[memory]))
    await another.memory.CreateMemory(pb.CreateMemoryRequest(request_id="r", memory=memory))

    assert len(await all_of(tenant)) == 3


async def test_one_request_sent_many_times_at_once_has_one_effect(tenant: Tenant) -> None:
    request = pb.CreateMemoryRequest(request_id="r1", memory=pb.Memory(content="a", tags=["t"]))

    answers = await asyncio.gather(*(tenant.memory.CreateMemory(request) for _ in range(8)))

    assert len({answer.memory.SerializeToString(deterministic=True) for answer in answers}) == 1
    assert len(await all_of(tenant)) == 1


async def test_a_batch_is_stored_in_order(tenant: Tenant) -> None:
    memories = [pb.Memory(content=f"n{n}", tags=[f"t{n}"], external_id=f"e{n}") for n in range(300)]

    created = await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=memories))

    assert [memory.content for memory in created.memories] == [memory.content for memory in memories]
    assert await all_of(tenant) == list(reversed(created.memories))


@pytest.mark.system
async def test_a_batch_may_hold_memories_of_many_months(tenant: Tenant) -> None:
    times = [datetime(2012 + n // 4, 1 + n % 4 * 3, 15, tzinfo=UTC) for n in range(40)]
    memories = [pb.Memory(content=f"{time:%Y-%m}", create_time=stamp(time)) for time in times]

    created = await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=memories))

    assert await all_of(tenant) == list(reversed(created.memories))


@pytest.mark.parametrize(
    ("fault", "code", "reason"),
    [
        ({"content": " "}, grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_EMPTY"),
        ({"content": "x" * 100_001}, grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_TOO_LONG"),
        ({"content": "a\0"}, grpc.StatusCode.INVALID_ARGUMENT, "TEXT_NOT_STORABLE"),
        ({"content": "a", "external_id": "first"}, grpc.StatusCode.INVALID_ARGUMENT, "DUPLICATE_IN_BATCH"),
        ({"content": "a", "type": "fact", "key": "k"}, grpc.StatusCode.INVALID_ARGUMENT, "DUPLICATE_IN_BATCH"),
        ({"content": "a", "external_id": "taken"}, grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"),
        ({"content": "a", "type": "fact", "key": "taken"}, grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"),
        ({"content": "a", "expire_time": Timestamp(nanos=-1)}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
    ],
)
async def test_a_batch_is_stored_whole_or_not_at_all(
    tenant: Tenant, fault: dict[str, Any], code: grpc.StatusCode, reason: str
) -> None:
    holder = await create(tenant, content="held", external_id="taken", type="fact", key="taken")
    batch = [pb.Memory(content="fine", external_id="first", type="fact", key="k"), pb.Memory(**fault)]

    with refused(code, reason) as caught:
        await tenant.memory.BatchCreateMemories(
            pb.BatchCreateMemoriesRequest(request_id="b", memories=[*batch, pb.Memory(content="last")])
        )

    assert facts_of(caught.value)["index"] == "1"
    assert await all_of(tenant) == [holder]


async def test_batches_that_name_the_same_keys_in_other_orders_do_not_block_each_other(tenant: Tenant) -> None:
    forward = [pb.Memory(type="fact", key=f"k{n}", external_id=f"e{n}", content="a") for n in range(50)]

    outcomes = await asyncio.gather(
        *(
            tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=batch))
            for batch in (forward, forward[::-1], forward, forward[::-1])
        ),
        return_exceptions=True,
    )

    codes = [outcome.code() for outcome in outcomes if isinstance(outcome, aio.AioRpcError)]
    assert codes == [grpc.StatusCode.ALREADY_EXISTS] * 3
    assert len(await all_of(tenant)) == 50


async def test_a_batch_beyond_its_limit_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content="a")] * 1001))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest())
