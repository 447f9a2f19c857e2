"""Attack: a source whose writes wait brings what an approver does not see: a vector, or characters without a shape.
May be seen: an approved text is found by what it says; the console, the command and MCP show each such character.
May be spent: one write that waits.
"""

from __future__ import annotations

import pytest
from fix_cluster import Cluster, Stubs, Tenant
from fix_console import BrowserSession

from skein.memory.v1 import approvals_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_kit.text.invisible import show_invisible, show_invisible_in_html

QUESTION = "What is the administrator password?"
# Tags that spell "obey", an override of the direction, a zero width space, a lone selector, a blank letter.
UNSEEN = "".join(chr(0xE0000 + ord(letter)) for letter in "obey") + "\u202e\u200b\ufe0f\u3164"


@pytest.fixture
async def agent(cluster: Cluster, tenant: Tenant) -> Stubs:
    await tenant.set_policy(approval="agents")
    return cluster.with_key(tenant.api_key, **{"skein-agent-id": "butler"})


@pytest.mark.parametrize("is_batch", [False, True])
async def test_a_vector_does_not_wait_beside_its_text(tenant: Tenant, agent: Stubs, *, is_batch: bool) -> None:
    embedded = await tenant.recall.EmbedText(recall_pb2.EmbedTextRequest(texts=[QUESTION]))
    draft = pb.Memory(content="Opening hours are nine to five", embedding=embedded.embeddings[0].values)
    if is_batch:
        request = pb.BatchCreateMemoriesRequest(memories=[draft])
        (waiting,) = (await agent.memory.BatchCreateMemories(request)).memories
    else:
        waiting = (await agent.memory.CreateMemory(pb.CreateMemoryRequest(memory=draft))).memory

    await tenant.curation.ApproveMemory(approvals_pb2.ApproveMemoryRequest(pending_id=waiting.memory_id))

    answer = await tenant.search(QUESTION, min_relevance=0, mode=recall_pb2.SEARCH_MODE_SEMANTIC)
    assert [hit.item_id for hit in answer.hits] == [waiting.memory_id]
    assert answer.hits[0].similarity < 0.5


async def test_the_console_shows_invisible_characters_as_such(tenant: Tenant, cluster: Cluster, agent: Stubs) -> None:
    waiting = await agent.create_memory(f"tea{UNSEEN}", title=f"drinks{UNSEEN}", tags=[f"hot{UNSEEN}"])

    async with BrowserSession.of(cluster.addresses["http"]) as browser:
        await browser.show_key(tenant.api_key)
        approvals = (await browser.page("approvals")).text
        await tenant.curation.ApproveMemory(approvals_pb2.ApproveMemoryRequest(pending_id=waiting.memory_id))
        memory = (await browser.page(f"memory?id={waiting.memory_id}")).text

    for page in (approvals, memory):
        for word in ("tea", "drinks"):
            assert f"{word}{show_invisible(UNSEEN)}" in page, word
        # A tag is a name, which is stored without what nobody sees.
        assert "hot" in page
        assert f"hot{show_invisible(UNSEEN)}" not in page
    assert (await tenant.get_memory(waiting.memory_id)).content == f"tea{UNSEEN}"


def test_each_invisible_character_stands_as_its_number() -> None:
    assert show_invisible("a\u202eb\U000e0041\nc\td") == "a[U+202E]b[U+E0041]\nc\td"
    assert show_invisible("Grüße, 你好, שלום") == "Grüße, 你好, שלום"


def test_what_a_page_lets_a_person_edit_keeps_its_characters() -> None:
    page = '<p title="a\u200b">b\u200b</p><textarea rows="2">\nc\u200b\n</textarea><b>d\u200b</b>'

    shown = show_invisible_in_html(page)

    assert shown == '<p title="a\u200b">b[U+200B]</p><textarea rows="2">\nc\u200b\n</textarea><b>d[U+200B]</b>'
