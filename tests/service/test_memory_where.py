"""Lists with a condition in words, in pieces of bounded work, now and as of a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_calls import stamp, struct
from fix_cluster import Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2 as pb
from skein_memory.listing import store as listing_store

SPRING, SUMMER = datetime(2026, 3, 20, tzinfo=UTC), datetime(2026, 6, 21, tzinfo=UTC)


async def create(tenant: Tenant, **fields: Any) -> pb.Memory:
    return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(**fields)))).memory


async def update(tenant: Tenant, memory: pb.Memory, **fields: Any) -> pb.Memory:
    request = pb.UpdateMemoryRequest(
        memory=pb.Memory(memory_id=memory.memory_id, **fields), update_mask=FieldMask(paths=list(fields))
    )
    return (await tenant.memory.UpdateMemory(request)).memory


async def listed(tenant: Tenant, where: str = "", **fields: Any) -> list[str]:
    request = pb.ListMemoriesRequest(filter=pb.MemoryFilter(where=where), **fields)
    results: list[str] = []
    while True:
        response = await tenant.memory.ListMemories(request)
        results += [memory.content for memory in response.memories]
        if not response.next_page_token:
            return results
        request.page_token = response.next_page_token


@pytest.mark.system
async def test_every_kind_of_condition_finds_what_it_is_for(tenant: Tenant) -> None:
    await create(
        tenant, content="Green Tea", title="about tea", type="fact", key="k", external_id="x", tags=["hot", "green"],
        source="shop", source_agent="s", agent_id="agent", subject_id="ann", session_id="s1", importance=1.0,
        confidence=0.9, level="LEVEL_TACTICAL", scope="SCOPE_USER", expire_time=stamp(datetime(2126, 1, 1, tzinfo=UTC)),
        valid_from_time=stamp(datetime(2020, 1, 1, tzinfo=UTC)), metadata=struct(customer={"id": 42, "plans": ["pro"]}),
        data=struct(price=2.5),
    )  # fmt: skip
    await create(tenant, content="other")

    for where in (
        "type = fact", "key = k", "external_id = x", "external_id IN (y, x)", 'title:"TEA"', "content:green",
        "source = shop", "source_agent = s", "agent_id = agent", "user_id = ann", "session_id = s1", "priority = 10",
        "confidence > 0.8", "importance IN (1, 0.2)", "level = tactical", "scope != global", "has(expire_time)",
        "expire_time > 2030-01-01", "valid_from_time = 2020-01-01", "tags:hot", "tags:all(hot, green)",
        "tags:any(cold, hot)", "NOT tags:none(hot)", "metadata.customer.id = 42", "metadata.customer.plans:pro",
        "metadata.customer.id > 41.5", "data.price <= 2.5", "has(data.price)", "data.price IN (1, 2.5)",
        "(type = fact OR type = journal) AND create_time > 2026-01-01",
        "create_time > 2026-01-01 AND NOT content = other",
    ):  # fmt: skip
        assert await listed(tenant, where) == ["Green Tea"], where
    assert await listed(tenant, "tags:none(hot) AND is_active = true") == ["other"]
    memory = (await tenant.memory.ListMemories(pb.ListMemoriesRequest())).memories[0]
    for where in (f"memory_id = {memory.memory_id}", f"content_hash = {memory.content_hash.upper()}"):
        assert await listed(tenant, where) == ["other"]


@pytest.mark.parametrize(
    ("where", "reason"),
    [("colour = red", "FILTER_FIELD_UNKNOWN"), ("type = fact AND", "FILTER_INVALID"), ("type < a", "FILTER_INVALID")],
)
async def test_a_condition_that_cannot_be_read_is_refused(tenant: Tenant, where: str, reason: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, reason):
        await listed(tenant, where)


async def test_a_condition_in_words_and_the_fields_of_the_filter_must_both_hold(tenant: Tenant) -> None:
    for n, (kind, tag) in enumerate([("fact", "a"), ("fact", "b"), ("note", "a")]):
        await create(tenant, content=f"m{n}", type=kind, tags=[tag])

    filter_ = pb.MemoryFilter(types=["fact"], where="tags:a")
    response = await tenant.memory.ListMemories(pb.ListMemoriesRequest(filter=filter_))

    assert [memory.content for memory in response.memories] == ["m0"]


async def test_properties_follow_their_memory(tenant: Tenant) -> None:
    memory = await create(tenant, content="one", metadata=struct(plan="trial"))
    await update(tenant, memory, metadata=struct(plan="paid"))

    assert await listed(tenant, "metadata.plan = trial") == []
    assert await listed(tenant, "metadata.plan = paid") == ["one"]


async def test_a_memory_with_very_many_or_long_properties_is_found_by_them(tenant: Tenant) -> None:
    await create(tenant, content="many", metadata=struct(**{f"k{n}": n for n in range(150)}))
    await create(tenant, content="long", metadata=struct(k7="x" * 400))

    assert await listed(tenant, "metadata.k149 = 149") == ["many"]
    assert await listed(tenant, f'metadata.k7 = "{"x" * 400}"') == ["long"]


async def test_a_list_whose_condition_hardly_passes_comes_in_pages_that_may_be_empty(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = [pb.Memory(content=f"m{n}", importance=1.0 if n == 0 else 0.1) for n in range(40)]
    await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=memories))
    monkeypatch.setattr(listing_store, "MAX_ROWS_SCANNED", 15)
    request = pb.ListMemoriesRequest(filter=pb.MemoryFilter(min_importance=0.9), page_size=5)

    pages: list[Sequence[pb.Memory]] = []
    while True:
        response = await tenant.memory.ListMemories(request)
        pages.append(response.memories)
        if not response.next_page_token:
            break
        request.page_token = response.next_page_token

    assert [[memory.content for memory in page] for page in pages] == [[], [], ["m0"]]


@pytest.mark.system
@pytest.mark.parametrize("where", ["", "type = note", "tags:a", "metadata.n >= 0 AND metadata.k = v", "tags:any(a, b)"])
async def test_pages_hold_every_memory_once_newest_first(tenant: Tenant, where: str) -> None:
    for n in range(11):
        await create(tenant, content=f"m{n}", tags=["a", "b"], metadata=struct(n=n, k="v"))

    assert await listed(tenant, where, page_size=3) == [f"m{n}" for n in reversed(range(11))]


async def test_a_list_as_of_a_time_is_what_was_known_then(tenant: Tenant) -> None:
    first = await create(tenant, content="first", metadata=struct(plan="trial"))
    second = await create(tenant, content="second", metadata=struct(plan="trial"))
    then = second.update_time.ToDatetime(tzinfo=UTC) + timedelta(microseconds=1)
    await update(tenant, first, content="first, changed", metadata=struct(plan="paid"))
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=second.memory_id))
    await create(tenant, content="third")

    assert await listed(tenant) == ["third", "first, changed"]
    assert await listed(tenant, as_of_time=stamp(then)) == ["second", "first"]
    assert await listed(tenant, "metadata.plan = trial", as_of_time=stamp(then)) == ["second", "first"]
    assert await listed(tenant, "metadata.plan = paid", as_of_time=stamp(then)) == []
    assert await listed(tenant, f"memory_id = {first.memory_id}", as_of_time=stamp(then)) == ["first"]
    assert await listed(tenant, as_of_time=first.update_time) == ["first"]
    assert await listed(tenant, as_of_time=stamp(then - timedelta(days=1))) == []


async def test_a_memory_as_of_a_time_says_what_it_said_then(tenant: Tenant) -> None:
    memory = await create(tenant, content="one", create_time=stamp(datetime(2020, 1, 1, tzinfo=UTC)))
    changed = await update(tenant, memory, content="two")
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=memory.memory_id))

    async def then(time: Timestamp) -> str:
        request = pb.GetMemoryRequest(memory_id=memory.memory_id, as_of_time=time)
        return (await tenant.memory.GetMemory(request)).memory.content

    assert await then(memory.record_time) == "one"
    assert await then(changed.record_time) == "two"
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await then(stamp(datetime.now(UTC)))
    # It tells of 2020, and was told later.
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_KNOWN_THEN"):
        await then(stamp(datetime(2021, 1, 1, tzinfo=UTC)))


async def test_two_clocks_are_asked_together(tenant: Tenant) -> None:
    lives = await create(tenant, content="lives in Rome", valid_from_time=stamp(datetime(2020, 1, 1, tzinfo=UTC)))
    await update(tenant, lives, valid_to_time=stamp(datetime(2024, 1, 1, tzinfo=UTC)))

    async def ask(valid_at: datetime, as_of: Timestamp | None) -> int:
        filter_ = pb.MemoryFilter(valid_at_time=stamp(valid_at))
        request = pb.ListMemoriesRequest(filter=filter_, as_of_time=as_of)
        return len((await tenant.memory.ListMemories(request)).memories)

    assert await ask(datetime(2022, 1, 1, tzinfo=UTC), None) == 1
    assert await ask(datetime(2025, 1, 1, tzinfo=UTC), None) == 0
    assert await ask(datetime(2025, 1, 1, tzinfo=UTC), lives.update_time) == 1
    assert await ask(datetime(2019, 1, 1, tzinfo=UTC), lives.update_time) == 0


async def test_a_memory_is_valid_from_its_first_moment_until_just_before_its_last(tenant: Tenant) -> None:
    memory = pb.Memory(content="spring")
    memory.valid_from_time.FromDatetime(SPRING)
    memory.valid_to_time.FromDatetime(SUMMER)
    await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))

    moment = timedelta(microseconds=1)
    counts = [
        len(await tenant.list_memories(filter=pb.MemoryFilter(valid_at_time=stamp(time))))
        for time in (SPRING - moment, SPRING, SUMMER - moment, SUMMER)
    ]

    assert counts == [0, 1, 1, 0]


async def test_versions_say_who_changed_what_and_when(tenant: Tenant) -> None:
    memory = await create(tenant, content="one", tags=["a"], external_id="x")
    changed = await update(tenant, memory, content="two", tags=["b"])
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=memory.memory_id))
    request = pb.ListMemoryVersionsRequest(memory_id="x", page_size=2)

    first = await tenant.memory.ListMemoryVersions(request)
    request.page_token = first.next_page_token
    second = await tenant.memory.ListMemoryVersions(request)

    versions = [*first.versions, *second.versions]
    assert [version.memory.revision for version in versions] == [3, 2, 1]
    assert [list(version.changed_fields) for version in versions] == [
        ["delete_time"],
        ["content", "tags"],
        ["external_id", "type", "content", "tags"],
    ]
    assert [version.memory.content for version in versions] == ["two", "two", "one"]
    assert versions[2].until_time == changed.update_time
    assert not versions[0].HasField("until_time")
    assert all(version.memory.updated_by == memory.created_by for version in versions)
    assert second.next_page_token == ""
