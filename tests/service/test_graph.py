"""Walks along links: neighbours, subgraphs, paths, activation, suggestions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from fix_expiry import expire
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2 as pb
from skein.tenancy.v1 import subjects_pb2

HUB_LINKS = 3000


async def memories(tenant: Tenant, *names: str, **fields: Any) -> dict[str, str]:
    """Make memories with these external ids; return their ids by name."""
    ids: dict[str, str] = {}
    for start in range(0, len(names), 500):
        portion = names[start : start + 500]
        made = [pb.Memory(content=f"about {name}", external_id=name, title=name, **fields) for name in portion]
        stored = await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=made))
        ids |= {memory.external_id: memory.memory_id for memory in stored.memories}
    return ids


async def links(tenant: Tenant, *pairs: str, **fields: Any) -> None:
    """Link memories by names such as "a>b"."""
    made = []
    for pair in pairs:
        start, _, end = pair.partition(">")
        made.append(pb.Link(from_memory_id=start, to_memory_id=end, **fields))
    for start_ in range(0, len(made), 1000):
        await tenant.links.BatchCreateLinks(pb.BatchCreateLinksRequest(links=made[start_ : start_ + 1000]))


def titles(nodes: Any) -> list[str]:
    return [node.title for node in nodes]


async def traverse(tenant: Tenant, memory_id: str, **fields: Any) -> pb.TraverseLinksResponse:
    return await tenant.links.TraverseLinks(pb.TraverseLinksRequest(memory_id=memory_id, **fields))


async def subgraph(tenant: Tenant, *memory_ids: str, **fields: Any) -> pb.GetSubgraphResponse:
    return await tenant.links.GetSubgraph(pb.GetSubgraphRequest(memory_ids=memory_ids, **fields))


async def paths(tenant: Tenant, start: str, end: str, **fields: Any) -> tuple[list[str], bool]:
    """Return paths as their titles run together, and whether there may be others."""
    request = pb.FindPathsRequest(from_memory_id=start, to_memory_id=end, **fields)
    response = await tenant.links.FindPaths(request)
    names = {node.memory_id: node.title for node in response.nodes}
    for path in response.paths:
        assert len(path.links) == len(path.memory_ids) - 1
    return ["".join(names[memory_id] for memory_id in path.memory_ids) for path in response.paths], response.truncated


async def test_a_walk_meets_the_nearest_first_and_tells_how(tenant: Tenant) -> None:
    ids = await memories(tenant, *"abcde")
    await links(tenant, "a>b", "c>b", "c>d", "d>e")

    near = await traverse(tenant, "a")
    far = await traverse(tenant, ids["a"], hops=3)

    assert titles(near.nodes) == ["a", "b"]
    assert [(node.title, node.hop) for node in far.nodes] == [("a", 0), ("b", 1), ("c", 2), ("d", 3)]
    by_id = {link.link_id: {link.from_memory_id, link.to_memory_id} for link in far.links}
    assert [by_id[node.via_link_id] for node in far.nodes[1:]] == [{ids[x], ids[y]} for x, y in ("ab", "bc", "cd")]
    assert far.nodes[0].via_link_id == ""
    assert len(far.links) == 3
    assert not near.truncated
    assert not far.truncated


async def test_all_links_among_the_memories_met_are_there(tenant: Tenant) -> None:
    await memories(tenant, *"abc")
    await links(tenant, "a>b", "a>c", "b>c", "c>b")
    await links(tenant, "b>c", relation="causes", label="why")

    result = await traverse(tenant, "a")

    assert len(result.links) == 5
    assert {link.label for link in result.links} == {"", "why"}


async def test_a_traversal_follows_the_links_of_its_filter(tenant: Tenant) -> None:
    await memories(tenant, *"abcd")
    await links(tenant, "a>b", relation="causes", weight=0.9)
    await links(tenant, "c>a", relation="supports", weight=0.5)
    await links(tenant, "a>d", relation="mentors", weight=0.1)

    async def traversed_titles(**conditions: Any) -> set[str]:
        return set(titles((await traverse(tenant, "a", filter=pb.LinkFilter(**conditions))).nodes)) - {"a"}

    assert await traversed_titles() == {"b", "c", "d"}
    assert await traversed_titles(direction=pb.LINK_DIRECTION_OUTGOING) == {"b", "d"}
    assert await traversed_titles(direction=pb.LINK_DIRECTION_INCOMING) == {"c"}
    assert await traversed_titles(relations=["causes", "mentors"]) == {"b", "d"}
    assert await traversed_titles(min_weight=0.5) == {"b", "c"}
    assert await traversed_titles(relations=["causes", "mentors"], min_weight=0.5) == {"b"}
    assert await traversed_titles(relations=["nobody uses this"]) == set()


async def test_memories_that_are_deleted_archived_or_expired_are_not_met(tenant: Tenant) -> None:
    await memories(tenant, *"abcdef")
    await links(tenant, "a>b", "a>c", "a>d", "a>e", "b>f")
    past = Timestamp()
    past.FromDatetime(datetime.now(UTC) - timedelta(minutes=1))
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id="b"))
    archived = pb.Memory(memory_id="c", archive_time=past)
    await tenant.memory.UpdateMemory(
        pb.UpdateMemoryRequest(memory=archived, update_mask=FieldMask(paths=["archive_time"]))
    )
    await expire(tenant.snapshots, (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="d"))).memory)

    assert titles((await traverse(tenant, "a", hops=2)).nodes) == ["a", "e"]
    assert titles((await subgraph(tenant, "a")).nodes) == ["a", "e"]
    assert await paths(tenant, "a", "f") == ([], False)
    # A memory that is named by its id may be archived.
    assert titles((await traverse(tenant, "c")).nodes) == ["c", "a"]
    for name in ("b", "d"):
        with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
            await traverse(tenant, name)


@pytest.mark.system
async def test_complete_memories_come_when_asked_for_as_long_as_there_is_room(tenant: Tenant) -> None:
    names = [f"n{n}" for n in range(30)]
    made = [pb.Memory(content="x" * 90_000, external_id=name) for name in names]
    await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=made))
    await links(tenant, *(f"n0>{name}" for name in names[1:]))

    result = await traverse(tenant, "n0", include_memories=True)

    have = [node.HasField("memory") for node in result.nodes]
    assert len(have) == 30
    assert have == sorted(have, reverse=True)
    assert 10 < sum(have) < 30
    assert result.nodes[0].memory.external_id == "n0"
    assert not any(node.HasField("memory") for node in (await traverse(tenant, "n0")).nodes)


@pytest.mark.system
async def test_a_memory_with_thousands_of_links_gets_a_bounded_answer(tenant: Tenant) -> None:
    names = [f"n{n}" for n in range(HUB_LINKS)]
    await memories(tenant, "hub", "beyond", *names)
    await links(tenant, *(f"hub>{name}" for name in names[1:]), weight=0.5)
    await links(tenant, "n0>hub", weight=0.9)
    await links(tenant, "n7>beyond", relation="causes")

    default = await traverse(tenant, "hub")
    most = await traverse(tenant, "hub", hops=2, max_nodes=1000)
    drawn = await subgraph(tenant, "hub", max_nodes=500, infer_links=True)
    path_list, cut = await paths(tenant, "hub", "beyond")
    activated = await tenant.links.SpreadActivation(
        pb.SpreadActivationRequest(seeds=[pb.ActivationSeed(memory_id="hub")], hops=4)
    )
    rare = await traverse(tenant, "n7", hops=2, filter=pb.LinkFilter(relations=["causes"]))

    assert (len(default.nodes), default.truncated) == (80, True)
    # The strongest first, then the newest: ids of one batch ascend.
    assert default.nodes[1].title == "n0"
    assert (len(most.nodes), most.truncated) == (1000, True)
    assert (len(drawn.nodes), drawn.truncated) == (500, True)
    # From the other end the way is known, however many links there are here.
    assert (path_list, cut) == (["hubn7beyond"], True)
    assert (len(activated.memories), activated.truncated) == (80, True)
    assert (titles(rare.nodes), rare.truncated) == (["n7", "beyond"], False)


async def test_a_subgraph_has_the_policy_s_radius_and_links_that_tags_suggest(tenant: Tenant) -> None:
    await memories(tenant, *"ab", tags=["red", "hot"])
    await memories(tenant, *"cde", tags=["red"])
    await links(tenant, "a>b", "b>c", "c>d", "d>e")

    plain = await subgraph(tenant, "a")
    inferred = await subgraph(tenant, "a", "e", infer_links=True)

    assert titles(plain.nodes) == ["a", "b", "c"]
    assert list(plain.inferred_links) == []
    names = {node.memory_id: node.title for node in inferred.nodes}
    suggested = [
        (names[one.from_memory_id] + names[one.to_memory_id], one.shared_tag_count) for one in inferred.inferred_links
    ]
    assert sorted(suggested) == [("ac", 1), ("ad", 1), ("ae", 1), ("bd", 1), ("be", 1), ("ce", 1)]
    assert list(inferred.inferred_links[0].shared_tags) == ["red"]
    assert inferred.inferred_links[0].weight == pytest.approx(1 / 3)


async def test_the_policy_says_how_far_walks_go_and_what_is_suggested(tenant: Tenant) -> None:
    policy = subjects_pb2.Policy(
        subgraph_default_radius=1, max_inferred_edges=2, path_max_hops=3, min_link_suggestion_score=0.9
    )
    paths_ = [field.name for field, _ in policy.ListFields()]
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=FieldMask(paths=paths_))
    )
    await memories(tenant, *"abcde", tags=["red"])
    await links(tenant, "a>b", "b>c", "c>d", "d>e")

    around = await subgraph(tenant, "a")
    wider = await subgraph(tenant, "a", radius=4, infer_links=True)

    assert (titles(around.nodes), around.truncated) == (["a", "b"], False)
    assert (len(wider.nodes), len(wider.inferred_links), wider.truncated) == (5, 2, True)
    assert await paths(tenant, "a", "d") == (["abcd"], False)
    assert await paths(tenant, "a", "e") == ([], False)
    assert await paths(tenant, "a", "e", max_hops=4) == (["abcde"], False)
    suggested = await tenant.links.SuggestLinks(pb.SuggestLinksRequest(memory_id="a"))
    assert list(suggested.suggestions) == []


async def test_paths_come_shortest_first_then_by_strength(tenant: Tenant) -> None:
    await memories(tenant, *"abcdef")
    await links(tenant, "a>b", "b>f", "c>f", weight=0.5)
    await links(tenant, "a>c", weight=0.9)
    await links(tenant, "c>d", "e>d", "e>f")

    result, cut = await paths(tenant, "a", "f")

    assert (result, cut) == (["acf", "abf", "acdef"], False)
    assert await paths(tenant, "a", "f", max_paths=1) == (["acf"], True)
    assert await paths(tenant, "a", "f", max_hops=2) == (["acf", "abf"], False)
    assert await paths(tenant, "a", "f", max_hops=1) == ([], False)
    outgoing = pb.LinkFilter(direction=pb.LINK_DIRECTION_OUTGOING)
    assert await paths(tenant, "a", "f", filter=outgoing) == (["acf", "abf"], False)
    assert await paths(tenant, "f", "a", filter=outgoing) == ([], False)
    incoming = pb.LinkFilter(direction=pb.LINK_DIRECTION_INCOMING)
    assert await paths(tenant, "f", "a", filter=incoming) == (["fca", "fba"], False)
    assert await paths(tenant, "a", "f", filter=pb.LinkFilter(min_weight=0.9)) == (["acdef"], False)


async def test_no_path_leads_from_a_memory_to_itself_or_to_another_tenant_s(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    ids = await memories(tenant, "a", "b")
    theirs = await memories(other_tenant, "c")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PATH_TO_ITSELF"):
        await paths(tenant, "a", ids["a"])
    for start, end in (("a", theirs["c"]), (theirs["c"], "a"), ("a", "nobody")):
        with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
            await paths(tenant, start, end)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await subgraph(tenant, "a", theirs["c"])
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.links.SuggestLinks(pb.SuggestLinksRequest(memory_id=theirs["c"]))
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        seed = pb.ActivationSeed(memory_id=theirs["c"])
        await tenant.links.SpreadActivation(pb.SpreadActivationRequest(seeds=[seed]))


async def test_activation_spreads_along_links_and_fades(tenant: Tenant) -> None:
    ids = await memories(tenant, *"abcde")
    await links(tenant, "a>b", relation="supports")
    await links(tenant, "b>c", relation="causes", weight=0.5)
    await links(tenant, "c>d")
    await links(tenant, "e>a", relation="contradicts")

    async def active(*seeds: pb.ActivationSeed, **fields: Any) -> dict[str, float]:
        found = await tenant.links.SpreadActivation(pb.SpreadActivationRequest(seeds=seeds, **fields))
        order = [memory.activation for memory in found.memories]
        assert order == sorted(order, reverse=True)
        return {memory.node.title: memory.activation for memory in found.memories}

    half = pb.ActivationSeed(memory_id=ids["a"], strength=0.5)
    found = await active(half, pb.ActivationSeed(memory_id="a"))
    b, c = 0.88 * 0.74, 0.88 * 0.74 * 0.82 * 0.5 * 0.74 * 0.78

    assert found == {"a": 1.0, "b": pytest.approx(b), "c": pytest.approx(c, abs=1e-6), "e": pytest.approx(-0.555)}
    assert set(await active(half, hops=1)) == {"a", "b", "e"}
    assert (await active(half))["b"] == pytest.approx(b / 2)
    outgoing = pb.LinkFilter(direction=pb.LINK_DIRECTION_OUTGOING)
    assert set(await active(half, hops=4, filter=outgoing)) == {"a", "b", "c", "d"}


@pytest.mark.system
async def test_links_are_suggested_with_memories_that_share_tags_and_why(tenant: Tenant) -> None:
    async def memory(name: str, content: str, *tags: str, **fields: Any) -> str:
        made = pb.Memory(external_id=name, title=name, content=content, tags=tags, **fields)
        return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=made))).memory.memory_id

    await memory("me", "the red kettle", "kitchen", "tea", "home", source="log")
    await memory("twin", "the red kettle", "kitchen", "tea", "home", source="log")
    await memory("cousin", "of something else", "kitchen")
    await memory("linked", "the red kettle", "kitchen", "tea")
    await memory("stranger", "the red kettle", "garden")
    await memory("gone", "the red kettle", "kitchen", "tea")
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id="gone"))
    await links(tenant, "linked>me")

    async def suggested(memory_id: str, **fields: Any) -> list[pb.LinkSuggestion]:
        request = pb.SuggestLinksRequest(memory_id=memory_id, **fields)
        return list((await tenant.links.SuggestLinks(request)).suggestions)

    (twin,) = await suggested("me", min_score=0.3)
    both = await suggested("me", min_score=0.0)

    assert (twin.title, list(twin.shared_tags), twin.relation) == ("twin", ["home", "kitchen", "tea"], "related")
    assert (twin.tag_score, twin.source_score, twin.type_score) == pytest.approx((0.45, 0.1, 0.05))
    parts = twin.tag_score + twin.word_score + twin.source_score + twin.time_score + twin.type_score
    assert twin.score == pytest.approx(parts, abs=1e-6)
    assert [one.title for one in both] == ["twin", "cousin"]
    assert await suggested("me", min_score=0.0, max_suggestions=1) == both[:1]
    assert await suggested("stranger") == []


@pytest.mark.parametrize(
    "fields", [{"hops": 5}, {"hops": -1}, {"max_nodes": 1001}, {"filter": pb.LinkFilter(min_weight=2)}]
)
async def test_walks_are_asked_for_within_their_limits(tenant: Tenant, fields: dict[str, Any]) -> None:
    await memories(tenant, "a")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await traverse(tenant, "a", **fields)


async def test_a_new_memory_names_what_to_link_it_with_when_asked(tenant: Tenant) -> None:
    await memories(tenant, *"abcdefg", tags=["red", "hot"])
    memory = pb.Memory(content="about kettles", tags=["red", "hot"])

    silent = await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))
    request = pb.CreateMemoryRequest(memory=memory, suggest_links=True, request_id="r")
    created = await tenant.memory.CreateMemory(request)

    assert list(silent.suggested_links) == []
    assert len(created.suggested_links) == 5
    assert created.suggested_links[0].memory_id == silent.memory.memory_id
    assert (await tenant.memory.CreateMemory(request)).suggested_links == created.suggested_links
    response = await tenant.links.SuggestLinks(pb.SuggestLinksRequest(memory_id=created.memory.memory_id))
    assert response.suggestions == created.suggested_links
