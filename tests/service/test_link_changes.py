"""Links that are upserted, changed, stored in batches, and read as they once were."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, cast

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import ErrorInfo
from grpc import aio
from grpc_status import rpc_status

from skein.memory.v1 import memory_pb2 as pb
from skein.tenancy.v1 import limits_pb2


def facts_of(error: aio.AioRpcError) -> Mapping[str, str]:
    """Return the metadata of a refusal."""
    status = rpc_status.from_call(cast("Any", error))
    assert status is not None
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    return dict(info.metadata)


async def memories(tenant: Tenant, *names: str) -> list[str]:
    request = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content=name, external_id=name) for name in names])
    return [memory.memory_id for memory in (await tenant.memory.BatchCreateMemories(request)).memories]


def between(start: str, end: str, **fields: Any) -> pb.Link:
    return pb.Link(from_memory_id=start, to_memory_id=end, **fields)


async def create(tenant: Tenant, start: str, end: str, **fields: Any) -> pb.Link:
    return (await tenant.links.CreateLink(pb.CreateLinkRequest(link=between(start, end, **fields)))).link


async def upsert(tenant: Tenant, start: str, end: str, *, either: bool = False, **fields: Any) -> pb.UpsertLinkResponse:
    request = pb.UpsertLinkRequest(link=between(start, end, **fields), either_direction=either)
    return await tenant.links.UpsertLink(request)


async def update(tenant: Tenant, link_id: str, *paths: str, revision: int = 0, **fields: Any) -> pb.Link:
    request = pb.UpdateLinkRequest(
        link=pb.Link(link_id=link_id, revision=revision, **fields), update_mask=FieldMask(paths=paths)
    )
    return (await tenant.links.UpdateLink(request)).link


async def moment() -> Timestamp:
    """Return a time that lies after what was done before and before what is done next."""
    stamp = Timestamp()
    stamp.FromDatetime(datetime.now(UTC))
    return stamp


async def event_types(cluster: Cluster, tenant: Tenant) -> list[tuple[str, str]]:
    async with cluster.superuser() as connection:
        rows = await connection.fetch(
            "SELECT event_type, entity_id, summary, payload FROM memory.changes "
            "WHERE tenant_id = $1 AND entity_type = 'link' ORDER BY transaction, change_id",
            tenant.tenant_id,
        )
    assert all("secret" not in f"{row['summary']}{row['payload']}" for row in rows)
    return [(row["event_type"], row["entity_id"]) for row in rows]


async def used(tenant: Tenant) -> int:
    usage = await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest())
    return next((one.used for one in usage.usage if one.kind == "links"), 0)


async def test_an_upserted_link_is_made_once_and_changed_then(tenant: Tenant) -> None:
    a, b = await memories(tenant, "a", "b")

    first = await upsert(tenant, "a", "b", label="one", weight=0.5)
    same = await upsert(tenant, a, b, label="one", weight=0.5)
    changed = await upsert(tenant, a, b, label="two")

    assert (first.created, same.created, changed.created) == (True, False, False)
    assert same.link == first.link
    assert (changed.link.link_id, changed.link.revision) == (first.link.link_id, 2)
    assert (changed.link.label, changed.link.weight) == ("two", 1.0)
    assert changed.link.update_time.ToDatetime() > changed.link.create_time.ToDatetime()
    assert await tenant.list_links(a) == [changed.link]


async def test_metadata_that_is_given_again_is_no_change(tenant: Tenant) -> None:
    await memories(tenant, "a", "b")
    metadata = Struct()
    metadata.update({"z": 1, "a": [1, {"b": None}]})

    first = await upsert(tenant, "a", "b", metadata=metadata)
    again = await upsert(tenant, "a", "b", metadata=metadata)

    assert again.link == first.link


async def test_a_link_of_the_other_direction_is_another_unless_direction_does_not_matter(tenant: Tenant) -> None:
    await memories(tenant, "a", "b")
    there = await upsert(tenant, "a", "b", label="there")

    back = await upsert(tenant, "b", "a", label="either", either=True)
    other = await upsert(tenant, "b", "a", label="back")

    assert (back.created, back.link.link_id, back.link.label) == (False, there.link.link_id, "either")
    assert back.link.from_memory_id == there.link.from_memory_id
    assert other.created


async def test_one_of_many_upserts_at_once_makes_the_link(tenant: Tenant) -> None:
    await memories(tenant, "a", "b")

    answers = await asyncio.gather(
        *(upsert(tenant, *ends, either=True, label=f"{n}{ends}") for n in range(4) for ends in (("a", "b"), ("b", "a")))
    )

    assert sum(answer.created for answer in answers) == 1
    assert len({answer.link.link_id for answer in answers}) == 1
    (result,) = await tenant.list_links("a")
    assert result.revision == 8
    assert await used(tenant) == 1


async def test_a_relation_that_the_pair_has_is_not_taken(tenant: Tenant) -> None:
    await memories(tenant, "a", "b")
    made, _ = await create(tenant, "a", "b"), await create(tenant, "a", "b", relation="causes")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "LINK_EXISTS"):
        await update(tenant, made.link_id, "relation", relation="causes")


@pytest.mark.parametrize(
    ("paths", "fields", "reason"),
    [
        ((), {"label": "x"}, "UPDATE_MASK_INVALID"),
        (("from_memory_id",), {"from_memory_id": "b"}, "UPDATE_MASK_INVALID"),
        (("revision",), {"revision": 7}, "UPDATE_MASK_INVALID"),
        (("label",), {"label": "\0"}, "TEXT_NOT_STORABLE"),
        (("weight",), {"weight": 2.0}, "INVALID_FIELD"),
    ],
)
async def test_a_change_obeys_the_rules(
    tenant: Tenant, paths: tuple[str, ...], fields: dict[str, Any], reason: str
) -> None:
    await memories(tenant, "a", "b")
    made = await create(tenant, "a", "b")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, reason):
        await update(tenant, made.link_id, *paths, **fields)


async def test_a_batch_stores_all_links_or_none(tenant: Tenant) -> None:
    names = [f"n{n}" for n in range(40)]
    await memories(tenant, *names)
    chain = [between(start, end) for start, end in pairwise(names)]

    made = await tenant.links.BatchCreateLinks(pb.BatchCreateLinksRequest(links=chain))
    fresh = [between("n0", "n5", relation="causes"), chain[3]]
    with refused(grpc.StatusCode.ALREADY_EXISTS, "LINK_EXISTS") as caught:
        await tenant.links.BatchCreateLinks(pb.BatchCreateLinksRequest(links=fresh))

    assert len(made.links) == 39
    assert [link.to_memory_id for link in made.links[:-1]] == [link.from_memory_id for link in made.links[1:]]
    assert facts_of(caught.value)["index"] == "1"
    assert await tenant.list_links("n0") == [made.links[0]]
    assert await used(tenant) == 39


@pytest.mark.parametrize(
    ("links", "code", "reason"),
    [
        ([], grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        ([between("a", "b")] * 1001, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        ([between("a", "b"), between("a", "b")], grpc.StatusCode.INVALID_ARGUMENT, "DUPLICATE_IN_BATCH"),
        ([between("a", "b"), between("b", "b")], grpc.StatusCode.INVALID_ARGUMENT, "LINK_TO_ITSELF"),
        ([between("a", "b"), between("a", "nobody")], grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"),
    ],
)
async def test_a_batch_obeys_the_rules(
    tenant: Tenant, links: list[pb.Link], code: grpc.StatusCode, reason: str
) -> None:
    await memories(tenant, "a", "b")

    with refused(code, reason):
        await tenant.links.BatchCreateLinks(pb.BatchCreateLinksRequest(links=links))

    assert await tenant.list_links("a") == []


async def test_links_are_listed_as_they_were_at_a_time(tenant: Tenant) -> None:
    await memories(tenant, "hub", "a", "b", "c")
    before = await moment()
    one = await create(tenant, "hub", "a", label="one", weight=0.25, relation="causes")
    two = await create(tenant, "b", "hub", label="two")
    first = await moment()
    one_later = await update(tenant, one.link_id, "label", "weight", label="one, later", weight=0.75)
    await tenant.links.DeleteLink(pb.DeleteLinkRequest(link_id=two.link_id))
    three = await create(tenant, "hub", "c", label="three")
    second = await moment()
    await tenant.links.DeleteLink(pb.DeleteLinkRequest(link_id=one.link_id))

    assert await tenant.list_links("hub", as_of_time=before) == []
    assert await tenant.list_links("hub", as_of_time=first) == [two, one]
    assert await tenant.list_links("b", as_of_time=first) == [two]
    assert await tenant.list_links("hub", as_of_time=second) == [three, one_later]
    assert await tenant.list_links("hub") == [three]
    assert await tenant.list_links("hub", as_of_time=first, direction=pb.LINK_DIRECTION_OUTGOING) == [one]
    assert await tenant.list_links("hub", as_of_time=first, relations=["causes"]) == [one]
    assert await tenant.list_links("hub", as_of_time=first, min_weight=0.5) == [two]


async def test_a_link_s_history_is_paged_through(tenant: Tenant) -> None:
    names = [f"n{n}" for n in range(7)]
    await memories(tenant, "hub", *names)
    made = [await create(tenant, "hub", name) for name in names]
    then = await moment()
    for link in made[::2]:
        await update(tenant, link.link_id, "label", label="changed")
    for link in made[::3]:
        await tenant.links.DeleteLink(pb.DeleteLinkRequest(link_id=link.link_id))

    assert await tenant.list_links("hub", as_of_time=then) == made[::-1]


async def test_lists_are_restricted_by_relations_and_weight(tenant: Tenant) -> None:
    await memories(tenant, "hub", "a", "b", "c")
    weak = await create(tenant, "hub", "a", relation="causes", weight=0.2)
    strong = await create(tenant, "hub", "b", relation="causes", weight=0.9)
    other = await create(tenant, "c", "hub", relation="supports", weight=0.5)

    assert await tenant.list_links("hub", relations=["causes", "supports"]) == [other, strong, weak]
    assert await tenant.list_links("hub", relation="supports", relations=["causes"]) == [other, strong, weak]
    assert await tenant.list_links("hub", relations=["causes"], min_weight=0.5) == [strong]
    assert await tenant.list_links("hub", min_weight=0.5) == [other, strong]
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.list_links("hub", min_weight=1.5)


async def test_the_log_tells_of_every_change_and_of_no_content(cluster: Cluster, tenant: Tenant) -> None:
    await memories(tenant, "a", "b", "c")
    made = await create(tenant, "a", "b", label="secret")
    await update(tenant, made.link_id, "label", label="secret two")
    put = (await upsert(tenant, "b", "c", label="secret")).link
    await upsert(tenant, "b", "c", label="secret")
    await upsert(tenant, "b", "c", label="secret three")
    (batched,) = (
        await tenant.links.BatchCreateLinks(pb.BatchCreateLinksRequest(links=[between("c", "a", label="secret")]))
    ).links
    await tenant.links.DeleteLink(pb.DeleteLinkRequest(link_id=made.link_id))

    assert await event_types(cluster, tenant) == [
        ("memory_link_created", made.link_id),
        ("memory_link_updated", made.link_id),
        ("memory_link_created", put.link_id),
        ("memory_link_updated", put.link_id),
        ("memory_link_created", batched.link_id),
        ("memory_link_removed", made.link_id),
    ]


async def test_links_are_counted_as_they_come_and_go(cluster: Cluster, tenant: Tenant) -> None:
    operator = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    request = limits_pb2.UpdateQuotaRequest(quota=limits_pb2.Quota(links=2), update_mask=FieldMask(paths=["links"]))
    await operator.tenancy.UpdateQuota(request)
    await memories(tenant, "a", "b", "c")
    made = await create(tenant, "a", "b")
    await upsert(tenant, "a", "b", label="changed")
    await upsert(tenant, "b", "c")
    batch = pb.BatchCreateLinksRequest(links=[between("c", "a"), between("c", "b")])

    for more in (create(tenant, "a", "c"), upsert(tenant, "a", "c"), tenant.links.BatchCreateLinks(batch)):
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
            await more
    await tenant.links.DeleteLink(pb.DeleteLinkRequest(link_id=made.link_id))

    assert (await upsert(tenant, "a", "c")).created
    assert len(await tenant.list_links("a")) == 1
