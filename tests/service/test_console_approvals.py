"""The approvals page of the console."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from fix_cluster import Cluster, Tenant
from fix_console import BrowserSession, filled
from fix_web import PASSWORD, new_person
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import members_pb2, subjects_pb2


@pytest.fixture
async def web(cluster: Cluster, tenant: Tenant) -> AsyncIterator[BrowserSession]:
    """A browser logged in with every permission of a tenant whose agents need approval."""
    policy = subjects_pb2.Policy(approval="agents")
    request = subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=FieldMask(paths=["approval"]))
    await tenant.tenancy.UpdatePolicy(request)
    async with BrowserSession.of(cluster.addresses["http"]) as browser:
        await browser.show_key(tenant.api_key)
        yield browser


async def write(tenant: Tenant, content: str, *, title: str = "") -> str:
    """Store a memory as an agent."""
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=content, title=title))
    created = await tenant.memory.CreateMemory(request, metadata=(("skein-agent-id", "butler"),))
    assert created.memory.pending_approval
    return created.memory.memory_id


def counts(page: httpx.Response) -> list[str]:
    """Return the counts of the menu and of the entry."""
    return re.findall(r'<span class="chip count"[^>]*>([^<]+)<', page.text)


async def browsing_as_member(cluster: Cluster, tenant: Tenant, web: BrowserSession) -> None:
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_VIEWER)
    web.client.cookies.clear()
    await web.sign_in(person.email, PASSWORD)


async def contents(tenant: Tenant) -> list[str]:
    memories = (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    return [memory.content for memory in memories]


async def test_without_anything_that_waits_the_page_says_so(web: BrowserSession) -> None:
    assert "Nothing waits for approval" in (await web.page("approvals")).text


@pytest.mark.system
async def test_the_navigation_counts_what_waits(cluster: Cluster, tenant: Tenant, web: BrowserSession) -> None:
    nothing = await web.page("approvals")
    first = await write(tenant, "one")
    await write(tenant, "two")
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="three")
    request = gateway_pb2.RememberRequest(session_id="kitchen", messages=[message])
    await tenant.gateway.Remember(request, metadata=(("skein-agent-id", "butler"),))

    page = await web.page("approvals")
    members = await web.page("members")
    await web.submit(page, "decide", decision="refuse")
    after = await web.page("members")
    await browsing_as_member(cluster, tenant, web)
    not_theirs = await web.page("memories")

    assert first in page.text
    assert 'class="chip count"' not in nothing.text
    assert counts(page) == counts(members) == ["3", "3"]
    assert counts(after) == ["2", "2"]
    assert not_theirs.status_code == 200
    assert counts(not_theirs) == []


@pytest.mark.system
async def test_more_than_a_page_that_waits_is_counted_as_more(tenant: Tenant, web: BrowserSession) -> None:
    memories = [memory_pb2.Memory(content=f"number {number}") for number in range(21)]
    request = memory_pb2.BatchCreateMemoriesRequest(memories=memories)
    await tenant.memory.BatchCreateMemories(request, metadata=(("skein-agent-id", "butler"),))

    assert counts(await web.page("approvals")) == ["20+", "20+"]


async def test_what_waits_is_shown_as_text_and_approved_as_written(web: BrowserSession, tenant: Tenant) -> None:
    await write(tenant, "<b>obey</b>\nthe second line", title="a title")
    page = await web.page("approvals")

    answer = await web.submit(page, "decide", decision="approve")

    after = await web.client.get(answer.headers["location"])
    assert "&lt;b&gt;obey&lt;/b&gt;" in page.text
    assert "from <bdi>butler</bdi>" in page.text
    assert "The memory is approved." in after.text
    assert await contents(tenant) == ["<b>obey</b>\nthe second line"]


async def test_the_edits_of_the_form_are_stored(web: BrowserSession, tenant: Tenant) -> None:
    memory_id = await write(tenant, "the key hangs by the stove", title="keys")
    page = await web.page("approvals")

    await web.submit(page, "decide", decision="edit", content="the key hangs\r\nby the door", title="key")

    memory = (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))).memory
    assert (memory.content, memory.title) == ("the key hangs\nby the door", "key")


async def test_every_field_that_waits_is_shown(web: BrowserSession, tenant: Tenant) -> None:
    memory = memory_pb2.Memory(
        content="obey me", type="fact", key="the key", tags=[f"tag{n}" for n in range(9)],
        metadata_json='{"m": "deep"}', data_json='{"d": "hidden"}', scope=memory_pb2.SCOPE_AGENT,
        agent_id="other agent", session_id="a session",
        source="a source", source_agent="an observer", external_id="outside", level=memory_pb2.LEVEL_STRATEGIC,
        importance=0.875, expire_time=Timestamp(seconds=4_000_000_000),
        valid_from_time=Timestamp(seconds=1_600_000_000),
        derived_from=[memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_DOCUMENT, name="a diary")],
    )  # fmt: skip
    request = memory_pb2.CreateMemoryRequest(memory=memory)
    await tenant.memory.CreateMemory(request, metadata=(("skein-agent-id", "butler"),))

    text = (await web.page("approvals")).text

    for shown in (
        "the key", "tag8", "deep", "hidden", "other agent", "a session", "a source", "an observer", "outside",
        "strategic", "0.875", "2096", "2020", "a diary",
    ):  # fmt: skip
        assert shown in text, shown


async def test_a_refused_memory_is_removed(web: BrowserSession, tenant: Tenant) -> None:
    await write(tenant, "obey me")
    page = await web.page("approvals")

    answer = await web.submit(page, "decide", decision="refuse")
    again = await web.submit(page, "decide", decision="approve")

    assert "refused" in answer.headers["location"]
    assert again.status_code == 404
    assert "Nothing waits for approval" in (await web.page("approvals")).text
    assert await contents(tenant) == []


async def test_a_change_shows_what_it_sets_and_leads_to_its_memory(web: BrowserSession, tenant: Tenant) -> None:
    known = (
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="tea")))
    ).memory
    changed = memory_pb2.Memory(memory_id=known.memory_id, content="coffee", tags=["t"])
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=FieldMask(paths=["content", "tags"])),
        metadata=(("skein-agent-id", "butler"),),
    )
    page = await web.page("approvals")

    await web.submit(page, "decide", decision="edit")

    assert known.memory_id in page.text
    assert "<h3>tags</h3>" in page.text
    assert "<mark>tea</mark>" in page.text
    assert "<mark>coffee</mark>" in page.text
    assert 'name="title"' not in page.text
    assert await contents(tenant) == ["coffee"]


async def test_the_page_leads_to_the_fact_that_has_the_key_of_one_that_waits(
    web: BrowserSession, tenant: Tenant
) -> None:
    facts = [memory_pb2.Memory(content=content, type="fact", key="city") for content in ("in Oslo", "in Graz")]
    request = memory_pb2.CreateMemoryRequest(memory=facts[0])
    await tenant.memory.CreateMemory(request, metadata=(("skein-agent-id", "butler"),))
    free = await web.page("approvals")
    holder = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=facts[1]))).memory

    taken = await web.page("approvals")

    assert "has its key now" not in free.text
    assert "has its key now" in taken.text
    assert f"id={holder.memory_id}" in taken.text


@pytest.mark.system
async def test_a_member_who_may_not_approve_has_no_such_page(
    cluster: Cluster, web: BrowserSession, tenant: Tenant
) -> None:
    await write(tenant, "obey me")
    tokens = filled(await web.page("approvals"), "decide")
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_MEMBER)
    web.client.cookies.clear()
    await web.sign_in(person.email, PASSWORD)

    page = await web.page("approvals")

    assert tokens
    assert page.status_code == 403
    assert "obey me" not in page.text
    assert ">Approvals<" not in (await web.page()).text
