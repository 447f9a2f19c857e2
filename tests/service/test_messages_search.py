"""SearchMessages: the right messages, in their context, of this tenant alone."""

from __future__ import annotations

from datetime import UTC, datetime

import grpc
from fix_cluster import Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2 as pb
from skein.tenancy.v1 import subjects_pb2


async def append(
    tenant: Tenant, *contents: str, session_id: str = "s", time: datetime | None = None
) -> list[pb.Message]:
    messages = [pb.Message(role=pb.MESSAGE_ROLE_USER, content=content) for content in contents]
    if time is not None:
        for message in messages:
            message.create_time.FromDatetime(time)
    request = pb.AppendMessagesRequest(session_id=session_id, messages=messages, create_session=True)
    return list((await tenant.sessions.AppendMessages(request)).messages)


async def search(tenant: Tenant, query: str, **fields: object) -> list[pb.MessageHit]:
    request = pb.SearchMessagesRequest(query=query, **fields)  # type: ignore[arg-type]  # Any fields.
    return list((await tenant.sessions.SearchMessages(request)).hits)


def texts(hits: list[pb.MessageHit]) -> list[str]:
    return [hit.message.content for hit in hits]


async def test_a_message_is_found_by_another_form_of_its_words(tenant: Tenant) -> None:
    (stored, _) = await append(tenant, "My daughter is learning the violin", "Nothing to see here")

    (hit,) = await search(tenant, "Who learned violins?")

    assert hit.message == stored
    assert hit.score > 0


async def test_rarer_and_more_frequent_words_rank_higher(tenant: Tenant) -> None:
    await append(
        tenant,
        "the cat sleeps",
        "the cat eats",
        "the cat plays with the zebra",
        "a cat, a cat, a cat",
        "dogs bark",
    )

    hits = await search(tenant, "cat zebra")

    assert texts(hits)[0] == "the cat plays with the zebra"
    assert texts(hits)[1] == "a cat, a cat, a cat"
    assert len(hits) == 4
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)


async def test_the_limit_holds(tenant: Tenant) -> None:
    await append(tenant, *(f"apple number {number}" for number in range(15)))

    assert len(await search(tenant, "apples")) == 10
    assert len(await search(tenant, "apples", limit=3)) == 3
    assert len(await search(tenant, "apples", limit=100)) == 15


async def test_a_hit_comes_with_its_neighbours_in_its_own_session(tenant: Tenant) -> None:
    for turn in range(1, 7):
        await append(tenant, f"noise {turn}" if turn != 4 else "the lighthouse keeper", session_id="one")
        await append(tenant, f"other {turn}" if turn != 1 else "a lighthouse at dusk", session_id="two")

    hits = {hit.message.session_id: hit for hit in await search(tenant, "lighthouse", context_size=2)}

    assert [message.content for message in hits["one"].before] == ["noise 2", "noise 3"]
    assert [message.content for message in hits["one"].after] == ["noise 5", "noise 6"]
    assert list(hits["two"].before) == []
    assert [message.content for message in hits["two"].after] == ["other 2", "other 3"]


async def test_neighbours_that_were_deleted_are_stepped_over(tenant: Tenant) -> None:
    stored = await append(tenant, "one", "two", "three", "the lighthouse", "five", "six", "seven")
    for place in (2, 4, 5):
        await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=stored[place].message_id))

    (hit,) = await search(tenant, "lighthouse", context_size=2)

    assert [message.content for message in hit.before] == ["one", "two"]
    assert [message.content for message in hit.after] == ["seven"]


async def test_without_a_context_size_there_are_no_neighbours(tenant: Tenant) -> None:
    await append(tenant, "one", "the lighthouse", "three")

    (hit,) = await search(tenant, "lighthouse")

    assert not hit.before
    assert not hit.after


async def test_a_search_stays_in_the_session_that_it_names(tenant: Tenant) -> None:
    await append(tenant, "lighthouse one", session_id="one")
    await append(tenant, "lighthouse two", session_id="two")

    assert texts(await search(tenant, "lighthouse", session_id="two")) == ["lighthouse two"]
    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await search(tenant, "lighthouse", session_id="three")


async def test_a_search_stays_in_its_times(tenant: Tenant) -> None:
    for year in (1999, 2016, 2020, 2024):
        await append(tenant, f"lighthouse of {year}", time=datetime(year, 6, 1, tzinfo=UTC))

    def years_of(hits: list[pb.MessageHit]) -> list[str]:
        return sorted(text.rpartition(" ")[2] for text in texts(hits))

    since, until = datetime(2016, 6, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)
    assert years_of(await search(tenant, "lighthouse", start_time=since)) == ["2016", "2020", "2024"]
    assert years_of(await search(tenant, "lighthouse", end_time=until)) == ["1999", "2016", "2020"]
    assert years_of(await search(tenant, "lighthouse", start_time=since, end_time=until)) == ["2016", "2020"]


async def test_wildcards_are_only_characters(tenant: Tenant) -> None:
    await append(tenant, "one hundred percent", "under_score", "back\\slash")

    for query in ("%", "_", "\\", "%percent%' OR true --", "*"):
        assert texts(await search(tenant, query)) in ([], ["one hundred percent"])
    assert texts(await search(tenant, "%")) == []


async def test_a_query_of_stop_words_finds_nothing(tenant: Tenant) -> None:
    await append(tenant, "the and of")

    assert await search(tenant, "the of") == []


async def test_an_empty_query_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await search(tenant, "")


async def test_a_deleted_message_is_not_found(tenant: Tenant) -> None:
    stored = await append(tenant, "the lighthouse", "the lighthouse keeper")

    await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=stored[0].message_id))

    assert texts(await search(tenant, "lighthouse")) == ["the lighthouse keeper"]


async def test_the_messages_of_a_deleted_session_are_not_found(tenant: Tenant) -> None:
    await append(tenant, "lighthouse of 1999", time=datetime(1999, 6, 1, tzinfo=UTC))
    await append(tenant, "lighthouse of 2016", time=datetime(2016, 6, 1, tzinfo=UTC))
    await append(tenant, "lighthouse of today")
    await append(tenant, "another lighthouse", session_id="other")

    await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id="s"))

    assert texts(await search(tenant, "lighthouse")) == ["another lighthouse"]


async def test_another_tenants_words_do_not_change_a_score(tenant: Tenant, other_tenant: Tenant) -> None:
    await append(tenant, "the lighthouse", "the sea", "the sky")
    before = await search(tenant, "lighthouse")

    await append(other_tenant, *["lighthouse and sea"] * 20)

    assert await search(tenant, "lighthouse") == before


async def test_the_last_word_of_the_longest_message_is_found(tenant: Tenant) -> None:
    content = "word " * 19_990 + "platypus"

    await append(tenant, content)

    assert texts(await search(tenant, "platypus")) == [content]


async def test_a_memory_is_not_a_message(tenant: Tenant) -> None:
    await append(tenant, "the lighthouse")
    before = await search(tenant, "lighthouse")

    await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="a lighthouse", session_id="s"))
    )

    assert await search(tenant, "lighthouse", session_id="s") == before


async def test_words_are_stemmed_as_the_tenant_s_policy_says(tenant: Tenant) -> None:
    policy = subjects_pb2.Policy(search_language="german")
    mask = FieldMask(paths=["search_language"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    await append(tenant, "Die Katzen schliefen in den Häusern", "Nichts davon")

    assert texts(await search(tenant, "ein Häuschen? Häuser!")) == ["Die Katzen schliefen in den Häusern"]
