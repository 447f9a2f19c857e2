from __future__ import annotations

import itertools
import math
import random

from fix_catalogue import over

from skein.memory.v1 import memory_pb2
from skein_gateway.console.browser_sessions import KEY_SESSION_SECONDS, KeySessions, safe_redirect_path
from skein_gateway.console.graph_layout import layout_graph


def walked(count: int, seed: int) -> memory_pb2.GetSubgraphResponse:
    """Return a graph as a walk finds it: each memory hangs on an earlier one, and some links lead across."""
    chance = random.Random(seed)
    get_subgraph_response = memory_pb2.GetSubgraphResponse()
    hops = [0]
    get_subgraph_response.nodes.add(memory_id="0", title="the middle")
    for number in range(1, count):
        above = chance.randrange(max(1, number // 2))
        hops.append(hops[above] + 1)
        link = get_subgraph_response.links.add(link_id=str(number), relation=chance.choice(("supports", "causes")))
        link.from_memory_id, link.to_memory_id = chance.sample((str(above), str(number)), 2)
        get_subgraph_response.nodes.add(memory_id=str(number), title="x" * 50, hop=hops[-1], via_link_id=link.link_id)
    get_subgraph_response.nodes.sort(key=lambda node: node.hop)
    for number in range(count // 4):
        start, end = chance.sample(range(count), 2)
        get_subgraph_response.links.add(
            link_id=f"more {number}", relation="related", from_memory_id=str(start), to_memory_id=str(end)
        )
    return get_subgraph_response


@over("count", [1, 2, 3, 8, 20, 80])
@over("seed", [1, 2, 3])
def test_no_memory_stands_on_another_and_all_are_within_the_drawing(count: int, seed: int) -> None:
    drawing = layout_graph(walked(count, seed))

    for one, other in itertools.combinations(drawing.nodes, 2):
        assert math.dist((one.x, one.y), (other.x, other.y)) > one.radius + other.radius
    for node in drawing.nodes:
        assert drawing.left < node.x < drawing.left + drawing.width
        assert drawing.top < node.y < drawing.top + drawing.height
    assert (len(drawing.nodes), math.isfinite(drawing.width)) == (count, True)


def test_equal_graphs_are_drawn_alike() -> None:
    assert layout_graph(walked(30, 7)) == layout_graph(walked(30, 7))


def test_links_between_the_same_memories_are_drawn_apart() -> None:
    result = walked(2, 1)
    for number in range(3):
        result.links.add(link_id=f"again {number}", relation="related", from_memory_id="0", to_memory_id="1")
    result.links.add(link_id="back", relation="related", from_memory_id="1", to_memory_id="0")

    paths = [edge.path for edge in layout_graph(result).edges]

    assert len(set(paths)) == len(paths) == 5


def test_a_graph_of_many_beginnings_is_drawn() -> None:
    get_subgraph_response = memory_pb2.GetSubgraphResponse(
        nodes=[memory_pb2.GraphNode(memory_id=str(number)) for number in range(3)],
        inferred_links=[memory_pb2.InferredLink(from_memory_id="0", to_memory_id="2"), memory_pb2.InferredLink()],
    )

    drawing = layout_graph(get_subgraph_response)

    assert (len(drawing.nodes), len(drawing.edges)) == (3, 1)


@over(
    "path",
    ["/console/x", "/console/x/memory?id=%2F%2Fa&page=b", "/console/a-b/search?q=a+b", "/console/a/search?q=hm..+so*"],
)
def test_a_page_of_the_console_is_ours(path: str) -> None:
    assert safe_redirect_path(path) == path


@over(
    "path",
    [
        "",
        "/",
        "//x",
        "/console",
        "/console/",
        "/console/../x",
        "/console/%2e%2e/x",
        "/console/.%2E/x",
        "/console//x",
        "/console/\\x",
        "/console/x\n",
        "https:x",
        "/oauth",
    ],
)
def test_every_other_path_is_not(path: str) -> None:
    assert safe_redirect_path(path) == "/"


def test_a_key_session_returns_its_key_until_it_expires() -> None:
    now = [0.0]
    keys = KeySessions(clock=lambda: now[0])
    session_id = keys.create("the key", "a tenant")

    results = [keys.key_of(session_id), keys.key_of("another"), keys.key_of("")]
    now[0] = KEY_SESSION_SECONDS
    late = keys.key_of(session_id)

    assert (results, late) == (["the key", "", ""], "")


def test_beyond_the_limit_the_oldest_key_session_is_revoked() -> None:
    keys = KeySessions()
    session_ids = [keys.create(str(number), str(number)) for number in range(1001)]

    assert (keys.key_of(session_ids[0]), keys.key_of(session_ids[1]), keys.key_of(session_ids[-1])) == ("", "1", "1000")


def test_a_tenant_of_many_keys_drives_out_its_own() -> None:
    keys = KeySessions()
    other = keys.create("theirs", "another tenant")
    first = keys.create("mine", "a tenant")
    revoked = keys.revocation(first)

    for _ in range(50):
        keys.create("mine", "a tenant")

    assert (keys.key_of(other), keys.key_of(first), keys.revocation(first)) == ("theirs", "", None)
    assert revoked is not None
    assert revoked.is_set()


def test_memories_that_much_joins_are_drawn_with_a_few_links() -> None:
    result = walked(2, 1)
    for number in range(2000):
        result.links.add(link_id=f"x{number}", relation=f"relation {number}", from_memory_id="0", to_memory_id="1")
    result.links.add(link_id="y", relation="relation 1999", from_memory_id="0", to_memory_id="1")

    drawing = layout_graph(result)

    assert (len(drawing.edges), len(drawing.legend)) == (9, 16)
    assert ("relation 1999", 2) in [(relation, count) for relation, _, count in drawing.legend]
