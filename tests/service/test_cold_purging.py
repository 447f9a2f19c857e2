"""A purge reaches cold storage, whatever it selects by, and says what it took from there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf.struct_pb2 import Struct

from skein.memory.v1 import archives_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein_memory.cold_storage import store as archive_store
from skein_memory.erasure import archive_purge

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def old(tenant: Tenant, content: str, *, at: datetime = LONG_AGO, **values: Any) -> str:
    memory = memory_pb2.Memory(content=content, **values)
    memory.create_time.FromDatetime(at)
    created = await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    return created.memory.memory_id


async def archive(tenant: Tenant, session_id: str = "") -> str:
    request = pb.ArchiveMemoriesRequest(idle_since_time=datetime.now(UTC), session_id=session_id)
    return (await tenant.history.ArchiveMemories(request)).archive.archive_id


async def remaining_contents(tenant: Tenant) -> list[str]:
    """Bring everything back and say what there is."""
    listed = await tenant.history.ListArchives(pb.ListArchivesRequest())
    for one in listed.archives:
        await tenant.history.UnarchiveMemories(pb.UnarchiveMemoriesRequest(archive_id=one.archive_id))
    memories = (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    return sorted(memory.content for memory in memories)


def selecting(memory_ids: Sequence[str] = (), **conditions: Any) -> memory_pb2.MemorySelection:
    return memory_pb2.MemorySelection(memory_ids=memory_ids, filter=memory_pb2.MemoryFilter(**conditions))


async def purge(
    tenant: Tenant, selection: memory_pb2.MemorySelection, **options: Any
) -> memory_pb2.PurgeMemoriesResponse:
    return await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection, **options))


def plan(name: str) -> Struct:
    made = Struct()
    made.update({"customer": {"plan": name}})
    return made


@pytest.mark.system
async def test_a_memory_that_was_about_another_person_stays_where_their_purge_finds_it(tenant: Tenant) -> None:
    moved = await old(tenant, "Anna hides an umbrella.", subject_id="anna", session_id="s")
    about_marta = memory_pb2.Memory(memory_id=moved, content="Marta likes tea.", subject_id="marta")
    mask = {"paths": ["content", "subject_id"]}
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=about_marta, update_mask=mask))
    await old(tenant, "Marta has a cat.", subject_id="marta", session_id="s")
    request = pb.ArchiveMemoriesRequest(idle_since_time=datetime.now(UTC), session_id="s")
    archived = (await tenant.history.ArchiveMemories(request)).archive

    purged = await purge(tenant, selecting(subject_id="anna"))

    assert archived.memory_count == 1
    assert purged.receipt.deleted_counts["memory.versions"] == 1
    assert await remaining_contents(tenant) == ["Marta has a cat.", "Marta likes tea."]
    versions = await tenant.memory.ListMemoryVersions(memory_pb2.ListMemoryVersionsRequest(memory_id=moved))
    assert "Anna" not in str(versions)


FILTERS = {
    "metadata": {"where": 'metadata.customer.plan = "trial"'},
    "tags": {"tags_any": ["trial"]},
    "type": {"types": ["journal"]},
    "words": {"where": 'content:"must go"'},
    "person and more": {"subject_id": "ann", "types": ["journal"]},
    "times": {"where": "create_time < 2019-01-01"},
    "priority": {"where": "priority = 10"},
    "hash": {"where": "NOT has(agent_id)", "source": "import"},
}


@pytest.mark.system
@pytest.mark.parametrize("conditions", FILTERS.values(), ids=FILTERS.keys())
async def test_a_purge_by_filter_takes_what_passes_from_cold_storage(tenant: Tenant, conditions: Any) -> None:
    gone = await old(
        tenant, "it must go", at=LONG_AGO - timedelta(days=800), metadata=plan("trial"), tags=["trial"], type="journal",
        subject_id="ann", importance=1.0, source="import",
    )  # fmt: skip
    await old(tenant, "it stays", metadata=plan("paid"), tags=["paid"], subject_id="ann", importance=0.5, agent_id="a")
    await archive(tenant)

    dry = await purge(tenant, selecting(**conditions), dry_run=True)
    done = await purge(tenant, selecting(**conditions))

    assert list(dry.archived_memory_ids) == list(done.archived_memory_ids) == [gone]
    assert done.next_page_token == ""
    assert await remaining_contents(tenant) == ["it stays"]


async def test_ids_and_a_filter_must_both_hold_in_cold_storage_too(tenant: Tenant) -> None:
    gone = await old(tenant, "a journal", type="journal")
    stays = await old(tenant, "a note", type="note")
    await archive(tenant)

    done = await purge(tenant, selecting([gone, stays, "nobody"], types=["journal"]))

    assert list(done.archived_memory_ids) == [gone]
    assert list(done.not_found_ids) == ["nobody"]
    assert await remaining_contents(tenant) == ["a note"]


@pytest.mark.system
async def test_a_purge_goes_on_page_by_page_until_every_archive_was_looked_through(tenant: Tenant) -> None:
    count = archive_purge.ARCHIVES_BATCH_SIZE + 2
    gone = []
    for number in range(count):
        gone.append(await old(tenant, f"number {number}", session_id=f"s{number}", tags=["go"]))
        await archive(tenant, f"s{number}")
    warm = await old(tenant, "not in cold storage", tags=["go"])
    await old(tenant, "of another kind")
    results, purged, token, calls = list[str](), list[str](), "", 0

    while token or not calls:
        done = await purge(tenant, selecting(tags_any=["go"]), page_token=token)
        results += done.archived_memory_ids
        purged += done.receipt.memory_ids
        token, calls = done.next_page_token, calls + 1

    assert (sorted(results), purged) == (sorted(gone), [warm])
    assert calls == 2
    assert await remaining_contents(tenant) == ["of another kind"]


async def test_forgetting_for_good_reaches_cold_storage_and_says_so(tenant: Tenant) -> None:
    by_id, by_tag = await old(tenant, "by id"), await old(tenant, "by tag", tags=["go"])
    await old(tenant, "stays")
    await archive(tenant)

    first = await tenant.memory.DeleteMemories(
        memory_pb2.DeleteMemoriesRequest(selection=selecting([by_id]), purge=True, request_id="f")
    )
    again = await tenant.memory.DeleteMemories(
        memory_pb2.DeleteMemoriesRequest(selection=selecting([by_id]), purge=True, request_id="f")
    )
    second = await tenant.memory.DeleteMemories(
        memory_pb2.DeleteMemoriesRequest(selection=selecting(tags_any=["go"]), purge=True)
    )

    assert list(first.archived_memory_ids) == [by_id]
    assert again == first
    assert list(second.archived_memory_ids) == [by_tag]
    assert await remaining_contents(tenant) == ["stays"]


async def test_a_soft_forgetting_leaves_cold_storage_alone(tenant: Tenant) -> None:
    kept = await old(tenant, "kept")
    await archive(tenant)

    done = await tenant.memory.DeleteMemories(memory_pb2.DeleteMemoriesRequest(selection=selecting([kept])))

    assert (list(done.archived_memory_ids), list(done.not_found_ids)) == ([], [kept])
    assert await remaining_contents(tenant) == ["kept"]


async def test_a_request_id_that_was_used_for_something_else_removes_nothing(tenant: Tenant) -> None:
    kept = await old(tenant, "kept")
    await archive(tenant)
    await purge(tenant, selecting(["nobody"]), request_id="p")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED"):
        await purge(tenant, selecting([kept]), request_id="p")

    assert await remaining_contents(tenant) == ["kept"]


@pytest.mark.system
async def test_a_file_of_an_archive_has_a_size_that_fits_in_memory(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_store, "BYTES_PER_ARCHIVE", 5000)
    for number in range(4):
        await old(tenant, f"{number} " + "long " * 200)

    first = await tenant.history.ArchiveMemories(pb.ArchiveMemoriesRequest(idle_since_time=datetime.now(UTC)))
    second = await tenant.history.ArchiveMemories(
        pb.ArchiveMemoriesRequest(idle_since_time=datetime.now(UTC), after_memory_id=first.next_memory_id)
    )

    assert (first.archive.memory_count, second.archive.memory_count) == (2, 2)
    assert len(await remaining_contents(tenant)) == 4


async def pages(
    tenant: Tenant, selection: memory_pb2.MemorySelection, **options: Any
) -> list[memory_pb2.PurgeMemoriesResponse]:
    results = [await purge(tenant, selection, page_size=1, **options)]
    while results[-1].next_page_token:
        results.append(await purge(tenant, selection, page_size=1, page_token=results[-1].next_page_token, **options))
    return results


@pytest.mark.system
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("of_person", [True, False], ids=["person", "names"])
async def test_archived_memories_are_reported_once_however_many_pages_there_are(
    tenant: Tenant, *, of_person: bool, dry_run: bool
) -> None:
    stored = await old(tenant, "stored", subject_id="ann")
    await archive(tenant)
    there = [await old(tenant, f"there {number}", subject_id="ann") for number in range(3)]
    selection = selecting(subject_id="ann") if of_person else selecting([stored, *there, "nobody"])

    actual_pages = await pages(tenant, selection, dry_run=dry_run)

    assert [id_ for page in actual_pages for id_ in page.archived_memory_ids] == [stored]
    assert sorted(id_ for page in actual_pages for id_ in page.receipt.memory_ids) == sorted(there)
    assert [name for page in actual_pages for name in page.not_found_ids] == ([] if of_person else ["nobody"])
