"""The page of refused facts of the console."""

from __future__ import annotations

import pytest
from fix_cluster import Cluster, Tenant
from fix_console import BrowserSession, filled
from fix_extraction import facts, keep_refused
from fix_web import PASSWORD, new_person

from skein.memory.v1 import approvals_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import members_pb2

PORTO = "I live in Porto"
NONE = "No fact was refused"


async def test_without_refused_facts_the_page_says_so(web: BrowserSession) -> None:
    assert NONE in (await web.page("refused-facts")).text


async def test_a_fact_shows_its_reason_and_its_message_with_the_quote_marked(
    cluster: Cluster, tenant: Tenant, web: BrowserSession
) -> None:
    await keep_refused(cluster, tenant, PORTO, reason="negation_differs")

    page = await web.page("refused-facts")

    assert '<span class="chip bad">negation differs</span>' in page.text
    assert f"Hello! <mark>{PORTO}</mark>" in page.text
    assert "extractor:rules" in page.text


async def test_a_fact_is_shown_as_text_with_its_invisible_characters(
    cluster: Cluster, tenant: Tenant, web: BrowserSession
) -> None:
    await keep_refused(cluster, tenant, "<script>alert(1)</script>\u202eI live in Porto")

    page = await web.page("refused-facts")

    assert "<mark>&lt;script&gt;alert(1)&lt;/script&gt;[U+202E]I live in Porto</mark>" in page.text
    assert "<script>alert" not in page.text


async def test_an_accepted_fact_is_a_memory(cluster: Cluster, tenant: Tenant, web: BrowserSession) -> None:
    await keep_refused(cluster, tenant, PORTO)

    answer = await web.submit(await web.page("refused-facts"), "decide", decision="accept")

    after = await web.client.get(answer.headers["location"])
    assert "The fact is a memory now." in after.text
    assert NONE in after.text
    assert [fact.content for fact in await facts(tenant)] == [PORTO]


async def test_a_dismissed_fact_is_gone(cluster: Cluster, tenant: Tenant, web: BrowserSession) -> None:
    await keep_refused(cluster, tenant, PORTO)

    answer = await web.submit(await web.page("refused-facts"), "decide", decision="dismiss")

    after = await web.client.get(answer.headers["location"])
    assert "The fact is dismissed." in after.text
    assert NONE in after.text
    assert await facts(tenant) == []


async def test_a_fact_that_was_decided_on_meanwhile_is_a_problem_of_the_page(
    cluster: Cluster, tenant: Tenant, web: BrowserSession
) -> None:
    await keep_refused(cluster, tenant, PORTO)
    page = await web.page("refused-facts")
    (fact,) = (await tenant.curation.ListRefusedFacts(approvals_pb2.ListRefusedFactsRequest())).refused_facts
    await tenant.curation.RefuseMemory(approvals_pb2.RefuseMemoryRequest(pending_id=fact.pending_id))

    answer = await web.submit(page, "decide", decision="accept")

    assert answer.status_code == 404
    assert NONE in answer.text


async def test_a_form_without_a_decision_or_without_its_token_does_nothing(
    cluster: Cluster, tenant: Tenant, web: BrowserSession
) -> None:
    await keep_refused(cluster, tenant, PORTO)
    page = await web.page("refused-facts")
    fields = filled(page, "decide")

    undecided = await web.client.post(str(page.url), data={**fields, "decision": "obey"})
    forged = await web.client.post(str(page.url), data={**fields, "decision": "accept", "form_token": "0" * 64})

    assert (undecided.status_code, forged.status_code) == (400, 400)
    assert await facts(tenant) == []


@pytest.mark.system
async def test_a_message_that_cannot_be_read_is_named_as_such(
    cluster: Cluster, tenant: Tenant, web: BrowserSession
) -> None:
    message_id = await keep_refused(cluster, tenant, PORTO)
    await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message_id))

    page = await web.page("refused-facts")

    assert "Its message cannot be read now" in page.text
    assert "<mark>" not in page.text


@pytest.mark.system
async def test_who_may_not_approve_sees_neither_the_entry_nor_the_facts(
    cluster: Cluster, tenant: Tenant, web: BrowserSession
) -> None:
    await keep_refused(cluster, tenant, PORTO)
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_VIEWER)
    web.client.cookies.clear()
    await web.sign_in(person.email, PASSWORD)

    page = await web.page("refused-facts")
    members = await web.page("memories")

    assert page.status_code == 403
    assert PORTO not in page.text
    assert "Refused facts" not in members.text
