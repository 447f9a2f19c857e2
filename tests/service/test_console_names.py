"""What the console calls things: their content, not their ids; and what it folds away."""

from __future__ import annotations

import re
import uuid

import pytest
from fix_cluster import Tenant
from fix_console import BrowserSession
from fix_receipts import recall_with_receipt

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2

INVISIBLE = "\u200b"


async def talk(tenant: Tenant, session_id: str, *texts: str) -> list[session_pb2.Message]:
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=text) for text in texts]
    request = gateway_pb2.RememberRequest(session_id=session_id, messages=messages)
    return list((await tenant.gateway.Remember(request)).messages)


def shown(text: str) -> str:
    """Return the text that a page shows, without its markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


async def test_memories_without_a_title_are_called_by_their_text(web: BrowserSession, tenant: Tenant) -> None:
    kettle = await tenant.remember("The kettle is red.")
    lid = await tenant.remember(f"Its lid is {INVISIBLE}blue.")
    link = memory_pb2.Link(from_memory_id=kettle, relation="supports", to_memory_id=lid)
    await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))

    graph = await web.page("graph", id=kettle)
    memory = await web.page("memory", id=kettle)
    lineage = await web.page("lineage", id=kettle)

    assert "<h1>Links around <bdi>The kettle is red.</bdi></h1>" in graph.text
    assert '<h1 dir="auto">The kettle is red.</h1>' in memory.text
    assert "What <bdi>The kettle is red.</bdi> was made of" in lineage.text
    for page in (graph, memory):
        assert "Its lid is" in page.text
        assert INVISIBLE not in page.text
    # The id is a small line, and nowhere a name.
    assert not re.search(rf">\s*(?:<bdi>)?{lid}", graph.text + memory.text)
    assert f'<p class="facts id"><code>{kettle}</code></p>' in memory.text


async def test_a_subgraph_names_its_memories(tenant: Tenant) -> None:
    titled = await tenant.remember("The kettle is red.", title="Kettle")
    untitled = await tenant.remember("Its lid is blue. " * 30)
    request = memory_pb2.GetSubgraphRequest(memory_ids=[titled, untitled], radius=1)

    nodes = {node.memory_id: node for node in (await tenant.links.GetSubgraph(request)).nodes}

    assert (nodes[titled].name, nodes[titled].title) == ("Kettle", "Kettle")
    assert (nodes[untitled].name, nodes[untitled].title) == (("Its lid is blue. " * 30)[:200], "")


@pytest.mark.system
async def test_a_session_with_a_uuid_is_called_by_its_first_message(web: BrowserSession, tenant: Tenant) -> None:
    session_id = str(uuid.uuid4())
    await talk(tenant, session_id, "Where did I leave the kettle?", "And its lid?")

    overview, sessions = await web.page(), await web.page("sessions")
    session = await web.page("session", id=session_id)

    for page in (overview, sessions):
        assert "<bdi>Where did I leave the kettle?</bdi></a>" in page.text
        assert session_id not in shown(page.text)
    assert '<h1 dir="auto">Where did I leave the kettle?</h1>' in session.text
    assert f'<p class="facts id"><code><bdi>{session_id}</bdi></code></p>' in session.text


async def test_a_hit_leads_to_its_message_wherever_that_is_in_the_session(web: BrowserSession, tenant: Tenant) -> None:
    messages = await talk(
        tenant, "kitchen", *(f"Saying number {number}." for number in range(1, 60)), "The kettle is red."
    )
    await talk(tenant, "hall", "The hall is blue.")

    search = await web.page("search", q="which colour has the kettle?", messages="on")
    link = re.findall(r'href="([^"]*session\?[^"]*message=[^"]*)"><bdi>The kettle is red.', search.text)[0]
    session = await web.client.get(link.replace("&amp;", "&"))
    other = await web.page("session", id="hall", message=messages[-1].message_id)

    assert link.endswith("#m60")
    assert 'id="m60"' in session.text
    assert "The kettle is red." in session.text
    assert "The kettle is red." not in other.text


@pytest.mark.system
async def test_a_receipt_leads_to_the_texts_of_its_hits(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    memory_id = await tenant.remember("The kettle is red.")
    message = (await talk(tenant, "kitchen", "The kettle is hot."))[0]
    answer = await recall_with_receipt(tenant, "kettle")
    assert {hit.item_id for hit in answer.hits} == {memory_id, message.message_id}

    page = await web.page("receipt", id=answer.receipt_id)

    assert f'memory?id={memory_id}"><bdi>The kettle is red.</bdi>' in page.text
    assert f'message={message.message_id}#m1"><bdi>The kettle is hot.</bdi>' in page.text
    assert memory_id not in shown(page.text)
    assert message.message_id not in shown(page.text)


async def test_filters_are_folded_where_results_are_and_name_what_is_set(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.remember("The kettle is red.", tags=["kitchen"])

    empty = await web.page("search")
    search = await web.page("search", q="kettle", tag="kitchen", mode="hybrid", limit="10")
    memories = await web.page("memories", tag="kitchen", archived="on")
    refused = await web.page("memories", where="nonsense (")

    assert "<details open>\n<summary>Filters and time</summary>" in empty.text
    assert '<summary>Filters and time <span class="chip">tags: <bdi>kitchen</bdi></span></summary>' in search.text
    assert "<details open>" not in search.text
    assert (
        '<details class="filters card">\n<summary>Filter <span class="chip">tags: <bdi>kitchen</bdi></span> '
        in memories.text
    )
    assert '<span class="chip">with archived</span></summary>' in memories.text
    assert '<details class="filters card" open>' in refused.text


async def test_a_hit_begins_with_its_relevance_and_folds_its_score(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.remember("The kettle is red.")
    await tenant.remember("On Sundays the harbour is closed.")
    request = gateway_pb2.RecallRequest(query="which colour has the kettle?", min_relevance=0)
    hits = list((await tenant.gateway.Recall(request)).hits)

    search = await web.page("search", q=request.query)

    figures = re.findall(r'<span class="figure"[^>]*>([^<]+)</span>', search.text)
    assert figures[0] == f"{hits[0].relevance:.2f}"
    first = search.text.split('<li class="hit card">')[1]
    before, folded = first.split("<details>", 1)
    assert f'<strong class="score">{hits[0].score:.2f}</strong>' in folded
    assert "core" not in before
