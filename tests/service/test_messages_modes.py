"""SearchMessages as it is written, by meaning and by both; each message once, however close the hits are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused

from skein.auth.v1 import auth_pb2
from skein.session.v1 import session_pb2 as pb
from skein_kit.ids import new_ids, now
from skein_session.search.model import MAX_SCANNED_MESSAGES

LITERAL, MEANING, HYBRID = pb.SEARCH_MODE_LITERAL, pb.SEARCH_MODE_SEMANTIC, pb.SEARCH_MODE_HYBRID


async def append(
    tenant: Tenant, *contents: str, session_id: str = "s", time: datetime | None = None
) -> list[pb.Message]:
    messages = [pb.Message(role=pb.MESSAGE_ROLE_USER, content=content) for content in contents]
    if time is not None:
        for message in messages:
            message.create_time.FromDatetime(time)
    request = pb.AppendMessagesRequest(session_id=session_id, messages=messages, create_session=True)
    return list((await tenant.sessions.AppendMessages(request)).messages)


async def ask(tenant: Tenant, query: str, **fields: Any) -> pb.SearchMessagesResponse:
    return await tenant.sessions.SearchMessages(pb.SearchMessagesRequest(query=query, **fields))


async def search_contents(tenant: Tenant, query: str, **fields: Any) -> list[str]:
    return [hit.message.content for hit in (await ask(tenant, query, **fields)).hits]


async def test_a_part_of_a_word_is_found_as_it_is_written_newest_first(tenant: Tenant) -> None:
    await append(tenant, "the Lighthouse keeper", "nothing", "two lighthouses", "LIGHT HOUSE")

    assert await search_contents(tenant, "ghthous", mode=LITERAL) == ["two lighthouses", "the Lighthouse keeper"]
    assert await search_contents(tenant, "lighthouse keep", mode=LITERAL) == ["the Lighthouse keeper"]
    assert await search_contents(tenant, "keeper Lighthouse", mode=LITERAL) == []


@pytest.mark.parametrize(
    "literal", ["%", "_", "\\", "50%", "a_b", "c:\\", "100% of_it\\", "' OR true --", "the and of"]
)
async def test_every_sign_is_only_itself(tenant: Tenant, literal: str) -> None:
    await append(tenant, f"before {literal} after", "50 percent, aXb, c:/ and of the")

    assert await search_contents(tenant, literal, mode=LITERAL) == [f"before {literal} after"]


async def test_letters_of_any_alphabet_are_found_in_any_case(tenant: Tenant) -> None:
    await append(tenant, "Grüße aus Köln", "Привет из Москвы", "東京へようこそ", "🙂 fine")

    assert await search_contents(tenant, "GRÜßE", mode=LITERAL) == ["Grüße aus Köln"]
    assert await search_contents(tenant, "ПРИВЕТ", mode=LITERAL) == ["Привет из Москвы"]
    assert await search_contents(tenant, "京へ", mode=LITERAL) == ["東京へようこそ"]
    assert await search_contents(tenant, "🙂", mode=LITERAL) == ["🙂 fine"]


async def test_text_inside_of_markup_is_found_too(tenant: Tenant) -> None:
    await append(tenant, 'see <img alt="the red kettle boils"> here')

    assert await search_contents(tenant, "the red kettle boils", mode=LITERAL) == [
        'see <img alt="the red kettle boils"> here'
    ]


async def test_a_literal_stays_in_its_session_and_its_times(tenant: Tenant, other_tenant: Tenant) -> None:
    for year in (1999, 2016, 2024):
        await append(tenant, f"the kettle of {year}", session_id=f"s{year}", time=datetime(year, 6, 1, tzinfo=UTC))
    await append(other_tenant, "the kettle of others")

    assert await search_contents(tenant, "kettle", mode=LITERAL) == [
        f"the kettle of {year}" for year in (2024, 2016, 1999)
    ]
    assert await search_contents(tenant, "kettle", mode=LITERAL, session_id="s2016") == ["the kettle of 2016"]
    since, until = datetime(2016, 6, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)
    assert await search_contents(tenant, "kettle", mode=LITERAL, start_time=since) == [
        "the kettle of 2024",
        "the kettle of 2016",
    ]
    assert await search_contents(tenant, "kettle", mode=LITERAL, end_time=until) == [
        "the kettle of 2016",
        "the kettle of 1999",
    ]
    assert await search_contents(tenant, "kettle", mode=LITERAL, end_time=until, session_id="s2024") == []
    for mode in (LITERAL, MEANING, HYBRID):
        with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
            await search_contents(tenant, "kettle", mode=mode, session_id="unknown")


async def test_a_deleted_message_is_found_in_no_mode(tenant: Tenant) -> None:
    (kettle, _) = await append(tenant, "the red kettle", "a blue cup")
    await append(tenant, "another kettle", session_id="gone")

    await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=kettle.message_id))
    await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id="gone"))

    assert await search_contents(tenant, "kettle", mode=LITERAL) == []
    assert await search_contents(tenant, "kettle", mode=pb.SEARCH_MODE_KEYWORD) == []
    assert await search_contents(tenant, "kettle", mode=MEANING) == ["a blue cup"]
    assert await search_contents(tenant, "kettle", mode=HYBRID) in ([], ["a blue cup"])


async def test_a_literal_search_pages_to_the_oldest_message_in_the_order_of_sequences(tenant: Tenant) -> None:
    await append(tenant, *(f"apple number {number}" for number in range(15)))
    for session_id in ("", "s"):
        pages, token = [], ""
        while True:
            page = await ask(tenant, "apple", mode=LITERAL, limit=4, session_id=session_id, page_token=token)
            pages.append([hit.message.sequence for hit in page.hits])
            token = page.next_page_token
            assert page.truncated == bool(token)
            if not token:
                break

        assert pages == [[15, 14, 13, 12], [11, 10, 9, 8], [7, 6, 5, 4], [3, 2, 1]]


async def test_a_page_of_another_literal_search_is_refused(tenant: Tenant) -> None:
    await append(tenant, "apple one", "apple two")
    token = (await ask(tenant, "apple", mode=LITERAL, limit=1)).next_page_token

    for query, mode in (("pear", LITERAL), ("apple", pb.SEARCH_MODE_KEYWORD)):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
            await ask(tenant, query, mode=mode, limit=1, page_token=token)


async def fill_up(cluster: Cluster, tenant: Tenant, session_id: str) -> None:
    """Let a session hold as many messages, after its first, as a search as written looks into."""
    connection = await asyncpg.connect(cluster.postgres.url(user="postgres", database="skein"))
    ids = new_ids(now() - timedelta(seconds=5), MAX_SCANNED_MESSAGES)
    try:
        await connection.execute(
            "INSERT INTO session.messages (tenant_id, message_id, session_id, sequence, role, content, create_time,"
            " created_by) SELECT $1, id, $3, 1 + place, 'user', 'filling', now(), 'test'"
            " FROM unnest($2::uuid[]) WITH ORDINALITY AS filled (id, place)",
            tenant.tenant_id,
            ids,
            session_id,
        )
        await connection.execute(
            "INSERT INTO session.message_order (tenant_id, session_id, sequence, message_id)"
            " SELECT tenant_id, session_id, sequence, message_id FROM session.messages"
            " WHERE tenant_id = $1 AND session_id = $2 AND content = 'filling'",
            tenant.tenant_id,
            session_id,
        )
    finally:
        await connection.close()


@pytest.mark.system
async def test_a_search_as_written_is_bounded_and_says_how_far_it_came(cluster: Cluster, tenant: Tenant) -> None:
    await append(tenant, "the old red kettle boils", session_id="old", time=now() - timedelta(days=200))
    await append(tenant, "the first of many")
    await fill_up(cluster, tenant, "s")

    by_word = await ask(tenant, "old red kettle", mode=LITERAL)
    by_part = await ask(tenant, "kett", mode=LITERAL)
    further = by_part
    steps = 0
    while further.truncated and steps < 5:
        further = await ask(tenant, "kett", mode=LITERAL, page_token=further.next_page_token)
        steps += 1

    # "red" is a whole word in it, so what holds it is looked into however old it is.
    assert [hit.message.content for hit in by_word.hits] == ["the old red kettle boils"]
    assert not by_word.truncated
    assert (len(by_part.hits), by_part.truncated) == (0, True)
    assert [hit.message.content for hit in further.hits] == ["the old red kettle boils"]
    assert not further.truncated


@pytest.mark.system
async def test_the_beginning_of_a_long_session_is_found_as_it_is_written(cluster: Cluster, tenant: Tenant) -> None:
    began = now() - timedelta(days=200)
    await append(tenant, "the old red kettle boils", time=began)
    await fill_up(cluster, tenant, "s")

    answers = [await ask(tenant, "kett", mode=LITERAL, session_id="s")]
    while answers[-1].truncated and len(answers) < 5:
        further = answers[-1].next_page_token
        answers.append(await ask(tenant, "kett", mode=LITERAL, session_id="s", page_token=further))
    at_once = await ask(tenant, "kett", mode=LITERAL, session_id="s", end_time=began + timedelta(days=1))

    assert (len(answers[0].hits), answers[0].truncated) == (0, True)
    assert [hit.message.sequence for hit in answers[-1].hits] == [1]
    assert not answers[-1].truncated
    assert at_once == answers[-1]


async def test_a_search_by_meaning_needs_no_common_word(tenant: Tenant) -> None:
    await append(tenant, "The cat sleeps on the warm windowsill", "Invoices are due on Friday", "My car needs oil")

    response = await ask(tenant, "a pet naps in the sun", mode=MEANING, limit=1)

    (hit,) = response.hits
    assert hit.message.content == "The cat sleeps on the warm windowsill"
    assert 0 < hit.score <= 1


async def test_a_hybrid_search_weighs_words_and_meaning(tenant: Tenant) -> None:
    await append(tenant, "The cat sleeps on the warm windowsill", "Error E1234 in the invoice module")

    assert (await search_contents(tenant, "pet napping", mode=HYBRID))[0] == "The cat sleeps on the warm windowsill"
    assert (await search_contents(tenant, "E1234", mode=HYBRID))[0] == "Error E1234 in the invoice module"
    assert not (await ask(tenant, "pet", mode=HYBRID)).dense_unavailable


@pytest.mark.system
async def test_a_search_by_meaning_stays_in_its_session_its_times_and_its_tenant(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    await append(tenant, "the cat sleeps", session_id="one", time=datetime(2016, 6, 1, tzinfo=UTC))
    await append(tenant, "the cat eats", session_id="two")
    await append(other_tenant, "the cat plays")

    for mode in (MEANING, HYBRID):
        assert sorted(await search_contents(tenant, "a cat", mode=mode)) == ["the cat eats", "the cat sleeps"]
        assert await search_contents(tenant, "a cat", mode=mode, session_id="one") == ["the cat sleeps"]
        assert await search_contents(tenant, "a cat", mode=mode, start_time=datetime(2020, 1, 1, tzinfo=UTC)) == [
            "the cat eats"
        ]


async def test_meaning_is_recall_s_to_allow(cluster: Cluster, tenant: Tenant) -> None:
    await append(tenant, "the cat sleeps")
    request = auth_pb2.CreateApiKeyRequest(display_name="no recall", permissions=["session.read"])
    reader = cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)

    for mode in (MEANING, HYBRID):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await reader.sessions.SearchMessages(pb.SearchMessagesRequest(query="cat", mode=mode))
    hits = (await reader.sessions.SearchMessages(pb.SearchMessagesRequest(query="cat", mode=LITERAL))).hits
    assert len(hits) == 1


@pytest.mark.parametrize("mode", [pb.SEARCH_MODE_KEYWORD, LITERAL, HYBRID])
async def test_each_message_is_returned_once_when_hits_are_neighbours(tenant: Tenant, mode: pb.SearchMode) -> None:
    await append(tenant, "zero", "one", "the kettle", "the red kettle", "four", "five", "kettle again", "seven")

    response = await ask(tenant, "kettle", mode=mode, context_size=2, limit=3)

    sequences = [
        message.sequence
        for hit in response.hits
        for message in (*hit.before, hit.message, *hit.after)
        if message.session_id == "s"
    ]
    assert sorted(sequences) == [1, 2, 3, 4, 5, 6, 7, 8]
    for hit in response.hits:
        around = [message.sequence for message in (*hit.before, hit.message, *hit.after)]
        assert around == sorted(around)
        assert all(abs(sequence - hit.message.sequence) <= 2 for sequence in around)


async def test_a_neighbour_of_two_hits_is_returned_with_the_better_one(tenant: Tenant) -> None:
    await append(tenant, "a kettle", "between", "kettle, kettle")

    better, worse = (await ask(tenant, "kettle", context_size=1)).hits

    assert [message.content for message in better.before] == ["between"]
    assert better.message.content == "kettle, kettle"
    assert not worse.before
    assert not worse.after
