from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_calls import stamp, struct
from fix_cluster import Tenant, refused
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb


async def create(tenant: Tenant, **fields: Any) -> pb.Memory:
    memory = pb.Memory(**{"content": "x", **fields})
    return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))).memory


async def read(tenant: Tenant, memory_id: str, *, show_deleted: bool = False) -> pb.Memory:
    request = pb.GetMemoryRequest(memory_id=memory_id, show_deleted=show_deleted)
    return (await tenant.memory.GetMemory(request)).memory


def update_of(
    memory_id: str, paths: list[str] | None = None, request_id: str = "", **fields: Any
) -> pb.UpdateMemoryRequest:
    """Ask for the fields given, or for those in `paths`."""
    mask = {"paths": sorted(set(fields) - {"revision"}) if paths is None else paths}
    return pb.UpdateMemoryRequest(
        memory=pb.Memory(memory_id=memory_id, **fields), update_mask=mask, request_id=request_id
    )


async def update(tenant: Tenant, memory_id: str, paths: list[str] | None = None, **fields: Any) -> pb.Memory:
    return (await tenant.memory.UpdateMemory(update_of(memory_id, paths, **fields))).memory


async def delete(tenant: Tenant, memory_id: str, revision: int = 0) -> None:
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=memory_id, revision=revision))


async def restore(tenant: Tenant, memory_id: str) -> pb.Memory:
    return (await tenant.memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id=memory_id))).memory


CHANGES: dict[str, Any] = {
    "type": "fact",
    "title": "New title",
    "key": "new.key",
    "content": "new content",
    "data": struct(new=True),
    "tags": ["b", "new"],
    "source": "new source",
    "source_agent": "new source agent",
    "agent_id": "new agent",
    "subject_id": "new subject",
    "session_id": "new session",
    "scope": pb.SCOPE_SESSION,
    "level": pb.LEVEL_CONTEXTUAL,
    "confidence": 0.0,
    "importance": 0.25,
    "expire_time": stamp(datetime(2999, 1, 1, tzinfo=UTC)),
    "archive_time": stamp(datetime(2026, 1, 1, tzinfo=UTC)),
    "valid_from_time": stamp(datetime(1912, 1, 1, tzinfo=UTC)),
    "valid_to_time": stamp(datetime(2030, 1, 1, tzinfo=UTC)),
    "metadata": struct(new=[1, 2]),
}


@pytest.mark.parametrize("field", sorted(CHANGES))
async def test_a_named_field_changes_and_no_other(tenant: Tenant, field: str) -> None:
    before = await create(tenant, content="old", tags=["a", "b"], title="old", data=struct(old=1))

    after = await update(tenant, before.memory_id, [field], **CHANGES)

    assert getattr(after, field) == getattr(pb.Memory(**CHANGES), field)
    assert (after.revision, after.update_time.ToNanoseconds() > before.update_time.ToNanoseconds()) == (2, True)
    assert await read(tenant, before.memory_id) == after
    expected = pb.Memory()
    expected.CopyFrom(after)
    # What it is worth follows from what it says.
    others = {"content_hash"} if field in {"type", "content", "data"} else set()
    texts = {f"{field}_json"} if field in {"data", "metadata"} else set()
    for name in {field, "revision", "update_time", "record_time", "scores", *others, *texts}:
        expected.ClearField(name)
        if isinstance(value := getattr(before, name), int | float | str):
            setattr(expected, name, value)
        elif before.DESCRIPTOR.fields_by_name[name].is_repeated:
            getattr(expected, name).extend(value)
        elif before.HasField(name):
            getattr(expected, name).CopyFrom(value)
    assert expected == before


async def test_all_fields_change_at_once_and_back(tenant: Tenant) -> None:
    before = await create(tenant, content="old", tags=["a"], external_id="x")

    changed = await update(tenant, "x", **CHANGES)
    # Readers that were taken away do not come back.
    fields = sorted(CHANGES.keys() - {"scope", "agent_id", "subject_id", "session_id"})
    back = await update(tenant, "x", fields, content="old", tags=["a"])

    assert changed.key == "new.key"
    for field in fields:
        assert getattr(back, field) == getattr(before, field), field
    assert (back.revision, back.content_hash, back.external_id) == (3, before.content_hash, "x")
    assert await read(tenant, "x") == back


async def test_an_unset_field_in_the_mask_goes_back_to_its_default(tenant: Tenant) -> None:
    memory = await create(tenant, **CHANGES)

    after = await update(tenant, memory.memory_id, ["title", "tags", "data", "confidence", "expire_time", "level"])

    assert (after.title, list(after.tags), after.confidence, after.level) == ("", [], 0.7, pb.LEVEL_OPERATIONAL)
    assert not after.HasField("data")
    assert not after.HasField("expire_time")
    assert await read(tenant, memory.memory_id) == after


@pytest.mark.parametrize(
    "paths",
    [[], ["memory_id"], ["external_id"], ["content_hash"], ["revision"], ["create_time"], ["delete_time"], ["data.a"],
     ["title", "created_by"], ["nonsense"], ["*"]],
)  # fmt: skip
async def test_a_mask_names_fields_that_can_be_updated(tenant: Tenant, paths: list[str]) -> None:
    memory = await create(tenant)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
        await update(tenant, memory.memory_id, paths, title="new")

    assert await read(tenant, memory.memory_id) == memory


async def test_an_update_names_its_memory_and_its_mask(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await update(tenant, "", title="new")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.memory.UpdateMemory(pb.UpdateMemoryRequest(memory=pb.Memory(memory_id="a")))
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await update(tenant, "a", title="new")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"content": "  "}, "CONTENT_EMPTY"),
        ({"content": "x" * 100_001}, "CONTENT_TOO_LONG"),
        ({"title": "\0"}, "TEXT_NOT_STORABLE"),
        ({"metadata": struct(a="\0")}, "TEXT_NOT_STORABLE"),
        ({"valid_to_time": Timestamp(seconds=1), "valid_from_time": Timestamp(seconds=2)}, "INVALID_FIELD"),
        ({"importance": 2.0}, "INVALID_FIELD"),
    ],
)
async def test_an_update_obeys_the_rules_of_memories(tenant: Tenant, fields: dict[str, Any], reason: str) -> None:
    memory = await create(tenant)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, reason):
        await update(tenant, memory.memory_id, **fields)

    assert await read(tenant, memory.memory_id) == memory


async def test_one_of_many_updates_of_one_revision_wins(tenant: Tenant) -> None:
    memory = await create(tenant)
    attempts = (update(tenant, memory.memory_id, title=f"t{n}", tags=[f"t{n}"], revision=1) for n in range(8))

    outcomes = await asyncio.gather(*attempts, return_exceptions=True)

    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, pb.Memory)]
    codes = {outcome.code() for outcome in outcomes if isinstance(outcome, aio.AioRpcError)}
    assert codes == {grpc.StatusCode.ABORTED}
    assert await read(tenant, memory.memory_id) == winner


@pytest.mark.system
async def test_updates_without_a_revision_all_count(tenant: Tenant) -> None:
    memory = await create(tenant)

    await asyncio.gather(*(update(tenant, memory.memory_id, content=f"c{n}", tags=[f"t{n}"]) for n in range(8)))

    after = await read(tenant, memory.memory_id)
    assert after.revision == 9
    assert list(after.tags) == [after.content.replace("c", "t")]


async def test_one_update_sent_many_times_at_once_has_one_effect(tenant: Tenant) -> None:
    memory = await create(tenant)
    request = update_of(memory.memory_id, request_id="r", title="new")

    answers = await asyncio.gather(*(tenant.memory.UpdateMemory(request) for _ in range(8)))

    assert {answer.memory.revision for answer in answers} == {2}
    assert (await read(tenant, memory.memory_id)).revision == 2


async def test_a_facts_key_moves_with_it(tenant: Tenant) -> None:
    fact = await create(tenant, type="fact", key="a")
    await create(tenant, type="fact", key="b")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await update(tenant, fact.memory_id, key="b")
    await update(tenant, fact.memory_id, key="c")
    second = await create(tenant, type="fact", key="a")
    await update(tenant, second.memory_id, type="note")
    third = await create(tenant, type="fact", key="a")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await update(tenant, second.memory_id, type="fact")

    assert (await read(tenant, third.memory_id)).key == "a"
    assert (await read(tenant, second.memory_id)).type == "note"


async def test_a_facts_key_goes_to_another_subject_with_it_and_may_change_its_case(tenant: Tenant) -> None:
    fact = await create(tenant, type="fact", key="Phone", subject_id="ann")
    theirs = await create(tenant, type="fact", key="phone", subject_id="bob")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await update(tenant, fact.memory_id, subject_id="bob")
    await update(tenant, fact.memory_id, key="PHONE")
    await update(tenant, fact.memory_id, subject_id="carl")
    second = await create(tenant, type="fact", key="phone", subject_id="ann")
    await delete(tenant, theirs.memory_id)
    await update(tenant, second.memory_id, subject_id="bob")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await restore(tenant, theirs.memory_id)
    assert (await read(tenant, fact.memory_id)).key == "PHONE"


async def test_a_deleted_memory_is_gone_from_every_read(tenant: Tenant) -> None:
    memory = await create(tenant, external_id="x", tags=["t"])

    await delete(tenant, "x")

    for name in (memory.memory_id, "x"):
        with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
            await read(tenant, name)
        with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
            await update(tenant, name, title="new")
        with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
            await delete(tenant, name)
    many = await tenant.memory.BatchGetMemories(pb.BatchGetMemoriesRequest(memory_ids=["x"]))
    assert list(many.not_found_ids) == ["x"]
    for conditions in (pb.MemoryFilter(), pb.MemoryFilter(tags_any=["t"])):
        listed = await tenant.memory.ListMemories(pb.ListMemoriesRequest(filter=conditions))
        assert list(listed.memories) == []


async def test_a_deleted_memory_is_shown_to_those_who_ask(tenant: Tenant) -> None:
    memory = await create(tenant, tags=["t"])
    await delete(tenant, memory.memory_id, revision=1)

    # Listed first, because a read counts as a use a little later.
    listed = await tenant.memory.ListMemories(pb.ListMemoriesRequest(show_deleted=True))
    deleted = await read(tenant, memory.memory_id, show_deleted=True)

    assert (deleted.content, deleted.revision, list(deleted.tags)) == ("x", 2, ["t"])
    assert deleted.delete_time == deleted.update_time
    assert list(listed.memories) == [deleted]


async def test_restoring_what_is_not_deleted_changes_nothing(tenant: Tenant) -> None:
    memory = await create(tenant)

    assert await restore(tenant, memory.memory_id) == memory
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await restore(tenant, "no such")


async def test_a_deleted_fact_gives_its_key_up_and_needs_it_to_come_back(tenant: Tenant) -> None:
    first = await create(tenant, type="fact", key="wifi", content="old")
    await delete(tenant, first.memory_id)
    second = await create(tenant, type="fact", key="wifi", content="new")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await restore(tenant, first.memory_id)
    await delete(tenant, second.memory_id)
    await restore(tenant, first.memory_id)

    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await restore(tenant, second.memory_id)


async def test_a_deleted_memory_keeps_its_external_id(tenant: Tenant) -> None:
    await create(tenant, external_id="x")
    await delete(tenant, "x")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"):
        await create(tenant, external_id="x")


async def test_one_of_many_deletions_at_once_is_done(tenant: Tenant) -> None:
    memory = await create(tenant)

    outcomes = await asyncio.gather(*(delete(tenant, memory.memory_id) for _ in range(6)), return_exceptions=True)

    codes = [outcome.code() for outcome in outcomes if isinstance(outcome, aio.AioRpcError)]
    assert codes == [grpc.StatusCode.NOT_FOUND] * 5


async def test_a_memory_that_is_to_expire_may_be_kept_after_all(tenant: Tenant) -> None:
    memory = await create(tenant, expire_time=stamp(datetime.now(UTC) + timedelta(hours=1)))

    kept = await update(tenant, memory.memory_id, ["expire_time"])

    listed = await tenant.memory.ListMemories(pb.ListMemoriesRequest())
    assert list(listed.memories) == [kept]
