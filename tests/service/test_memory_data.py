"""What a memory's data says: searched, hashed, compared, and brought up to date where an older version stored it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from fix_calls import struct
from fix_cluster import Tenant
from fix_memory import MemoryServer
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein.memory.v1 import scores_pb2, snapshots_pb2, snapshots_pb2_grpc
from skein.recall.v1 import recall_pb2
from skein_memory.memories.model import hash_without_data
from skein_memory.tombstones.store import digest_of

FREE = ("note", "fact", "context", "user_preference", "conversation", "sighting")
# What the version before stored of a memory, which searched no free data.
AGED = """
    UPDATE memory.memories SET words = NULL, text_revision = NULL,
        content_hash = sha256(convert_to(type || E'\\n' || content, 'UTF8'));
    DELETE FROM recall.postings WHERE term IN ('pangolin', 'aardvark')
"""


async def create(tenant: Tenant, **fields: Any) -> pb.Memory:
    return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(**fields)))).memory


async def ids_by_words(tenant: Tenant, query: str) -> set[str]:
    """Return the memories that contain a word of the query."""
    request = recall_pb2.RecallRequest(query=query, limit=100, mode=recall_pb2.SEARCH_MODE_KEYWORD)
    return {hit.memory.memory_id for hit in (await tenant.recall.Recall(request)).hits}


async def update(tenant: Tenant, memory_id: str, **fields: Any) -> pb.Memory:
    request = pb.UpdateMemoryRequest(
        memory=pb.Memory(memory_id=memory_id, **fields), update_mask=FieldMask(paths=sorted(fields))
    )
    return (await tenant.memory.UpdateMemory(request)).memory


def lines(*memories: dict[str, Any]) -> snapshots_pb2.ImportDataRequest:
    return snapshots_pb2.ImportDataRequest(lines="\n".join(json.dumps({"memory": memory}) for memory in memories))


@pytest.mark.parametrize("type_name", FREE)
async def test_words_in_data_alone_are_found_at_every_depth(tenant: Tenant, type_name: str) -> None:
    made = await create(
        tenant, type=type_name, data=struct(text="a pangolin", steps=[{"note": "an aardvark"}, ["two okapis"]], n=3)
    )
    await create(tenant, type=type_name, content="a heron", data=struct(text="a stork"))

    for word in ("pangolin", "aardvark", "okapi"):
        assert await ids_by_words(tenant, word) == {made.memory_id}, word


async def test_meaning_in_data_alone_is_found(tenant: Tenant) -> None:
    made = await create(tenant, data=struct(text="The parcel waits at the neighbour's house"))
    await create(tenant, content="Photosynthesis turns light into sugar")

    request = recall_pb2.RecallRequest(query="where is my package?", limit=1, mode=recall_pb2.SEARCH_MODE_SEMANTIC)
    (hit,) = (await tenant.recall.Recall(request)).hits

    assert hit.memory.memory_id == made.memory_id


async def test_changed_free_data_is_searched_anew(tenant: Tenant) -> None:
    made = await create(tenant, content="seen", data=struct(text="a pangolin"))

    await update(tenant, made.memory_id, data=struct(text="an aardvark"))
    assert (await ids_by_words(tenant, "pangolin"), await ids_by_words(tenant, "aardvark")) == (set(), {made.memory_id})

    await update(tenant, made.memory_id, content="seen twice")
    assert await ids_by_words(tenant, "aardvark") == {made.memory_id}

    await update(tenant, made.memory_id, type="task", data=struct())
    assert await ids_by_words(tenant, "aardvark") == set()


async def test_credentials_timestamps_and_encoded_files_in_data_are_not_searched(tenant: Tenant) -> None:
    await create(
        tenant,
        content="door",
        data=struct(
            password="pangolin", nested={"API_KEY": "aardvark", "access_token": ["okapi"]},
            at="2031-05-17T12:00:00.5Z", file="wombat" * 100,
        ),
    )  # fmt: skip

    for word in ("pangolin", "aardvark", "okapi", "2031", "wombat" * 100):
        assert await ids_by_words(tenant, word) == set(), word
    assert len(await ids_by_words(tenant, "door")) == 1


@pytest.mark.system
async def test_data_as_large_as_may_be_is_stored_and_searched(tenant: Tenant) -> None:
    words = " ".join(f"w{number:x}" for number in range(40_000))
    made = await create(tenant, content=words[:100_000], data=struct(text="pangolin", zoo=words[:250_000]))

    assert await ids_by_words(tenant, "pangolin") == {made.memory_id}


async def test_every_type_says_which_of_its_fields_are_searched(tenant: Tenant) -> None:
    listed = (await tenant.memory.ListMemoryTypes(pb.ListMemoryTypesRequest())).memory_types

    for one in listed:
        declared = set(json_format.MessageToDict(one.json_schema).get("properties", {}))
        searched = list(one.searched_fields)
        if one.type == "langgraph":
            # What of a value is searched stands in the content.
            assert searched == []
            continue
        assert searched, one.type
        assert searched == ["*"] if not declared else set(searched) <= declared, one.type


async def test_memories_with_different_data_never_share_a_content_hash(tenant: Tenant) -> None:
    datas = [None, *(struct(**data) for data in (
        {}, {"a": 1}, {"a": "1"}, {"a": 2}, {"a": [1]}, {"b": 1}, {"a": None}, {"a": {"b": 1}}, {"a": True}, {"a": 1.5},
    ))]  # fmt: skip
    made = [await create(tenant, content="same", data=data) for data in datas]
    escaping = await create(tenant, content='same {"a":1.0}')

    assert len({memory.content_hash for memory in [*made, escaping]}) == len(datas) + 1
    assert made[0].content_hash == hashlib.sha256(b"note\nsame").hexdigest()


async def test_the_same_data_has_the_same_content_hash_in_every_answer(tenant: Tenant) -> None:
    numbers = {"long": 1e22, "short": 0.1, "small": 1e-7, "none": -0.0, "whole": 100}
    first = await create(tenant, content="same", data=struct(b='é "\\\n', a=[numbers, None], longer=1))
    second = await create(tenant, content="same", data=struct(longer=1, a=[numbers, None], b='é "\\\n'))
    changed = await update(tenant, first.memory_id, data=struct(other=1))
    back = await update(tenant, first.memory_id, data=second.data)

    read = (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=second.memory_id))).memory
    assert {first.content_hash, back.content_hash, read.content_hash} == {second.content_hash}
    assert changed.content_hash != first.content_hash
    where = pb.MemoryFilter(where=f"content_hash = {second.content_hash}")
    for request in (
        pb.ListMemoriesRequest(filter=where),
        pb.ListMemoriesRequest(filter=where, as_of_time=first.update_time),
    ):
        listed = (await tenant.memory.ListMemories(request)).memories
        assert first.memory_id in {memory.memory_id for memory in listed}


async def test_memories_give_way_only_to_such_with_the_same_data(tenant: Tenant) -> None:
    kept, same, _, _ = [
        (await create(tenant, title="Trip", content="to Graz", data=data)).memory_id
        for data in (struct(day=1, by="train"), struct(by="train", day=1), struct(day=2), None)
    ]
    memory_server = [
        (await create(tenant, data=data)).memory_id for data in (struct(x="a", y="b"), struct(y="b", x="a"))
    ]
    for secret in ("one", "two"):
        await create(tenant, type="knowledge_vault", title="router", secret_value=secret)

    done = await tenant.memory.ConsolidateMemories(scores_pb2.ConsolidateMemoriesRequest())

    groups = {(group.kept_memory_id, *group.archived_memory_ids) for group in done.groups}
    assert groups == {(kept, same), tuple(memory_server)}


async def test_a_fact_never_gives_way_to_that_of_another_subject(tenant: Tenant) -> None:
    for subject in ("ann", "bob", ""):
        await create(tenant, type="fact", key="Phone", content="none", subject_id=subject)

    done = await tenant.memory.ConsolidateMemories(scores_pb2.ConsolidateMemoriesRequest())

    assert list(done.groups) == []


async def test_a_purged_memory_is_recognized_by_its_data_as_well(tenant: Tenant) -> None:
    for content in ("", "seen"):
        purged = await create(tenant, content=content, data=struct(text="a pangolin", n=1))
        selection = pb.MemorySelection(memory_ids=[purged.memory_id])
        await tenant.memory.PurgeMemories(pb.PurgeMemoriesRequest(selection=selection))

        done = await tenant.snapshots.ImportData(
            lines(
                {"external_id": f"a{content}", "content": content, "data": {"n": 1, "text": "a pangolin"}},
                {"external_id": f"b{content}", "content": content, "data": {"n": 2, "text": "a pangolin"}},
            )
        )

        assert [(error.line, error.reason) for error in done.errors] == [(1, "PURGED")]
        assert dict(done.counts.created) == {"memory": 1}


@pytest.mark.system
async def test_data_that_an_older_version_stored_is_searched_after_the_workers_round(
    memory_server: MemoryServer,
) -> None:
    async with (
        memory_server.serving(),
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
    ):
        memory, internal = rpc.MemoryServiceStub(channel), rpc.MemoryInternalServiceStub(system)
        made = [
            (await memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content=content, data=data)))).memory
            for content, data in (
                ("first", struct(text="pangolin")),
                ("second", struct(text="pangolin")),
                ("third", struct(number=3)),
                ("fourth", None),
            )
        ]
        async with memory_server.database.superuser() as connection:
            await connection.execute(AGED)
        before = await memory_server.rows("SELECT item_id, pending FROM recall.documents")

        answers = [await internal.ReindexMemories(pb.ReindexMemoriesRequest(limit=2)) for _ in range(3)]

        assert [(one.reindexed_count, one.more) for one in answers] == [(2, True), (1, False), (0, False)]
        terms = await memory_server.rows("SELECT item_id FROM recall.postings WHERE term = 'pangolin'")
        assert {str(row["item_id"]) for row in terms} == {one.memory_id for one in made[:2]}
        assert len(await memory_server.rows("SELECT FROM recall.documents")) == len(before)
        stored = await memory_server.rows("SELECT content_hash FROM memory.memories ORDER BY memory_id")
        assert [row["content_hash"].hex() for row in stored] == [one.content_hash for one in made]
        for one in made:
            read = (await memory.GetMemory(pb.GetMemoryRequest(memory_id=one.memory_id))).memory
            assert (read.revision, read.update_time) == (1, one.update_time)


@pytest.mark.system
async def test_a_change_of_what_an_older_version_stored_brings_it_up_to_date(memory_server: MemoryServer) -> None:
    async with (
        memory_server.serving(),
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
    ):
        memory, internal = rpc.MemoryServiceStub(channel), rpc.MemoryInternalServiceStub(system)
        first = pb.Memory(external_id="x", content="first", data=struct(text="pangolin"))
        await memory.CreateMemory(pb.CreateMemoryRequest(memory=first))
        async with memory_server.database.superuser() as connection:
            await connection.execute(AGED)

        change = pb.Memory(memory_id="x", tags=["t"])
        await memory.UpdateMemory(pb.UpdateMemoryRequest(memory=change, update_mask=FieldMask(paths=["tags"])))

        assert len(await memory_server.rows("SELECT FROM recall.postings WHERE term = 'pangolin'")) == 1
        response = await internal.ReindexMemories(pb.ReindexMemoriesRequest())
        assert (response.reindexed_count, response.more) == (0, False)


async def test_a_memory_that_an_older_version_purged_is_not_imported_whatever_its_data(
    memory_server: MemoryServer,
) -> None:
    async with memory_server.serving(), memory_server.channel() as channel:
        async with memory_server.database.superuser() as connection:
            salt = b"s" * 32
            await connection.execute(
                "INSERT INTO memory.tombstone_salts (tenant_id, salt) VALUES ($1, $2)", memory_server.tenant_id, salt
            )
            await connection.execute(
                "INSERT INTO memory.tombstones (tenant_id, digest, create_time) VALUES ($1, $2, now())",
                memory_server.tenant_id,
                digest_of(salt, "content", hash_without_data("note", "seen")),
            )

        done = await snapshots_pb2_grpc.SnapshotServiceStub(channel).ImportData(
            lines({"content": "seen", "data": {"n": 1}}, {"content": "heard", "data": {"n": 1}})
        )

        assert [(error.line, error.reason) for error in done.errors] == [(1, "PURGED")]
        assert dict(done.counts.created) == {"memory": 1}
