"""Conflicts: which pairs are in one, and what resolving one does."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf.struct_pb2 import Struct

from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import limits_pb2

NEEDS_REVIEW, RESOLVED = pb.CONFLICT_STATUS_NEEDS_REVIEW, pb.CONFLICT_STATUS_RESOLVED
SUPERSEDED, DISMISSED = pb.CONFLICT_STATUS_SUPERSEDED, pb.CONFLICT_STATUS_DISMISSED


async def fact(tenant: Tenant, content: str, **fields: Any) -> str:
    memory = memory_pb2.Memory(**{"content": content, "type": "fact", "confidence": 0.9, **fields})
    return (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory.memory_id


async def link(tenant: Tenant, start: str, end: str, relation: str = "contradicts") -> str:
    link = memory_pb2.Link(from_memory_id=start, to_memory_id=end, relation=relation)
    return (await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))).link.link_id


async def conflicts(tenant: Tenant, **fields: Any) -> list[pb.Conflict]:
    """Read all conflicts, one page after another."""
    request = pb.ListConflictsRequest(**fields)
    results: list[pb.Conflict] = []
    while True:
        page = await tenant.curation.ListConflicts(request)
        assert not fields.get("page_size") or len(page.conflicts) <= fields["page_size"]
        results += page.conflicts
        if not page.next_page_token:
            return results
        request.page_token = page.next_page_token


async def resolve(tenant: Tenant, a: str, b: str, status: pb.ConflictStatus, **fields: Any) -> pb.ConflictResolution:
    request = pb.ResolveConflictRequest(a_memory_id=a, b_memory_id=b, status=status, **fields)
    return (await tenant.curation.ResolveConflict(request)).resolution


async def superseded(tenant: Tenant, memory_id: str) -> set[tuple[str, str]]:
    listed = await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id=memory_id))
    return {(one.from_memory_id, one.to_memory_id) for one in listed.links if one.relation == "supersedes"}


def pairs(listed: list[pb.Conflict]) -> list[tuple[str, str]]:
    return [(one.a.memory_id, one.b.memory_id) for one in listed]


async def test_facts_that_a_link_says_contradict_each_other_are_in_conflict_once(tenant: Tenant) -> None:
    a, b = await fact(tenant, "red"), await fact(tenant, "blue")
    await link(tenant, b, a)
    await link(tenant, a, b)

    (result,) = await conflicts(tenant)

    assert (result.a.memory_id, result.b.memory_id) == (a, b)
    assert (result.pair_key, result.reason) == (f"{a}|{b}", pb.CONFLICT_REASON_CONTRADICTS_LINK)
    assert result.a == await tenant.get_memory(a)
    assert not result.HasField("resolution")


async def test_facts_with_nearly_the_same_key_that_say_different_things_are_in_conflict(tenant: Tenant) -> None:
    a = await fact(tenant, "Graz", key="Home Town")
    b = await fact(tenant, "Wien", key="home  town")
    await fact(tenant, "Graz", key=" HOME TOWN")
    await fact(tenant, "Linz", key="birth town")

    actual_conflicts = await conflicts(tenant, page_size=1)

    assert {one.reason for one in actual_conflicts} == {pb.CONFLICT_REASON_SAME_KEY}
    assert len(actual_conflicts) == 2
    assert all(b in pair for pair in pairs(actual_conflicts))
    # A link between two of them makes no second conflict of them.
    await link(tenant, a, b)
    assert len(await conflicts(tenant, page_size=1)) == 2


async def test_both_must_be_alive_and_facts(tenant: Tenant) -> None:
    a = await fact(tenant, "red")
    gone, archived = await fact(tenant, "green"), await fact(tenant, "white")
    note = await fact(tenant, "black", type="note")
    for other in (gone, archived, note):
        await link(tenant, a, other)
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=gone))
    update = memory_pb2.UpdateMemoryRequest(memory=memory_pb2.Memory(memory_id=archived))
    update.memory.archive_time.GetCurrentTime()
    update.update_mask.paths.append("archive_time")
    await tenant.memory.UpdateMemory(update)

    assert await conflicts(tenant) == []
    assert pairs(await conflicts(tenant, all_types=True)) == [(a, note)]


@pytest.mark.system
async def test_a_contradiction_is_listed_however_unsure_both_are_the_surest_first(tenant: Tenant) -> None:
    made = [
        (await fact(tenant, f"red {sure}", confidence=sure), await fact(tenant, f"blue {sure}", confidence=1.0))
        for sure in (0.0, 0.75, 0.4)
    ]
    for start, end in made:
        await link(tenant, start, end)
    keyed = [await fact(tenant, town, key=key, confidence=0.6) for town, key in (("Graz", "town"), ("Linz", " town"))]

    first = await conflicts(tenant, page_size=1)

    assert pairs(first) == [made[1], tuple(keyed), made[2], made[0]]
    assert [one.score for one in first] == [0.75, 0.6, 0.4, 0.0]
    # A contradiction lowers what both are worth, and reading raises it: neither moves a pair.
    assert first[2].a.scores.confidence < first[2].score
    for _ in range(20):
        await tenant.get_memory(made[0][0])
    assert pairs(await conflicts(tenant)) == pairs(first)


async def test_a_pair_set_to_needs_review_is_listed_whatever_joins_it(tenant: Tenant) -> None:
    notes = [await fact(tenant, text, type="note", confidence=0.1) for text in ("red", "blue")]
    linked = [await fact(tenant, text) for text in ("tea", "coffee")]
    keyed = [await fact(tenant, text, key=key) for text, key in (("Graz", "town"), ("Linz", "town "))]
    await link(tenant, linked[1], linked[0])
    for a, b in (notes, linked, keyed):
        await resolve(tenant, a, b, NEEDS_REVIEW)

    for all_types in (False, True):
        results = {one.pair_key: one for one in await conflicts(tenant, all_types=all_types)}
        assert {key: one.reason for key, one in results.items()} == {
            "|".join(notes): pb.CONFLICT_REASON_RESOLUTION,
            "|".join(linked): pb.CONFLICT_REASON_CONTRADICTS_LINK,
            "|".join(keyed): pb.CONFLICT_REASON_SAME_KEY,
        }
        assert {one.resolution.status for one in results.values()} == {NEEDS_REVIEW}
    await resolve(tenant, notes[0], notes[1], DISMISSED)
    assert "|".join(notes) not in {one.pair_key for one in await conflicts(tenant)}


@pytest.mark.system
async def test_conflicts_are_filtered_by_what_was_said_of_them(tenant: Tenant) -> None:
    unsaid = pb.CONFLICT_STATUS_UNSPECIFIED
    made: dict[pb.ConflictStatus, tuple[str, str]] = {}
    for status in (unsaid, NEEDS_REVIEW, RESOLVED, SUPERSEDED, DISMISSED):
        a, b = await fact(tenant, f"{status} red"), await fact(tenant, f"{status} blue")
        made[status] = (a, b)
        if status in (unsaid, NEEDS_REVIEW, SUPERSEDED):
            await link(tenant, a, b)
        if status:
            await resolve(tenant, a, b, status, canonical_memory_id=a if status == SUPERSEDED else "")

    for status, pair in made.items():
        assert pairs(await conflicts(tenant, statuses=[status], page_size=1)) == [pair]
    assert set(pairs(await conflicts(tenant))) == {made[unsaid], made[NEEDS_REVIEW]}
    some = await conflicts(tenant, statuses=[unsaid, DISMISSED], show_settled=True)
    assert set(pairs(some)) == {made[unsaid], made[DISMISSED]}
    assert set(pairs(await conflicts(tenant, show_settled=True))) == set(made.values())


async def test_the_same_key_of_two_people_is_no_conflict(tenant: Tenant) -> None:
    for number, person in enumerate(("ann", "bob", "")):
        await fact(tenant, f"{number}", key="phone" + " " * number, subject_id=person)
        await fact(tenant, f"{number}", key="phone", subject_id=person, type="preference")
    other = await fact(tenant, "4", key=" Phone", subject_id="bob")

    (result,) = await conflicts(tenant, all_types=True)

    assert {result.a.subject_id, result.b.subject_id} == {"bob"}
    assert result.b.memory_id == other


async def test_memories_with_one_key_that_differ_in_their_data_alone_are_in_conflict(tenant: Tenant) -> None:
    for key, number in (("port", 80), (" port", 8080), ("port ", 80)):
        data = Struct()
        data.update({"number": number})
        await fact(tenant, "where it listens", key=key, data=data)

    assert len(await conflicts(tenant)) == 2


@pytest.mark.system
async def test_every_pair_of_a_crowd_with_one_key_is_listed_once(tenant: Tenant) -> None:
    crowd = [memory_pb2.Memory(content=f"{n % 3}", key="list", type="note") for n in range(42)]
    alike = [memory_pb2.Memory(content="same", key="many", type="note") for _ in range(440)]
    odd = memory_pb2.Memory(content="other", key="many", type="note")
    for memories in (crowd, alike, [odd]):
        await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))

    actual_conflicts = await conflicts(tenant, all_types=True, page_size=200)

    # Of 42 memories with three contents each differs from 28; of the 441 one differs from all others.
    assert len(actual_conflicts) == len(set(pairs(actual_conflicts))) == 42 * 28 // 2 + 440


@pytest.mark.system
async def test_resolving_what_a_page_lists_hides_nothing_of_the_next(tenant: Tenant) -> None:
    ids = [await fact(tenant, f"{number}", confidence=number / 10) for number in range(10)]
    for start, end in zip(ids[::2], ids[1::2], strict=True):
        await link(tenant, start, end)
    request = pb.ListConflictsRequest(page_size=2)
    seen = []

    while True:
        page = await tenant.curation.ListConflicts(request)
        seen += pairs(list(page.conflicts))
        for one in page.conflicts:
            await resolve(tenant, one.a.memory_id, one.b.memory_id, DISMISSED)
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token

    assert seen == list(zip(ids[::2], ids[1::2], strict=True))[::-1]
    assert await conflicts(tenant) == []


@pytest.mark.system
async def test_many_conflicts_come_page_by_page_without_repeating_any(tenant: Tenant, other_tenant: Tenant) -> None:
    ids = [await fact(tenant, f"{number}") for number in range(24)]
    for start, end in zip(ids[::2], ids[1::2], strict=True):
        await link(tenant, start, end)
    for number in range(3):
        await fact(tenant, f"x{number}", key="A " if number else "a", type="fact" if number < 2 else "note")

    for size in (1, 5, 0):
        actual_conflicts = await conflicts(tenant, page_size=size)
        assert len(actual_conflicts) == len({one.pair_key for one in actual_conflicts}) == 13
    first = await tenant.curation.ListConflicts(pb.ListConflictsRequest(page_size=1))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
        await other_tenant.curation.ListConflicts(pb.ListConflictsRequest(page_token=first.next_page_token))
    assert await conflicts(other_tenant) == []


async def test_a_superseded_memory_is_linked_and_ends(tenant: Tenant) -> None:
    a, b = await fact(tenant, "red"), await fact(tenant, "blue")
    await link(tenant, a, b)

    resolution = await resolve(tenant, b, a, SUPERSEDED, canonical_memory_id=b, note="newer")

    assert (resolution.pair_key, resolution.a_memory_id, resolution.b_memory_id) == (f"{a}|{b}", a, b)
    assert (resolution.status, resolution.canonical_memory_id, resolution.note, resolution.revision) == (
        SUPERSEDED,
        b,
        "newer",
        1,
    )
    assert await superseded(tenant, a) == {(b, a)}
    assert (await tenant.get_memory(a)).HasField("valid_to_time")
    assert not (await tenant.get_memory(b)).HasField("valid_to_time")
    assert await conflicts(tenant) == []
    shown = await conflicts(tenant, show_settled=True)
    assert [one.resolution for one in shown] == [resolution]


async def test_another_resolution_takes_back_what_the_first_one_did(tenant: Tenant) -> None:
    a, b = await fact(tenant, "red"), await fact(tenant, "blue")
    await link(tenant, a, b)
    await resolve(tenant, a, b, SUPERSEDED, canonical_memory_id=b)

    turned = await resolve(tenant, a, b, RESOLVED, canonical_memory_id=a, revision=1)
    assert await superseded(tenant, a) == {(a, b)}
    assert not (await tenant.get_memory(a)).HasField("valid_to_time")
    assert (await tenant.get_memory(b)).HasField("valid_to_time")
    same = await resolve(tenant, a, b, RESOLVED, canonical_memory_id=a, note="sure")
    assert await superseded(tenant, a) == {(a, b)}
    dropped = await resolve(tenant, a, b, NEEDS_REVIEW)

    assert [one.revision for one in (turned, same, dropped)] == [2, 3, 4]
    assert turned.resolution_id == dropped.resolution_id
    assert await superseded(tenant, a) == set()
    assert not (await tenant.get_memory(b)).HasField("valid_to_time")
    assert len(await conflicts(tenant)) == 1
    usage = await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest())
    assert next(one.used for one in usage.usage if one.kind == "links") == 1


async def test_a_link_and_an_end_that_were_there_before_stay(tenant: Tenant) -> None:
    a, b = await fact(tenant, "red"), await fact(tenant, "blue")
    await link(tenant, a, b, "supersedes")
    update = memory_pb2.UpdateMemoryRequest(memory=memory_pb2.Memory(memory_id=b))
    update.memory.valid_to_time.FromSeconds(1_000_000_000)
    update.update_mask.paths.append("valid_to_time")
    await tenant.memory.UpdateMemory(update)

    await resolve(tenant, a, b, SUPERSEDED, canonical_memory_id=a)
    await resolve(tenant, a, b, DISMISSED)

    assert await superseded(tenant, a) == {(a, b)}
    assert (await tenant.get_memory(b)).valid_to_time.seconds == 1_000_000_000


async def test_a_meaningless_resolution_is_refused(tenant: Tenant, other_tenant: Tenant) -> None:
    a, b, c = await fact(tenant, "red"), await fact(tenant, "blue"), await fact(tenant, "green")
    theirs = await fact(other_tenant, "theirs")
    refusals: list[tuple[grpc.StatusCode, str, dict[str, Any]]] = [
        (grpc.StatusCode.INVALID_ARGUMENT, "CANONICAL_NOT_IN_PAIR", {"canonical_memory_id": c}),
        (grpc.StatusCode.INVALID_ARGUMENT, "CANONICAL_NOT_IN_PAIR", {"canonical_memory_id": theirs}),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", {}),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", {"status": DISMISSED, "canonical_memory_id": a}),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", {"status": 0}),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", {"b_memory_id": a, "canonical_memory_id": a}),
        (grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND", {"b_memory_id": theirs, "canonical_memory_id": a}),
        (grpc.StatusCode.ABORTED, "REVISION_STALE", {"canonical_memory_id": a, "revision": 3}),
    ]

    for code, reason, fields in refusals:
        request = pb.ResolveConflictRequest(**{"a_memory_id": a, "b_memory_id": b, "status": SUPERSEDED, **fields})
        with refused(code, reason):
            await tenant.curation.ResolveConflict(request)
    assert (await tenant.get_memory(b)).revision == 1


async def test_a_crowd_that_resolves_one_conflict_leaves_one_link(tenant: Tenant) -> None:
    a, b = await fact(tenant, "red"), await fact(tenant, "blue")
    same = pb.ResolveConflictRequest(
        a_memory_id=a, b_memory_id=b, status=SUPERSEDED, canonical_memory_id=a, request_id="r"
    )

    answers = await asyncio.gather(*(tenant.curation.ResolveConflict(same) for _ in range(3)))
    crowd = await asyncio.gather(
        *(resolve(tenant, *pair, RESOLVED, canonical_memory_id=pair[0]) for pair in ((a, b), (b, a)) * 3)
    )

    assert all(answer == answers[0] for answer in answers)
    assert sorted(one.revision for one in crowd) == list(range(2, 8))
    last = max(crowd, key=lambda one: one.revision)
    other = b if last.canonical_memory_id == a else a
    assert await superseded(tenant, a) == {(last.canonical_memory_id, other)}


async def test_resolutions_are_listed_by_status_newest_first(tenant: Tenant) -> None:
    ids = [await fact(tenant, f"{number}") for number in range(4)]
    made = [await resolve(tenant, ids[0], other, DISMISSED) for other in ids[1:3]]
    made.append(await resolve(tenant, ids[0], ids[3], RESOLVED))
    request = pb.ListConflictResolutionsRequest(page_size=2)

    first = await tenant.curation.ListConflictResolutions(request)
    request.page_token = first.next_page_token
    second = await tenant.curation.ListConflictResolutions(request)
    dismissed = await tenant.curation.ListConflictResolutions(pb.ListConflictResolutionsRequest(status=DISMISSED))

    assert [*first.resolutions, *second.resolutions] == made[::-1]
    assert list(dismissed.resolutions) == made[1::-1]
    request.status = DISMISSED
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
        await tenant.curation.ListConflictResolutions(request)


@pytest.mark.parametrize("token", ["nonsense", "e887c965deb74d47b92b5f42fc1d9b87"])
async def test_an_invented_token_is_refused(tenant: Tenant, token: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
        await tenant.curation.ListConflicts(pb.ListConflictsRequest(page_token=token))
