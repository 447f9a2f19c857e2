"""The console's receipts: found by time, shown in words, replayed, compared and downloaded."""

from __future__ import annotations

import re
import uuid

import httpx
import pytest
from fix_cluster import Cluster, Tenant
from fix_console import BrowserSession
from fix_receipts import (
    get_context_receipt,
    get_receipt,
    recall_beside_a_purged_message,
    recall_with_receipt,
)
from fix_web import PASSWORD, new_person

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import members_pb2
from skein_kit import recall_receipts

QUERY = "which colour has the kettle?"


async def update(tenant: Tenant, memory_id: str, content: str) -> None:
    memory = memory_pb2.Memory(memory_id=memory_id, content=content)
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["content"]}))


def of_role(page: httpx.Response, role: str) -> str:
    found = re.search(rf'<(\w+)[^>]* role="{role}">(.*?)</\1>', page.text, re.DOTALL)
    return "" if found is None else re.sub(r"<[^>]+>|\s+", " ", found[2]).strip()


async def test_an_answer_of_the_search_page_leads_to_its_receipt(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    memory_id = await tenant.remember("The kettle is red.", title="Kettle")
    await recall_with_receipt(tenant, QUERY)

    search = await web.page("search", q=QUERY, limit="25")
    link = re.search(r'href="([^"]*/receipt\?id=([^"]+))">Why this answer', search.text)
    assert link is not None
    page = await web.client.get(link[1])
    receipt = await get_receipt(tenant, link[2])

    assert page.status_code == 200
    assert f"<bdi>{QUERY}</bdi>" in page.text
    assert f'memory?id={memory_id}"><bdi>Kettle</bdi>' in page.text
    assert f'<span class="chip good">valid</span> by the published key <code>{receipt.key_id}</code>' in page.text
    assert f"<dd>{receipt.statement.model}</dd>" in page.text
    assert f"<dd>{receipt.statement.formula}, with the weights meaning 0." in page.text
    assert "exact: every vector was compared" in page.text
    assert "&#34;limit&#34;: 25" in page.text
    raw = next(one.raw for one in receipt.hits[0].signals if one.signal == "dense")
    assert f'<td class="number">{raw:.3f}</td>' in page.text


@pytest.mark.system
async def test_the_text_that_an_agent_got_is_made_again(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    memory_id = await tenant.remember("The kettle is red.")
    await recall_with_receipt(tenant, QUERY)
    build = gateway_pb2.BuildContextRequest(recall=gateway_pb2.RecallRequest(query=QUERY))
    receipt_id = (await tenant.gateway.BuildContext(build)).receipt_id
    await get_context_receipt(tenant, receipt_id)
    await update(tenant, memory_id, "The kettle was painted blue.")

    page = await web.page("receipt", id=receipt_id)
    remade = await web.submit(page, "receipt", decision="text")
    await tenant.purge_memories(memory_id)
    left = await web.submit(page, "receipt", decision="text")

    assert "Make the text again" in page.text
    assert of_role(remade, "status") == "Made again: the text is the same byte for byte."
    assert "The kettle is red." in remade.text
    assert of_role(left, "alert").startswith("Made again: the text is not the same.")
    assert "The kettle is red." not in left.text


@pytest.mark.system
async def test_a_replay_shows_the_answer_of_then(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    memory_id = await tenant.remember("The kettle is red.")
    receipt_id = (await recall_with_receipt(tenant, QUERY)).receipt_id
    await update(tenant, memory_id, "The kettle was painted blue.")

    page = await web.page("receipt", id=receipt_id)
    replayed = await web.submit(page, "receipt", decision="replay")

    assert "The kettle is red." not in page.text
    assert replayed.status_code == 200
    assert of_role(replayed, "status").startswith(
        "Replayed: the search, run again on what it saw then, found the same."
    )
    assert "The kettle is red." in replayed.text
    assert "contribution" in replayed.text


@pytest.mark.system
async def test_a_replay_names_what_cannot_be_had_any_more(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    purged = await tenant.remember("The kettle is red.")
    await tenant.remember("The kettle of the harbour is green.")
    receipt_id = (await recall_with_receipt(tenant, QUERY, min_relevance=0)).receipt_id
    await tenant.purge_memories(purged)

    replayed = await web.submit(await web.page("receipt", id=receipt_id), "receipt", decision="replay")

    alert = of_role(replayed, "alert")
    assert "not the same in full" in alert
    assert "Items of the answer were purged since: 1 of 2 hits, marked below." in alert
    assert f"<code>{purged}</code>" in replayed.text
    assert replayed.text.count(">purged since<") == 1


async def test_a_replay_says_how_many_others_were_purged(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    receipt_id = (await recall_beside_a_purged_message(tenant)).receipt_id

    replayed = await web.submit(await web.page("receipt", id=receipt_id), "receipt", decision="replay")

    assert "Items that the answer had not were purged or archived since: 1." in of_role(replayed, "alert")


@pytest.mark.system
async def test_a_replay_asks_for_a_text_that_is_not_stored(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all")
    await tenant.remember("The kettle is red.")
    receipt_id = (await recall_with_receipt(tenant, QUERY)).receipt_id

    page = await web.page("receipt", id=receipt_id)
    other = await web.submit(page, "receipt", decision="replay", query="which colour has the violin?")
    same = await web.submit(page, "receipt", decision="replay", query=QUERY)

    assert "The question is not stored" in page.text
    assert 'name="query" maxlength="10000" required' in page.text
    assert other.status_code == 400
    assert of_role(other, "alert") == "This is not the text of the query: its digest differs from that of the receipt."
    assert of_role(same, "status").startswith("Replayed: the search, run again")


@pytest.mark.system
async def test_the_answer_now_is_compared_with_that_of_then(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    changed = await tenant.remember("The kettle is red.")
    receipt_id = (await recall_with_receipt(tenant, QUERY, min_relevance=0)).receipt_id
    await update(tenant, changed, "Nobody knows which colour the kettle has.")
    created = await tenant.remember("The kettle has the colour blue.")

    answer = await web.submit(await web.page("receipt", id=receipt_id), "receipt", decision="now")
    page = await web.client.get(answer.headers["location"])

    assert page.status_code == 200
    items = {
        re.findall(r"memory\?id=([0-9a-f-]{36})", item)[0]: item for item in page.text.split('<li class="line">')[1:]
    }
    assert items.keys() == {changed, created}
    assert "memory_updated" in items[changed]
    assert "revision 1 → 2" in items[changed]
    assert "because of its own changes" in items[changed]
    assert "meaning 0." in items[changed]
    assert "memory_created" in items[created]
    assert '<span class="chip">new at rank ' in items[created]
    assert of_role(page, "status").startswith("2 items have another rank or another text.")


async def test_two_answers_are_compared_the_earlier_one_first(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await tenant.remember("The kettle is red.")
    first = (await recall_with_receipt(tenant, QUERY)).receipt_id
    second = (await recall_with_receipt(tenant, "kettle", limit=3)).receipt_id

    page = await web.page("difference", id=second, other=first)

    assert page.text.index(f'receipt?id={first}">Earlier answer') < page.text.index(
        f'receipt?id={second}">Later answer'
    )
    assert "the text of the query; the other fields of the request" in of_role(page, "status")


@pytest.mark.system
async def test_texts_that_cannot_be_compared_are_not_called_different(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    with_text = (await recall_with_receipt(tenant, QUERY)).receipt_id
    await tenant.set_policy(audit_query_text=False)
    while (await get_receipt(tenant, with_digest := (await recall_with_receipt(tenant, QUERY)).receipt_id)).query:
        # The policy takes effect within a second.
        pass

    page = await web.page("difference", id=with_text, other=with_digest)

    assert of_role(page, "status") == "The two answers are the same. Not comparable: the text of the query."


@pytest.mark.system
async def test_without_a_receipt_of_now_there_is_nothing_to_compare(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    receipt_id = (await recall_with_receipt(tenant, QUERY)).receipt_id
    page = await web.page("receipt", id=receipt_id)
    await tenant.set_policy(recall_receipts="off")

    while (answer := await web.submit(page, "receipt", decision="now")).is_redirect:
        # The policy takes effect within a second.
        pass

    assert answer.status_code == 409
    assert of_role(answer, "alert").startswith("The answer of now got no receipt")


async def test_the_download_is_the_file_that_verifies(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all")
    receipt_id = (await recall_with_receipt(tenant, QUERY)).receipt_id
    receipt = await get_receipt(tenant, receipt_id)

    file = await web.page("receipt/file", id=receipt_id)

    assert file.content == receipt.document.encode()
    assert file.headers["content-disposition"] == f'attachment; filename="{receipt_id}.json"'
    assert recall_receipts.read(file.content).receipt_id == uuid.UUID(receipt_id)


async def test_receipts_are_listed_by_time_and_principal(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    receipt = await get_receipt(tenant, (await recall_with_receipt(tenant, QUERY)).receipt_id)
    year = receipt.create_time.ToDatetime().year

    pages = {
        "all": await web.page("receipts"),
        "theirs": await web.page("receipts", principal=f"api_key:{uuid.uuid4()}"),
        "later": await web.page("receipts", since=f"{year + 1}-01-01T00:00"),
        "earlier": await web.page("receipts", since=f"{year - 1}-01-01T00:00", until=f"{year + 1}-01-01T00:00"),
    }
    broken = await web.page("receipts", since="yesterday")

    shown = {name for name, page in pages.items() if receipt.receipt_id in page.text}
    assert shown == {"all", "earlier"}
    assert f"<bdi>{QUERY}</bdi>" in pages["all"].text
    assert "No receipts match." in pages["later"].text
    assert broken.status_code == 400


async def test_an_altered_receipt_is_no_proof(web: BrowserSession, tenant: Tenant, cluster: Cluster) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    receipt_id = (await recall_with_receipt(tenant, QUERY)).receipt_id
    await get_receipt(tenant, receipt_id)
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE recall.receipts SET query = 'which kettle?' WHERE receipt_id = $1", uuid.UUID(receipt_id)
        )

    listed = await web.page("receipts")
    page = await web.page("receipt", id=receipt_id)

    assert '<span class="chip bad">altered</span>' in listed.text
    assert page.status_code == 500
    assert "It proves nothing." in page.text


@pytest.mark.system
async def test_people_see_the_receipts_of_their_own_answers_alone(
    web: BrowserSession, tenant: Tenant, cluster: Cluster
) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    receipt_id = (await recall_with_receipt(tenant, QUERY)).receipt_id
    await get_receipt(tenant, receipt_id)
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_VIEWER)
    web.client.cookies.clear()
    await web.sign_in(person.email, PASSWORD)

    listed = await web.page("receipts")
    page = await web.page("receipt", id=receipt_id)

    assert receipt_id not in listed.text
    assert "Receipts of your own answers." in listed.text
    assert page.status_code == 404
