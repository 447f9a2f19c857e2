"""Cold storage: memories leave the tables with everything they have, and come back as they were."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest
from fix_cluster import Tenant, refused
from fix_database import TestDatabase, all_told
from fix_memory import MemoryServer

from skein.memory.v1 import archives_pb2 as pb
from skein.memory.v1 import history_pb2, history_pb2_grpc, memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2
from skein_memory.cold_storage.rows import ARCHIVED_TABLES

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
# What hangs on memories and does not go with them: secrets keep their memory here, and so does a snapshot's copy.
STAYING = {"memory.secrets", "memory.snapshot_items"}


async def old(stubs: Any, content: str, **values: Any) -> str:
    """Store a memory that was made long ago."""
    memory = memory_pb2.Memory(content=content, **values)
    memory.create_time.FromDatetime(LONG_AGO)
    created: memory_pb2.CreateMemoryResponse = await stubs.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    return created.memory.memory_id


def going(**values: Any) -> pb.ArchiveMemoriesRequest:
    return pb.ArchiveMemoriesRequest(idle_since_time=datetime.now(UTC), **values)


async def recalled(tenant: Tenant, query: str) -> list[str]:
    answer = await tenant.recall.Recall(recall_pb2.RecallRequest(query=query, min_relevance=0))
    return [hit.item_id for hit in answer.hits]


@pytest.mark.system
async def test_an_archived_memory_is_gone_and_comes_back_as_it_was(tenant: Tenant) -> None:
    first = await old(
        tenant.memory, "the heron stood in the reeds", tags=["bird"], key="heron", type="fact", external_id="h"
    )
    second = await old(tenant.memory, "the reeds were cut in spring", metadata={"year": 2020})
    await tenant.links.CreateLink(
        memory_pb2.CreateLinkRequest(link=memory_pb2.Link(from_memory_id=first, to_memory_id=second, label="near"))
    )
    change = memory_pb2.Memory(memory_id=second, content="the reeds were cut in autumn")
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=change, update_mask={"paths": ["content"]}))
    before = [await tenant.get_memory(id_) for id_ in (first, second)]
    links = await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id=first))

    created = await tenant.history.ArchiveMemories(going(label="herons"))
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.get_memory(first)
    gone = await recalled(tenant, "heron reeds")
    restored = await tenant.history.UnarchiveMemories(
        pb.UnarchiveMemoriesRequest(archive_id=created.archive.archive_id)
    )

    assert (created.archive.memory_count, created.archive.label, created.next_memory_id) == (2, "herons", "")
    assert gone == []
    assert (restored.unarchived_count, restored.skipped_count) == (2, 0)
    after = [await tenant.get_memory(id_) for id_ in (first, second)]
    for memory in (*before, *after):
        # They tell of reading, which goes on.
        for field in ("access_count", "last_access_time", "scores"):
            memory.ClearField(field)
    assert after == before
    assert await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id=first)) == links
    assert set(await recalled(tenant, "heron reeds")) == {first, second}
    versions = await tenant.memory.ListMemoryVersions(memory_pb2.ListMemoryVersionsRequest(memory_id=second))
    assert len(versions.versions) >= 1


async def test_recently_changed_memories_stay(tenant: Tenant) -> None:
    idle_since = datetime.now(UTC)
    fresh = await old(tenant.memory, "changed after that")

    created = await tenant.history.ArchiveMemories(pb.ArchiveMemoriesRequest(idle_since_time=idle_since))

    assert not created.HasField("archive")
    assert (await tenant.get_memory(fresh)).memory_id == fresh


async def test_one_session_s_memories_can_go_by_themselves(tenant: Tenant) -> None:
    gone = await old(tenant.memory, "of the session", session_id="s1")
    stays = await old(tenant.memory, "of another", session_id="s2")

    created = await tenant.history.ArchiveMemories(going(session_id="s1"))

    assert created.archive.memory_count == 1
    assert (await tenant.get_memory(stays)).memory_id == stays
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.get_memory(gone)


async def test_an_archive_that_is_none_and_a_time_to_come_are_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "ARCHIVE_NOT_FOUND"):
        await tenant.history.UnarchiveMemories(pb.UnarchiveMemoriesRequest(archive_id=str(uuid4())))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        later = datetime.now(UTC) + timedelta(days=1)
        await tenant.history.ArchiveMemories(pb.ArchiveMemoriesRequest(idle_since_time=later))


async def test_a_key_that_was_taken_meanwhile_stays_with_its_new_holder(tenant: Tenant) -> None:
    first = await old(tenant.memory, "the first", type="fact", key="capital")
    created = await tenant.history.ArchiveMemories(going())
    second = await old(tenant.memory, "the second", type="fact", key="capital")

    restored = await tenant.history.UnarchiveMemories(
        pb.UnarchiveMemoriesRequest(archive_id=created.archive.archive_id)
    )

    assert restored.unarchived_count == 1
    assert {(await tenant.get_memory(id_)).content for id_ in (first, second)} == {"the first", "the second"}


async def test_a_fact_that_comes_back_holds_its_key_for_its_subject(tenant: Tenant) -> None:
    await old(tenant.memory, "Rome", type="fact", key="Capital", subject_id="italy")
    created = await tenant.history.ArchiveMemories(going())
    await old(tenant.memory, "Vienna", type="fact", key="capital", subject_id="austria")

    await tenant.history.UnarchiveMemories(pb.UnarchiveMemoriesRequest(archive_id=created.archive.archive_id))

    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await old(tenant.memory, "Milan", type="fact", key="CAPITAL", subject_id="italy")
    await old(tenant.memory, "Paris", type="fact", key="CAPITAL", subject_id="france")


@dataclass
class Deployment:
    """A memory service with files of its own, called as a tenant's key and as the worker."""

    server: MemoryServer

    @property
    def files(self) -> list[Path]:
        return sorted((self.server.folder / "archives").rglob("*.gz"))

    @asynccontextmanager
    async def memory(self) -> AsyncIterator[memory_pb2_grpc.MemoryServiceAsyncStub]:
        async with self.server.channel() as channel:
            yield memory_pb2_grpc.MemoryServiceStub(channel)

    @asynccontextmanager
    async def history(self) -> AsyncIterator[history_pb2_grpc.HistoryServiceAsyncStub]:
        async with self.server.channel() as channel:
            yield history_pb2_grpc.HistoryServiceStub(channel)

    @asynccontextmanager
    async def internal(self) -> AsyncIterator[memory_pb2_grpc.MemoryInternalServiceAsyncStub]:
        async with self.server.channel(system=True) as channel:
            yield memory_pb2_grpc.MemoryInternalServiceStub(channel)

    async def rule(self, **values: int) -> None:
        ((name, value),) = values.items()
        async with self.server.database.superuser() as connection:
            await connection.execute(
                f"INSERT INTO tenancy.policies (tenant_id, {name}, update_time) VALUES ($1, $2, now())",  # noqa: S608
                self.server.tenant_id,
                value,
            )

    async def grow_old(self) -> None:
        async with self.server.database.superuser() as connection:
            await connection.execute("UPDATE memory.memories SET update_time = $1, record_time = $1", LONG_AGO)


@pytest.fixture
async def deployment(memory_server: MemoryServer) -> AsyncIterator[Deployment]:
    async with memory_server.serving(SKEIN_MASTER_KEY="33" * 32):
        yield Deployment(memory_server)


@pytest.mark.system
async def test_a_purge_reaches_cold_storage_by_id_and_by_person(deployment: Deployment) -> None:
    async with deployment.memory() as memory, deployment.history() as history:
        by_id = await old(memory, "a word that must go", external_id="x-1")
        of_ann = await old(memory, "what Ann said", subject_id="ann")
        stays = await old(memory, "what stays")
        created = await history.ArchiveMemories(going())
        dry = await memory.PurgeMemories(purge(memory_ids=["x-1"], dry_run=True))
        first = await memory.PurgeMemories(purge(memory_ids=["x-1"]))
        second = await memory.PurgeMemories(purge(filter=memory_pb2.MemoryFilter(subject_id="ann")))
        (file,) = deployment.files
        text = gzip.decompress(file.read_bytes()).decode()
        restored = await history.UnarchiveMemories(pb.UnarchiveMemoriesRequest(archive_id=created.archive.archive_id))
        response = await memory.ListMemories(memory_pb2.ListMemoriesRequest())

    assert list(dry.archived_memory_ids) == list(first.archived_memory_ids) == [by_id]
    assert list(second.archived_memory_ids) == [of_ann]
    assert ("a word that must go" in text, "Ann" in text, "what stays" in text) == (False, False, True)
    assert restored.unarchived_count == 1
    assert [one.memory_id for one in response.memories] == [stays]


@pytest.mark.system
async def test_a_purge_from_cold_storage_takes_data_with_any_numbers(deployment: Deployment) -> None:
    async with deployment.memory() as memory, deployment.history() as history:
        gone = await old(memory, "measured", data_json='{"grams": 1.50, "atoms": 9007199254740993}')
        await history.ArchiveMemories(going())
        purged = await memory.PurgeMemories(purge(memory_ids=[gone]))

    assert list(purged.archived_memory_ids) == [gone]
    assert deployment.files == []


@pytest.mark.system
async def test_purges_at_the_same_time_from_one_archive_all_reach_it(deployment: Deployment) -> None:
    async with deployment.memory() as memory, deployment.history() as history:
        going_for_good = [await old(memory, f"number {number}") for number in range(6)]
        await old(memory, "what stays")
        created = await history.ArchiveMemories(going())
        answers = await asyncio.gather(*(memory.PurgeMemories(purge(memory_ids=[id_])) for id_ in going_for_good))
        files = deployment.files
        restored = await history.UnarchiveMemories(pb.UnarchiveMemoriesRequest(archive_id=created.archive.archive_id))

    assert [list(answer.archived_memory_ids) for answer in answers] == [[id_] for id_ in going_for_good]
    assert len(files) == 1
    assert restored.unarchived_count == 1
    assert deployment.files == []


@pytest.mark.system
async def test_a_purge_from_cold_storage_leaves_no_answer_and_is_in_the_change_log(deployment: Deployment) -> None:
    async with deployment.memory() as memory, deployment.history() as history:
        gone = await old(memory, "a word that must go", external_id="x-9")
        await history.ArchiveMemories(going())
        await memory.PurgeMemories(purge(memory_ids=[gone]))
        await all_told(deployment.server.database.server)
        changes = await history.ListChanges(history_pb2.ListChangesRequest())
    async with deployment.server.database.superuser() as connection:
        count = await connection.fetchval("SELECT count(*) FROM memory.requests WHERE response LIKE '%must go%'::bytea")

    assert count == 0
    assert [one.entity_id for one in changes.changes if one.event_type == "memory_purged"] == [gone]


@pytest.mark.system
async def test_a_purge_of_a_person_and_more_does_not_guess_at_cold_storage(deployment: Deployment) -> None:
    async with deployment.memory() as memory, deployment.history() as history:
        await old(memory, "what Ann said", subject_id="ann")
        created = await history.ArchiveMemories(going())
        filter_ = memory_pb2.MemoryFilter(subject_id="ann", types=["journal"])
        purged = await memory.PurgeMemories(purge(filter=filter_))
        restored = await history.UnarchiveMemories(pb.UnarchiveMemoriesRequest(archive_id=created.archive.archive_id))

    assert list(purged.archived_memory_ids) == []
    assert restored.unarchived_count == 1


def purge(*, dry_run: bool = False, **selection: Any) -> memory_pb2.PurgeMemoriesRequest:
    return memory_pb2.PurgeMemoriesRequest(selection=memory_pb2.MemorySelection(**selection), dry_run=dry_run)


async def test_a_damaged_file_is_reported_and_the_archive_stays(deployment: Deployment) -> None:
    async with deployment.memory() as memory, deployment.history() as history:
        await old(memory, "soon damaged")
        created = await history.ArchiveMemories(going())
        (file,) = deployment.files
        whole = file.read_bytes()
        file.write_bytes(whole[:-9] + b"not what ")
        restore = pb.UnarchiveMemoriesRequest(archive_id=created.archive.archive_id)
        with refused(grpc.StatusCode.DATA_LOSS, "ARCHIVE_DAMAGED"):
            await history.UnarchiveMemories(restore)
        file.write_bytes(whole)

        restored = await history.UnarchiveMemories(restore)

    assert restored.unarchived_count == 1
    assert deployment.files == []


@pytest.mark.system
async def test_secrets_stay_out_of_the_files(deployment: Deployment) -> None:
    async with deployment.memory() as memory, deployment.history() as history:
        await old(memory, "a plain one")
        await old(
            memory,
            "",
            type="knowledge_vault",
            title="door code",
            data={"sensitivity": "high"},
            secret_value="xyzzy-4711",
        )
        created = await history.ArchiveMemories(going())

    assert created.archive.memory_count == 1
    assert len(deployment.files) == 1


@pytest.mark.system
async def test_the_worker_archives_what_the_tenant_s_rule_says(deployment: Deployment) -> None:
    await deployment.rule(archive_days=30)
    async with deployment.memory() as memory, deployment.internal() as internal:
        await old(memory, "idle for long")
        await deployment.grow_old()
        await memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="of today")))

        first = await internal.ArchiveIdleMemories(memory_pb2.ArchiveIdleMemoriesRequest())
        again = await internal.ArchiveIdleMemories(memory_pb2.ArchiveIdleMemoriesRequest())
        response = await memory.ListMemories(memory_pb2.ListMemoriesRequest())

    assert (first.archived_count, again.archived_count) == (1, 0)
    assert [one.content for one in response.memories] == ["of today"]


@pytest.mark.system
async def test_a_low_rate_makes_full_archives(deployment: Deployment) -> None:
    await deployment.rule(archive_days=30)
    async with deployment.memory() as memory, deployment.internal() as internal:
        for number in range(3):
            await old(memory, f"idle for long, {number}")
        await deployment.grow_old()
        async with deployment.server.database.superuser() as connection:
            await connection.execute(
                "INSERT INTO tenancy.jobs (tenant_id, kind, items_per_second, tokens, refill_time, day_time)"
                " VALUES ($1, 'archive', 0.0001, 1, now(), date_trunc('day', now(), 'UTC'))",
                deployment.server.tenant_id,
            )

        first = await internal.ArchiveIdleMemories(memory_pb2.ArchiveIdleMemoriesRequest())
        await old(memory, "idle as well")
        await deployment.grow_old()
        again = await internal.ArchiveIdleMemories(memory_pb2.ArchiveIdleMemoriesRequest())

    assert (first.archived_count, len(deployment.files)) == (3, 1)
    assert (again.archived_count, again.HasField("retry_delay")) == (0, True)


async def test_expiring_memories_are_not_archived(deployment: Deployment) -> None:
    await deployment.rule(archive_days=30)
    async with deployment.memory() as memory, deployment.internal() as internal:
        await old(memory, "idle for long", expire_time=datetime.now(UTC) + timedelta(days=1))
        await deployment.grow_old()

        answer = await internal.ArchiveIdleMemories(memory_pb2.ArchiveIdleMemoriesRequest())
        response = await memory.ListMemories(memory_pb2.ListMemoriesRequest())

    assert answer.archived_count == 0
    assert [one.content for one in response.memories] == ["idle for long"]


@pytest.mark.system
async def test_without_a_rule_nothing_is_archived(deployment: Deployment) -> None:
    async with deployment.memory() as memory, deployment.internal() as internal:
        await old(memory, "idle for long")
        await deployment.grow_old()

        answer = await internal.ArchiveIdleMemories(memory_pb2.ArchiveIdleMemoriesRequest())

    assert answer.archived_count == 0


@pytest.mark.system
async def test_memories_past_the_tenant_s_retention_are_purged(deployment: Deployment) -> None:
    await deployment.rule(retention_days=365)
    async with deployment.memory() as memory, deployment.internal() as internal:
        gone = await old(memory, "of another age")
        await deployment.grow_old()
        kept = await old(memory, "old, and imported today")

        first = await internal.ApplyRetention(memory_pb2.ApplyRetentionRequest())
        again = await internal.ApplyRetention(memory_pb2.ApplyRetentionRequest())
        response = await memory.BatchGetMemories(memory_pb2.BatchGetMemoriesRequest(memory_ids=[gone, kept]))

    assert (first.purged_count, again.purged_count) == (1, 0)
    assert ([one.memory_id for one in response.memories], list(response.not_found_ids)) == ([kept], [gone])


@pytest.mark.system
async def test_memories_in_cold_storage_are_not_kept_longer_than_the_others(deployment: Deployment) -> None:
    await deployment.rule(retention_days=365)
    async with deployment.memory() as memory, deployment.history() as history, deployment.internal() as internal:
        await old(memory, "of another age")
        await history.ArchiveMemories(going())
        young = await internal.ApplyRetention(memory_pb2.ApplyRetentionRequest())
        async with deployment.server.database.superuser() as connection:
            await connection.execute("UPDATE memory.archives SET create_time = $1", LONG_AGO)
        grown = await internal.ApplyRetention(memory_pb2.ApplyRetentionRequest())
        response = await history.ListArchives(pb.ListArchivesRequest())

    assert (young.purged_count, grown.purged_count) == (0, 1)
    assert (list(response.archives), deployment.files) == ([], [])


async def test_unreferenced_files_are_removed_once_no_process_can_be_writing_them(deployment: Deployment) -> None:
    async with deployment.memory() as memory, deployment.history() as history, deployment.internal() as internal:
        await old(memory, "named")
        await history.ArchiveMemories(going())
        (named,) = deployment.files
        orphans = [named.with_name(f"{name}.jsonl.gz") for name in ("left-behind", "being-written")]
        for file in orphans:
            file.write_bytes(b"x")
        for file in (named, orphans[0]):
            os.utime(file, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
        await internal.ArchiveIdleMemories(memory_pb2.ArchiveIdleMemoriesRequest())

    assert deployment.files == sorted([named, orphans[1]])


async def test_everything_that_hangs_on_a_memory_goes_with_it(database: TestDatabase) -> None:
    async with database.superuser() as connection:
        rows = await connection.fetch(
            "SELECT DISTINCT conrelid::regclass::text AS name FROM pg_constraint "
            "WHERE contype = 'f' AND confrelid = 'memory.memories'::regclass AND conparentid = 0"
        )

    hanging = {row["name"] for row in rows}
    # Former rows go with their memories too, and have no foreign key, because they are written when rows go.
    archived = {f"memory.{table}" for table in ARCHIVED_TABLES if not table.endswith("_history")}
    assert hanging - STAYING == archived - {"memory.memories"}
