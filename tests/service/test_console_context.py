"""The console's context page: the text that an agent would get, with the tokens and the source of each line."""

from __future__ import annotations

import re

import pytest
from fix_cluster import Tenant
from fix_console import BrowserSession

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2
from skein.session.v1 import session_pb2
from skein_gateway.console.routes import read_lines

QUERY = "which colour has the kettle?"


def items(text: str) -> list[str]:
    """Return the cited lines of the page, without their markup."""
    listed = re.findall(r'<li>\s*<span class="cited">(.*?)</li>', text, re.DOTALL)
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", item)).strip() for item in listed]


async def test_each_line_has_its_tokens_its_relevance_and_its_source(web: BrowserSession, tenant: Tenant) -> None:
    memory_id = await tenant.remember("The kettle is <b>red</b>.\u202e\nIts lid is blue.")
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="The kettle was hot.")
    remembered = await tenant.gateway.Remember(gateway_pb2.RememberRequest(session_id="kitchen", messages=[message]))
    request = gateway_pb2.BuildContextRequest(recall=gateway_pb2.RecallRequest(query=QUERY))
    built = await tenant.gateway.BuildContext(request)

    page = await web.page("context", q=QUERY)

    memory, said = items(page.text)
    assert "The kettle is &lt;b&gt;red&lt;/b&gt;.[U+202E] Its lid is blue." in memory
    assert "\u202e" not in page.text
    assert f"relevance {built.citations[0].relevance:.2f}" in memory
    assert "The kettle was hot." in said
    assert f'memory?id={memory_id}">' in page.text
    assert f"session?id=kitchen&amp;message={remembered.messages[0].message_id}" in page.text
    assert f"About <strong>{built.token_count}</strong> of" in page.text
    # Each line is rounded up on its own, and empty lines have tokens that no line shows.
    tokens = [int(count) for count in re.findall(r'<span class="tokens">(\d+)<', page.text)]
    assert -2 * built.text.count("\n\n") <= sum(tokens) - built.token_count <= len(tokens)


@pytest.mark.system
async def test_a_small_budget_says_how_much_did_not_fit(web: BrowserSession, tenant: Tenant) -> None:
    for number in range(12):
        await tenant.remember(f"Kettle number {number} stands in the kitchen, {'beside the others, ' * 10}and is red.")

    small = await web.page("context", q="kettle", budget="250")
    large = await web.page("context", q="kettle", budget="8000")

    assert re.search(r"of 250 tokens, \d items?; \d+ more did not fit", small.text)
    assert "did not fit" not in large.text
    assert len(items(large.text)) == 12


async def test_an_agents_blocks_and_a_persons_memories_come_as_they_are_asked_for(
    web: BrowserSession, tenant: Tenant
) -> None:
    block = blocks_pb2.Block(label="persona", value="Speak of the kettle kindly.")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="butler"))
    await tenant.remember("Anna's kettle is red.", subject_id="anna")
    await tenant.remember("Ben's kettle is blue.", subject_id="ben")

    anna = items((await web.page("context", q="kettle", subject="anna")).text)
    butler = items((await web.page("context", q="kettle", agent="butler")).text)

    assert len(anna) == 1
    assert "Anna&#39;s kettle is red." in anna[0]
    assert any("Speak of the kettle kindly." in item for item in butler)


async def test_an_empty_context_says_why(web: BrowserSession) -> None:
    first, none = await web.page("context"), await web.page("context", q="zeppelin")
    unknown = await web.page("context", q="zeppelin", session="nowhere")

    assert "The agent gets nothing" not in first.text
    assert "The agent gets nothing: nothing was found." in none.text
    assert unknown.status_code == 404
    assert "Not found." in unknown.text


async def test_a_key_that_may_not_recall_has_no_such_entry(web: BrowserSession, tenant: Tenant) -> None:
    request = auth_pb2.CreateApiKeyRequest(display_name="reader", permissions=["memory.read"])
    key = await tenant.auth.CreateApiKey(request)
    web.client.cookies.clear()
    overview = await web.show_key(key.secret)
    page = await web.page("context", q="kettle")

    assert "/context" not in overview.text
    assert page.status_code == 403


def test_a_stored_text_cannot_imitate_a_line() -> None:
    response = gateway_pb2.BuildContextResponse(
        text="## Memories: fact\n\n- [1] one\n  | - [2] not a line\n- [2] two\n",
        citations=[gateway_pb2.Citation(number=1, item_id="a"), gateway_pb2.Citation(number=2, item_id="b")],
    )

    lines = read_lines(response)

    assert [(line.text, line.citation.item_id if line.citation else "") for line in lines] == [
        ("Memories: fact", ""),
        ("one\n- [2] not a line", "a"),
        ("two", "b"),
    ]
