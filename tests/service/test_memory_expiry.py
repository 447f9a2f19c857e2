"""What has expired: no reader sees it, its names are free, and only what was asked before its expiry shows it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import grpc
import pytest
from fix_calls import stamp
from fix_cluster import Tenant, refused
from fix_expiry import expire
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from skein.memory.v1 import curation_pb2, scores_pb2, snapshots_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2

NOT_FOUND = grpc.StatusCode.NOT_FOUND
FOUND_BY_FILTERS: list[dict[str, Any]] = [
    {},
    {"tags_any": ["t"]},
    {"types": ["fact"]},
    {"key": "tea"},
    {"subject_id": "ann"},
    {"source": "shop"},
    {"where": 'external_id = "x"'},
    {"where": "metadata.shelf = top"},
]


async def update(tenant: Tenant, memory_id: str, **fields: Any) -> pb.Memory:
    memory, mask = pb.Memory(memory_id=memory_id, **fields), FieldMask(paths=list(fields))
    return (await tenant.memory.UpdateMemory(pb.UpdateMemoryRequest(memory=memory, update_mask=mask))).memory


async def link(tenant: Tenant, start: str, end: str, relation: str = "related_to") -> pb.Link:
    drawn = pb.Link(from_memory_id=start, to_memory_id=end, relation=relation)
    return (await tenant.links.CreateLink(pb.CreateLinkRequest(link=drawn))).link


async def contents(tenant: Tenant, **fields: Any) -> list[str]:
    request = pb.ListMemoriesRequest(show_archived=True, **fields)
    return [memory.content for memory in (await tenant.memory.ListMemories(request)).memories]


async def exported(tenant: Tenant) -> list[Any]:
    response = await tenant.snapshots.ExportData(snapshots_pb2.ExportDataRequest())
    assert not response.next_page_token
    return [json.loads(line) for line in response.lines.splitlines()[1:]]


async def imported(tenant: Tenant, *memories: dict[str, Any], **fields: Any) -> dict[str, dict[str, int]]:
    lines = "\n".join(json.dumps({"memory": memory}) for memory in memories)
    response = await tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=lines, **fields))
    assert not response.errors
    names = ("created", "updated", "unchanged", "refused")
    return {name: counts for name in names if (counts := dict(getattr(response.counts, name)))}


def fields_at_fault(fault: aio.AioRpcError) -> list[str]:
    status, request = rpc_status.from_call(cast("Any", fault)), error_details_pb2.BadRequest()
    assert status is not None
    for detail in status.details:
        detail.Unpack(request)
    return [violation.field for violation in request.field_violations]


def facts_of(fault: aio.AioRpcError) -> dict[str, str]:
    status, response = rpc_status.from_call(cast("Any", fault)), error_details_pb2.ErrorInfo()
    assert status is not None
    for detail in status.details:
        detail.Unpack(response)
    return dict(response.metadata)


async def surroundings(tenant: Tenant) -> tuple[pb.Memory, pb.Memory, pb.Link]:
    """Make a memory that every reader can find, one that is linked with it, and their link."""
    memory = pb.Memory(
        content="green tea on the top shelf", type="fact", key="tea", external_id="x", tags=["t"], source="shop",
        subject_id="ann",
    )  # fmt: skip
    memory.metadata.update({"shelf": "top"})
    gone = (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))).memory
    kept = await tenant.create_memory("a red kettle", external_id="kettle")
    drawn = await link(tenant, kept.memory_id, gone.memory_id)
    await tenant.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(alias_memory_id=kept.memory_id, canonical_memory_id=gone.memory_id)
    )
    await tenant.curation.ResolveConflict(
        curation_pb2.ResolveConflictRequest(
            a_memory_id=gone.memory_id, b_memory_id=kept.memory_id, status=curation_pb2.CONFLICT_STATUS_DISMISSED
        )
    )
    return gone, kept, drawn


@pytest.mark.system
async def test_no_list_shows_an_expired_memory(tenant: Tenant) -> None:
    gone, kept, _ = await surroundings(tenant)
    await expire(tenant.snapshots, gone)

    for fields in FOUND_BY_FILTERS:
        request = pb.ListMemoriesRequest(
            filter=pb.MemoryFilter(**fields), show_archived=True, show_deleted=True, show_total_size=True
        )
        response = await tenant.memory.ListMemories(request)
        expected = [] if fields else [kept.memory_id]
        assert ([one.memory_id for one in response.memories], response.total_size) == (expected, len(expected)), fields
    batch = await tenant.memory.BatchGetMemories(pb.BatchGetMemoriesRequest(memory_ids=[gone.memory_id, "x"]))
    assert (list(batch.memories), list(batch.not_found_ids)) == ([], [gone.memory_id, "x"])
    recalled = await tenant.recall.Recall(recall_pb2.RecallRequest(query="green tea on the top shelf"))
    assert gone.memory_id not in {hit.item_id for hit in recalled.hits}
    matching = await tenant.memory.ExportMemories(
        pb.ExportMemoriesRequest(selection=pb.MemorySelection(filter=pb.MemoryFilter(subject_id="ann")))
    )
    assert list(matching.memories) == []
    statistics = await tenant.curation.GetStatistics(curation_pb2.GetStatisticsRequest())
    assert (statistics.memory_count, dict(statistics.type_counts)) == (1, {"note": 1})
    review = await tenant.curation.GetReviewQueue(curation_pb2.GetReviewQueueRequest())
    assert [item.memory.memory_id for item in review.items] == [kept.memory_id]


async def test_no_link_alias_or_conflict_leads_to_an_expired_memory(tenant: Tenant) -> None:
    gone, kept, drawn = await surroundings(tenant)
    await expire(tenant.snapshots, gone)

    links = await tenant.links.ListLinks(pb.ListLinksRequest(memory_id=kept.memory_id))
    walked = await tenant.links.TraverseLinks(pb.TraverseLinksRequest(memory_id=kept.memory_id, include_memories=True))
    aliases = await tenant.curation.ListAliases(curation_pb2.ListAliasesRequest())
    canonical = await tenant.curation.GetCanonicalMemory(
        curation_pb2.GetCanonicalMemoryRequest(memory_id=kept.memory_id)
    )
    response = await tenant.curation.ListConflictResolutions(curation_pb2.ListConflictResolutionsRequest())
    reinforced = await tenant.memory.ReinforceMemory(
        scores_pb2.ReinforceMemoryRequest(memory_id=kept.memory_id, spread=0.5)
    )

    assert list(links.links) == []
    assert [node.memory_id for node in walked.nodes] == [kept.memory_id]
    assert list(aliases.aliases) == []
    assert canonical.canonical_memory_id == kept.memory_id
    assert list(response.resolutions) == []
    assert [memory.memory_id for memory in reinforced.memories] == [kept.memory_id]
    with refused(NOT_FOUND, "LINK_NOT_FOUND"):
        await tenant.links.GetLink(pb.GetLinkRequest(link_id=drawn.link_id))
    with refused(NOT_FOUND, "LINK_NOT_FOUND"):
        changed = pb.Link(link_id=drawn.link_id, label="seen")
        await tenant.links.UpdateLink(pb.UpdateLinkRequest(link=changed, update_mask=FieldMask(paths=["label"])))


@pytest.mark.system
async def test_no_call_that_names_an_expired_memory_finds_it(tenant: Tenant) -> None:
    gone, kept, _ = await surroundings(tenant)
    id_, other = gone.memory_id, kept.memory_id
    await expire(tenant.snapshots, gone)
    memory, links, curation = tenant.memory, tenant.links, tenant.curation
    drawn = pb.Link(from_memory_id=other, to_memory_id=id_, relation="causes")
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "GetMemory": lambda: memory.GetMemory(pb.GetMemoryRequest(memory_id=id_, show_deleted=True)),
        "GetMemory by external_id": lambda: memory.GetMemory(pb.GetMemoryRequest(memory_id="x")),
        "ListMemoryVersions": lambda: memory.ListMemoryVersions(pb.ListMemoryVersionsRequest(memory_id=id_)),
        "UpdateMemory": lambda: update(tenant, id_, title="t"),
        "UpdateMemory, more time": lambda: update(tenant, id_, expire_time=stamp(datetime(2100, 1, 1, tzinfo=UTC))),
        "DeleteMemory": lambda: memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=id_)),
        "UndeleteMemory": lambda: memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id=id_)),
        "PromoteMemory": lambda: memory.PromoteMemory(pb.PromoteMemoryRequest(memory_id=id_)),
        "ListLinks": lambda: links.ListLinks(pb.ListLinksRequest(memory_id=id_)),
        "CreateLink": lambda: links.CreateLink(pb.CreateLinkRequest(link=drawn)),
        "UpsertLink": lambda: links.UpsertLink(pb.UpsertLinkRequest(link=drawn)),
        "TraverseLinks": lambda: links.TraverseLinks(pb.TraverseLinksRequest(memory_id=id_)),
        "GetSubgraph": lambda: links.GetSubgraph(pb.GetSubgraphRequest(memory_ids=[id_])),
        "FindPaths": lambda: links.FindPaths(pb.FindPathsRequest(from_memory_id=other, to_memory_id=id_)),
        "SpreadActivation": lambda: links.SpreadActivation(
            pb.SpreadActivationRequest(seeds=[pb.ActivationSeed(memory_id=id_)])
        ),
        "SuggestLinks": lambda: links.SuggestLinks(pb.SuggestLinksRequest(memory_id=id_)),
        "ExplainScore": lambda: memory.ExplainScore(scores_pb2.ExplainScoreRequest(memory_id=id_)),
        "MergeMemories": lambda: memory.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=[other, id_])),
        "ReinforceMemory": lambda: memory.ReinforceMemory(scores_pb2.ReinforceMemoryRequest(memory_id=id_)),
        "FindSimilar": lambda: tenant.recall.FindSimilar(recall_pb2.FindSimilarRequest(item_id=id_)),
        "FindSimilar by external_id": lambda: tenant.recall.FindSimilar(
            recall_pb2.FindSimilarRequest(external_id="x", kind=recall_pb2.ITEM_KIND_MEMORY)
        ),
        "GetCanonicalMemory": lambda: curation.GetCanonicalMemory(
            curation_pb2.GetCanonicalMemoryRequest(memory_id=id_)
        ),
        "ResolveEntity": lambda: curation.ResolveEntity(
            curation_pb2.ResolveEntityRequest(alias_memory_id=other, canonical_memory_id=id_)
        ),
        "ResolveConflict": lambda: curation.ResolveConflict(
            curation_pb2.ResolveConflictRequest(
                a_memory_id=other, b_memory_id=id_, status=curation_pb2.CONFLICT_STATUS_DISMISSED
            )
        ),
    }

    answers = {name: (await asyncio.gather(call(), return_exceptions=True))[0] for name, call in calls.items()}

    results = {
        name: answer
        for name, answer in answers.items()
        if not (isinstance(answer, aio.AioRpcError) and answer.code() is NOT_FOUND)
    }
    assert results == {}


async def test_an_expired_objective_is_no_objective(tenant: Tenant) -> None:
    objective = await tenant.create_memory("launch", type="objective")
    task = await tenant.create_memory("write", type="task")
    await expire(tenant.snapshots, objective)

    with refused(NOT_FOUND, "OBJECTIVE_NOT_FOUND"):
        await tenant.memory.ListTasks(pb.ListTasksRequest(objective_id=objective.memory_id))
    with refused(NOT_FOUND, "OBJECTIVE_NOT_FOUND"):
        request = pb.SetObjectiveRequest(memory_id=task.memory_id, objective_id=objective.memory_id)
        await tenant.memory.SetObjective(request)


async def test_a_memory_takes_the_names_of_one_that_has_expired(tenant: Tenant) -> None:
    names = {"type": "fact", "key": "phone", "external_id": "x"}
    old = await tenant.create_memory("the old number", **names)
    other = await tenant.create_memory("a fact by another name", type="fact", key="mail")
    await expire(tenant.snapshots, old)

    new = await tenant.create_memory("the new number", **names)
    response = await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="x"))

    assert response.memory.memory_id == new.memory_id != old.memory_id
    assert await contents(tenant, filter=pb.MemoryFilter(key="phone")) == ["the new number"]
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await update(tenant, other.memory_id, key="phone")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"):
        await tenant.create_memory("a third", external_id="x")


async def test_one_of_many_takers_of_an_expired_name_gets_it(tenant: Tenant) -> None:
    await expire(tenant.snapshots, pb.Memory(content="old", type="fact", key="phone"))

    made = await asyncio.gather(
        *(tenant.create_memory(f"number {n}", type="fact", key="phone") for n in range(6)), return_exceptions=True
    )

    assert sum(isinstance(one, pb.Memory) for one in made) == 1
    reasons = {one.code() for one in made if isinstance(one, aio.AioRpcError)}
    assert reasons <= {grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.ABORTED}


async def test_a_changed_fact_takes_the_key_of_one_that_has_expired(tenant: Tenant) -> None:
    await expire(tenant.snapshots, pb.Memory(content="old", type="fact", key="phone"))
    fact = await tenant.create_memory("new", type="fact", key="mail")

    changed = await update(tenant, fact.memory_id, key="phone")

    assert changed.key == "phone"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"expire_time": Timestamp(seconds=1_600_000_000)}, "expire_time"),
        ({"scope": pb.SCOPE_USER}, "subject_id"),
    ],
)
async def test_a_memory_that_would_never_be_visible_is_refused_with_the_field_at_fault(
    tenant: Tenant, fields: dict[str, Any], field: str
) -> None:
    kept = await tenant.create_memory("kept")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as caught:
        await tenant.create_memory("c", **fields)
    assert fields_at_fault(caught.value) == [f"memory.{field}"]
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as caught:
        batch = [pb.Memory(content="a"), pb.Memory(content="b", **fields)]
        await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=batch))
    assert fields_at_fault(caught.value) == [f"memories[1].{field}"]
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as caught:
        await update(tenant, kept.memory_id, **fields)
    assert fields_at_fault(caught.value) == [f"memory.{field}"]
    assert await contents(tenant) == ["kept"]


async def test_a_life_of_no_length_is_refused(tenant: Tenant) -> None:
    for seconds in (0, -1):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await tenant.create_memory("c", ttl=Duration(seconds=seconds))


async def test_the_person_may_not_be_taken_from_a_memory_for_a_user(tenant: Tenant) -> None:
    memory = await tenant.create_memory("c", scope=pb.SCOPE_USER, subject_id="ann")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as caught:
        await update(tenant, memory.memory_id, subject_id="")
    assert fields_at_fault(caught.value) == ["memory.subject_id"]


async def test_an_import_stores_what_has_expired_and_what_is_for_no_known_user(tenant: Tenant) -> None:
    past = "2024-01-01T00:00:00Z"
    expired = {"content": "over", "external_id": "over", "create_time": "2023-01-01T00:00:00Z", "expire_time": past}
    userless = {"content": "for a user", "external_id": "user", "scope": "SCOPE_USER"}

    first = await imported(tenant, expired, userless)
    again = await imported(tenant, expired, userless)

    assert (first, again) == ({"created": {"memory": 2}}, {"unchanged": {"memory": 2}})
    assert await contents(tenant) == ["for a user"]
    # Its other fields can change.
    assert (await update(tenant, "user", title="t")).title == "t"


@pytest.mark.parametrize("mode", ["MERGE", "OVERWRITE", "SKIP_EXISTING"])
async def test_an_import_brings_back_what_has_expired_and_lives_elsewhere(tenant: Tenant, mode: str) -> None:
    gone = await tenant.create_memory("old", external_id="x", type="fact", key="k")
    await expire(tenant.snapshots, gone)

    done = await imported(
        tenant, {"content": "alive", "external_id": "x", "type": "fact", "key": "k"}, mode=f"IMPORT_MODE_{mode}"
    )
    memory = (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="x"))).memory

    assert done == {"updated": {"memory": 1}}
    assert (memory.memory_id, memory.content, memory.HasField("expire_time")) == (gone.memory_id, "alive", False)
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await tenant.create_memory("another", type="fact", key="k")


async def test_an_import_does_not_bring_back_beside_a_successor(tenant: Tenant) -> None:
    gone = await tenant.create_memory("old", external_id="x")
    await expire(tenant.snapshots, gone)
    new = await tenant.create_memory("new", external_id="x")

    done = await imported(
        tenant, {"memory_id": gone.memory_id, "content": "old", "external_id": "x"}, mode="IMPORT_MODE_SKIP_EXISTING"
    )

    assert done == {"unchanged": {"memory": 1}}
    assert (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="x"))).memory.memory_id == new.memory_id
    assert await contents(tenant) == ["new"]


async def test_an_import_gives_the_key_of_an_expired_fact_to_another_one(tenant: Tenant) -> None:
    await expire(tenant.snapshots, pb.Memory(content="old", type="fact", key="phone"))
    await tenant.create_memory("changes its key", type="fact", key="mail", external_id="x")

    new = await imported(tenant, {"content": "new", "type": "fact", "key": "phone"})
    await expire(tenant.snapshots, pb.Memory(content="old", type="fact", key="fax"))
    changed = await imported(
        tenant,
        {"content": "changes its key", "type": "fact", "key": "fax", "external_id": "x"},
        mode="IMPORT_MODE_OVERWRITE",
    )

    assert (new, changed) == ({"created": {"memory": 1}}, {"updated": {"memory": 1}})
    assert await contents(tenant, filter=pb.MemoryFilter(key="phone")) == ["new"]
    assert await contents(tenant, filter=pb.MemoryFilter(key="fax")) == ["changes its key"]


async def portion(tenant: Tenant, *memories: dict[str, Any], mode: str = "MERGE") -> tuple[dict[str, int], list[str]]:
    """Import memories; return counts by outcome, and the reasons of the lines that were refused."""
    lines = "\n".join(json.dumps({"memory": memory}) for memory in memories)
    request = snapshots_pb2.ImportDataRequest(lines=lines, mode=f"IMPORT_MODE_{mode}")
    response = await tenant.snapshots.ImportData(request)
    counts = {name: getattr(response.counts, name)["memory"] for name in ("created", "updated", "unchanged")}
    return {name: count for name, count in counts.items() if count}, [error.reason for error in response.errors]


PHONE: dict[str, Any] = {"type": "fact", "key": "phone"}
OVER = {**PHONE, "content": "the old number", "expire_time": "2024-01-01T00:00:00Z"}


async def test_an_import_that_is_refused_a_name_leaves_the_expired_memory_as_it_was(tenant: Tenant) -> None:
    gone = await tenant.create_memory("old", external_id="x")
    await expire(tenant.snapshots, gone)
    new = await tenant.create_memory("its successor", external_id="x")

    done = await portion(tenant, {"memory_id": gone.memory_id, "content": "new"}, mode="OVERWRITE")

    assert done == ({}, ["EXTERNAL_ID_TAKEN"])
    with refused(NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=gone.memory_id))
    assert (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="x"))).memory.memory_id == new.memory_id
    assert await contents(tenant) == ["its successor"]


async def test_an_import_takes_an_external_id_back_from_a_successor_that_has_expired(tenant: Tenant) -> None:
    gone = await tenant.create_memory("old", external_id="x")
    await expire(tenant.snapshots, gone)
    await expire(tenant.snapshots, await tenant.create_memory("its successor", external_id="x"))

    done = await portion(tenant, {"memory_id": gone.memory_id, "content": "new"}, mode="OVERWRITE")

    assert done == ({"updated": 1}, [])
    assert (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="x"))).memory.memory_id == gone.memory_id


@pytest.mark.parametrize("mode", ["MERGE", "OVERWRITE", "SKIP_EXISTING"])
async def test_an_expired_fact_never_replaces_the_live_one_of_its_key(tenant: Tenant, mode: str) -> None:
    await tenant.create_memory("the number", **PHONE)

    done = await portion(tenant, {**OVER, "update_time": "2100-01-01T00:00:00Z"}, mode=mode)

    assert done == ({"created": 1}, [])
    assert await contents(tenant) == ["the number"]
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await tenant.create_memory("another number", **PHONE)


@pytest.mark.parametrize("expired_first", [True, False])
async def test_one_portion_holds_expired_facts_and_the_live_one_of_their_key(
    tenant: Tenant, *, expired_first: bool
) -> None:
    live = {**PHONE, "key": "Phone", "content": "the number", "external_id": "live"}
    expired = [{**OVER, "external_id": f"over-{n}"} for n in range(2)]
    facts = [*expired, live] if expired_first else [live, *expired]

    first = await portion(tenant, *facts)
    again = await portion(tenant, *facts)

    assert (first, again) == (({"created": 3}, []), ({"unchanged": 3}, []))
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await tenant.create_memory("another number", **PHONE)


async def test_importing_an_expired_fact_again_changes_nothing(tenant: Tenant) -> None:
    first = await portion(tenant, OVER)
    again = await portion(tenant, OVER)

    assert (first, again) == (({"created": 1}, []), ({"unchanged": 1}, []))


async def test_expired_facts_whose_keys_differ_in_case_are_one(tenant: Tenant) -> None:
    first = await portion(tenant, OVER)
    other = await portion(tenant, {**OVER, "key": "Phone", "content": "another"})

    assert (first, other) == (({"created": 1}, []), ({"unchanged": 1}, []))
    assert (await tenant.create_memory("the number", **PHONE)).key == "phone"


async def test_an_expired_fact_may_be_moved_to_a_key_that_is_taken(tenant: Tenant) -> None:
    await tenant.create_memory("the number", **PHONE)
    await portion(tenant, {**OVER, "key": "fax", "external_id": "x"})

    done = await portion(tenant, {**OVER, "external_id": "x"}, mode="OVERWRITE")

    assert done == ({"updated": 1}, [])
    assert (await tenant.create_memory("a fax", type="fact", key="fax")).key == "fax"
    assert set(await contents(tenant)) == {"the number", "a fax"}


async def test_a_fact_that_comes_back_takes_the_place_of_the_one_with_its_key_in_another_case(tenant: Tenant) -> None:
    await portion(tenant, {**OVER, "external_id": "x"})
    await tenant.create_memory("the number", type="fact", key="Phone")

    back = {**PHONE, "content": "back", "external_id": "x"}
    done = await portion(tenant, back, {"content": "stored all the same"}, mode="OVERWRITE")

    assert done == ({"created": 1, "updated": 1}, [])
    assert set(await contents(tenant)) == {"back", "stored all the same"}


async def test_a_batch_that_keeps_times_holds_expired_facts_and_the_live_one_of_their_key(tenant: Tenant) -> None:
    over = [pb.Memory(content=f"number {n}", **PHONE, expire_time=Timestamp(seconds=1_600_000_000)) for n in range(2)]
    live = pb.Memory(content="the number", **PHONE)

    for batch in ([*over, live], over):
        request = pb.BatchCreateMemoriesRequest(memories=batch, keep_times=True)
        assert len((await tenant.memory.BatchCreateMemories(request)).memories) == len(batch)

    assert await contents(tenant) == ["the number"]
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN") as caught:
        request = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content="a"), *over, live], keep_times=True)
        await tenant.memory.BatchCreateMemories(request)
    assert facts_of(caught.value)["index"] == "3"


async def test_an_export_holds_nothing_that_has_expired_or_names_it(tenant: Tenant) -> None:
    gone, kept, _ = await surroundings(tenant)
    await expire(tenant.snapshots, gone)

    assert [list(item) for item in await exported(tenant)] == [["memory"]]
    assert (await exported(tenant))[0]["memory"]["memory_id"] == kept.memory_id


@pytest.mark.system
async def test_a_snapshot_neither_takes_nor_brings_back_what_has_expired(tenant: Tenant) -> None:
    early = await tenant.create_memory("expired before", external_id="early")
    # Time for a round, a snapshot and a change before it.
    expire_time = stamp(datetime.now(UTC) + 4 * _MOMENT)
    late = await tenant.create_memory("expires after", external_id="late", expire_time=expire_time)
    longer = await tenant.create_memory("gets more time", external_id="longer", expire_time=late.expire_time)
    await expire(tenant.snapshots, early)

    taken = await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="s"))
    await update(tenant, longer.memory_id, expire_time=stamp(datetime(2100, 1, 1, tzinfo=UTC)))
    await until_gone(tenant, "late")
    for replaces in (False, True):
        request = snapshots_pb2.RestoreSnapshotRequest(snapshot_id=taken.snapshot.snapshot_id, replace=replaces)
        restored = await tenant.snapshots.RestoreSnapshot(request)
        while restored.next_page_token:
            request.page_token = restored.next_page_token
            restored = await tenant.snapshots.RestoreSnapshot(request)
        # Neither did the restore take away what got more time since.
        assert await contents(tenant, show_deleted=True) == ["gets more time"]

    assert dict(taken.snapshot.item_counts) == {"memory": 2}
    assert (await update(tenant, "longer", title="t")).expire_time.seconds == int(
        datetime(2100, 1, 1, tzinfo=UTC).timestamp()
    )


@pytest.mark.system
async def test_a_read_as_of_a_time_before_the_expiry_shows_it(tenant: Tenant) -> None:
    memory = await tenant.create_memory("soon over", external_id="x", expire_time=stamp(datetime.now(UTC) + _MOMENT))
    kept = await tenant.create_memory("kept")
    await link(tenant, kept.memory_id, memory.memory_id)
    before = stamp(datetime.now(UTC))
    await until_gone(tenant, "x")

    then = await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="x", as_of_time=before))
    links = await tenant.links.ListLinks(pb.ListLinksRequest(memory_id=kept.memory_id, as_of_time=before))

    assert then.memory.content == "soon over"
    assert set(await contents(tenant, as_of_time=before)) == {"soon over", "kept"}
    assert [one.to_memory_id for one in links.links] == [memory.memory_id]
    after = stamp(datetime.now(UTC))
    assert await contents(tenant, as_of_time=after) == ["kept"]
    with refused(NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="x", as_of_time=after))


@pytest.mark.system
async def test_the_former_memory_of_a_reused_external_id_is_read_by_its_own_id(tenant: Tenant) -> None:
    expire_time = stamp(datetime.now(UTC) + _MOMENT)
    old = await tenant.create_memory("the old number", external_id="x", expire_time=expire_time)
    before = stamp(datetime.now(UTC))
    await until_gone(tenant, "x")
    new = await tenant.create_memory("the new number", external_id="x")

    then = await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=old.memory_id, as_of_time=before))
    now = await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="x"))

    assert (then.memory.content, then.memory.external_id) == ("the old number", "x")
    assert now.memory.memory_id == new.memory_id
    with refused(NOT_FOUND, "MEMORY_NOT_KNOWN_THEN"):
        await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="x", as_of_time=before))
    named = pb.MemoryFilter(where='external_id = "x"')
    assert await contents(tenant, as_of_time=before, filter=named) == []
    assert await contents(tenant, as_of_time=before) == ["the old number"]


async def test_forgetting_softly_leaves_what_has_expired_and_purging_takes_it(tenant: Tenant) -> None:
    gone = await tenant.create_memory("gone", subject_id="ann")
    await expire(tenant.snapshots, gone)
    selection = pb.MemorySelection(filter=pb.MemoryFilter(subject_id="ann"))

    soft = await tenant.memory.DeleteMemories(pb.DeleteMemoriesRequest(selection=selection))
    purged = await tenant.memory.PurgeMemories(pb.PurgeMemoriesRequest(selection=selection))

    assert list(soft.memory_ids) == []
    assert list(purged.receipt.memory_ids) == [gone.memory_id]


async def test_the_grace_of_expired_memories_has_bounds(tenant: Tenant) -> None:
    for hours, is_valid in ((0, True), (8760, True), (8761, False), (-1, False)):
        policy = subjects_pb2.Policy(expiry_grace_hours=hours)
        request = subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=FieldMask(paths=["expiry_grace_hours"]))
        if is_valid:
            assert (await tenant.tenancy.UpdatePolicy(request)).policy.expiry_grace_hours == hours
        else:
            with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
                await tenant.tenancy.UpdatePolicy(request)


# How long a memory lives that a test sees expire.
_MOMENT = timedelta(milliseconds=1500)


async def until_gone(tenant: Tenant, memory_id: str) -> None:
    async with asyncio.timeout(60):
        while (await tenant.memory.BatchGetMemories(pb.BatchGetMemoriesRequest(memory_ids=[memory_id]))).memories:
            await asyncio.sleep(0.05)
