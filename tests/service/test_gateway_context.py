"""Contexts from what a test's services answer, and from a cluster that remembers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, fault_of, reason_in, refused
from fix_contexts import build_with_receipt, is_same, replay_context
from fix_gateway import gateway_before, hit

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import archives_pb2, blocks_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit import errors
from skein_kit.calls.call import Call
from skein_kit.text.token_estimate import estimate_tokens

USER, ASSISTANT = session_pb2.MESSAGE_ROLE_USER, session_pb2.MESSAGE_ROLE_ASSISTANT
TEA = pb.RecallRequest(query="What does Anna drink?")


async def remembered(tenant: Tenant, *contents: str, **fields: Any) -> list[memory_pb2.Memory]:
    memories = [memory_pb2.Memory(content=content, **fields) for content in contents]
    return list((await tenant.gateway.Remember(pb.RememberRequest(memories=memories))).memories)


async def test_a_memory_that_says_everything_in_its_data_is_in_the_context(tenant: Tenant) -> None:
    memory = memory_pb2.Memory(type="user_preference")
    memory.data.update({"drink": "green tea", "who": "Anna"})
    (made,) = (await tenant.gateway.Remember(pb.RememberRequest(memories=[memory]))).memories

    response = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=TEA))

    assert '"drink": "green tea"' in response.text
    assert [citation.item_id for citation in response.citations] == [made.memory_id]


async def append(tenant: Tenant, session_id: str, *contents: str) -> list[session_pb2.Message]:
    messages = [
        session_pb2.Message(role=ASSISTANT if place % 2 else USER, content=content)
        for place, content in enumerate(contents)
    ]
    request = pb.RememberRequest(session_id=session_id, messages=messages)
    return list((await tenant.gateway.Remember(request)).messages)


async def test_a_context_holds_blocks_profile_memories_and_conversations_with_their_citations(tenant: Tenant) -> None:
    (memory,) = await remembered(tenant, "Anna drinks green tea, and no coffee.", type="fact")
    messages = await append(tenant, "kitchen", "What is there to drink?", "Lemonade, and the tea that Anna drinks.")
    block = blocks_pb2.Block(label="human", value="Anna is the guest. She drinks slowly.")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="butler"))
    subject = subjects_pb2.Subject(subject_id="anna", display_name="Anna Berg", timezone="Europe/Rome")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    request = pb.BuildContextRequest(
        recall=pb.RecallRequest(
            query="What does Anna drink?", filter={"visible_to": {"agent_id": "butler", "subject_id": "anna"}}
        ),
        session_id="kitchen",
    )

    response = await tenant.gateway.BuildContext(request)
    again = await tenant.gateway.BuildContext(request)

    headings = [line for line in response.text.splitlines() if line.startswith("## ")]
    assert headings == ["## Core memory", "## Profile", "## Memories: fact", "## Conversation kitchen"]
    assert "[2] name: Anna Berg\n  | time zone: Europe/Rome" in response.text
    kinds = [citation.kind for citation in response.citations]
    assert kinds == [
        recall_pb2.ITEM_KIND_BLOCK,
        recall_pb2.ITEM_KIND_PROFILE,
        recall_pb2.ITEM_KIND_MEMORY,
        recall_pb2.ITEM_KIND_MESSAGE,
        recall_pb2.ITEM_KIND_MESSAGE,
    ]
    assert [citation.item_id for citation in response.citations[1:]] == [
        "anna",
        memory.memory_id,
        *(message.message_id for message in messages),
    ]
    assert [citation.session_id for citation in response.citations[3:]] == ["kitchen", "kitchen"]
    assert response.citations[2].create_time == memory.create_time
    assert 0 < response.citations[2].score <= 1
    assert (response.token_count, response.omitted_count) == (estimate_tokens(response.text), 0)
    assert [branch.branch for branch in response.branches] == [1, 2, 3, 4, 5, 6]
    assert not response.incomplete
    assert (again.text, again.citations) == (response.text, response.citations)


async def test_the_budget_holds_and_what_is_left_out_is_counted(tenant: Tenant) -> None:
    await remembered(tenant, *(f"Anna drinks tea number {number}. " * 5 for number in range(20)))

    response = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=TEA, token_budget=150))

    assert response.token_count <= 150
    assert len(response.citations) + response.omitted_count == 20


async def test_the_limit_says_how_many_hits_there_are_to_choose_from(tenant: Tenant) -> None:
    await remembered(tenant, *(f"Anna drinks tea number {number}." for number in range(40)))

    usual = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=TEA))
    few = await tenant.gateway.BuildContext(
        pb.BuildContextRequest(recall=pb.RecallRequest(query=TEA.query, limit=3), format=pb.CONTEXT_FORMAT_TEXT)
    )

    assert len(usual.citations) == 30
    assert few.text.startswith("Memories: note\n[1] ")
    assert len(few.citations) == 3


async def test_a_memory_stored_twice_is_in_the_context_once(tenant: Tenant) -> None:
    first, second = await remembered(tenant, "Anna drinks green tea.", "I have heard that Anna drinks green tea.")

    response = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=TEA))

    (citation,) = response.citations
    assert (citation.item_id, list(citation.duplicate_ids)) == (second.memory_id, [first.memory_id])


async def test_a_superseded_memory_is_left_out_even_if_it_is_asked_for(tenant: Tenant) -> None:
    old, new = await remembered(tenant, "Anna drinks coffee.", "By now Anna drinks tea.")
    link = memory_pb2.Link(from_memory_id=new.memory_id, to_memory_id=old.memory_id, relation="supersedes")
    await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))

    response = await tenant.gateway.BuildContext(
        pb.BuildContextRequest(recall=pb.RecallRequest(query=TEA.query, show_superseded=True))
    )

    assert [citation.item_id for citation in response.citations] == [new.memory_id]


@pytest.mark.system
async def test_a_fact_at_the_end_of_a_long_memory_is_shown(tenant: Tenant) -> None:
    await remembered(tenant, "Nothing of note happened that day. " * 200 + "Anna drinks verbena tea.")

    response = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=TEA, token_budget=200))

    assert "… Nothing of note happened that day." in response.text
    assert response.text.endswith("Anna drinks verbena tea.")
    assert response.citations[0].truncated


async def test_the_end_of_a_long_conversation_is_shown(tenant: Tenant) -> None:
    await append(tenant, "long", *(f"Sentence {number} of our talk goes here." for number in range(100)))

    response = await tenant.gateway.BuildContext(
        pb.BuildContextRequest(
            recall=pb.RecallRequest(query="umbrella", filter={"session_id": "other"}),
            session_id="long",
            token_budget=300,
            order=pb.CONTEXT_ORDER_NEWEST_FIRST,
        )
    )

    lines = response.text.splitlines()[2:]
    assert "Sentence 99 of our talk" in lines[0]
    assert 4 <= len(lines) <= 20
    assert response.token_count <= 300
    assert response.branches[-1].branch == pb.BRANCH_WINDOW


async def test_nothing_known_is_an_empty_context(tenant: Tenant) -> None:
    response = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=TEA))

    assert (response.text, len(response.citations), response.token_count, response.omitted_count) == ("", 0, 0, 0)


async def test_a_session_that_is_not_there_is_refused(tenant: Tenant, other_tenant: Tenant) -> None:
    await append(other_tenant, "theirs", "A secret of theirs")

    for session_id in ("nowhere", "theirs"):
        with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
            await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=TEA, session_id=session_id))


async def test_a_context_for_nothing_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "QUERY_EMPTY"):
        await tenant.gateway.BuildContext(pb.BuildContextRequest(recall={}))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.gateway.BuildContext(pb.BuildContextRequest())
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=TEA, token_budget=100_001))


async def test_a_key_that_may_only_search_sees_no_conversation(cluster: Cluster, tenant: Tenant) -> None:
    await append(tenant, "kitchen", "Anna drinks tea.")
    made = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", permissions=["recall.read"]))
    searcher = Stubs.of(cluster.channel, made.secret)

    response = await searcher.gateway.BuildContext(pb.BuildContextRequest(recall=TEA))

    assert len(response.citations) == 1
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await searcher.gateway.BuildContext(pb.BuildContextRequest(recall=TEA, session_id="kitchen"))


async def never(_request: Any, _call: Call) -> Any:
    await asyncio.Event().wait()
    raise AssertionError


async def recall_hits(_request: Any, _call: Call) -> recall_pb2.RecallResponse:
    one = hit("a", 0.5)
    one.memory.content = "Anna drinks tea."
    return recall_pb2.RecallResponse(hits=[one], model="m", formula="scores-9", emptied_by=["types"])


async def away(_request: Any, _call: Call) -> Any:
    raise errors.DatabaseUnavailable


async def window(_request: Any, _call: Call) -> session_pb2.GetRecentWindowResponse:
    message = session_pb2.Message(message_id="m", session_id="kitchen", role=USER, content="Hello", sequence=1)
    return session_pb2.GetRecentWindowResponse(messages=[message])


HERE = pb.BuildContextRequest(recall=TEA, session_id="kitchen")


async def test_a_late_conversation_is_named_and_the_rest_is_packed(cluster: Cluster, tenant: Tenant) -> None:
    script: dict[str, Any] = {"Recall": recall_hits, "GetRecentWindow": never}

    async with gateway_before(cluster, tenant, script, SKEIN_ADVANCED_GATEWAY_RECALL_BRANCH_SECONDS="0.1") as gateway:
        # While a machine stands still for a moment, the search is late as well: then it is asked again.
        async with asyncio.timeout(60):
            while len((response := await gateway.gateway.BuildContext(HERE)).incomplete) > 1:
                pass
        all_of_it = pb.RecallRequest(query="tea", on_partial=pb.ON_PARTIAL_FAIL)
        whole = pb.BuildContextRequest(recall=all_of_it, session_id="kitchen")
        async with asyncio.timeout(60):
            while reason_in(fault := await fault_of(gateway.gateway.BuildContext(whole))) == "DEADLINE_EXCEEDED":
                pass
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED, "RECALL_TIMED_OUT"):
            raise fault

    assert response.incomplete == [pb.BRANCH_WINDOW]
    assert [citation.item_id for citation in response.citations] == ["a"]
    assert (response.model, response.formula, list(response.emptied_by)) == ("m", "scores-9", ["types"])


async def test_a_search_that_is_away_leaves_the_conversation(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {"Recall": away, "GetRecentWindow": window}) as gateway:
        response = await gateway.gateway.BuildContext(HERE)

    assert response.incomplete == [pb.BRANCH_MEMORIES, pb.BRANCH_MESSAGES]
    assert response.text == "## Conversation kitchen\n\n- [1] user: Hello"


async def test_a_context_fails_when_every_service_is_away(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {"Recall": away, "GetRecentWindow": away}) as gateway:
        with refused(grpc.StatusCode.UNAVAILABLE, "DATABASE_UNAVAILABLE"):
            await gateway.gateway.BuildContext(HERE)


async def test_half_of_the_budget_is_the_conversations(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {"Recall": recall_hits, "GetRecentWindow": window}) as gateway:
        await gateway.gateway.BuildContext(HERE)
        await gateway.gateway.BuildContext(pb.BuildContextRequest(recall=TEA, session_id="kitchen", token_budget=1))
        requests = gateway.scripted.requests["GetRecentWindow"]
        recalled = gateway.scripted.requests["Recall"]

    assert [(one.session_id, one.token_budget) for one in requests] == [("kitchen", 1000), ("kitchen", 1)]
    assert recalled[0].limit == 30


@pytest.mark.parametrize("in_process", [True, False], ids=["in process", "over sockets"])
async def test_cancelling_the_call_cancels_everything(cluster: Cluster, tenant: Tenant, in_process: bool) -> None:  # noqa: FBT001 - a parameter.
    begun, ended = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def endless(_request: Any, _call: Call) -> Any:
        begun.release()
        try:
            await asyncio.Event().wait()
        finally:
            ended.release()
        raise AssertionError

    script: dict[str, Any] = {"Recall": endless, "GetRecentWindow": endless}
    async with gateway_before(cluster, tenant, script, in_process=in_process) as gateway:
        call = gateway.gateway.BuildContext(HERE)
        task = asyncio.ensure_future(call)
        for _ in range(2):
            await asyncio.wait_for(begun.acquire(), 30)

        call.cancel()

        for _ in range(2):
            await asyncio.wait_for(ended.acquire(), 30)
        with pytest.raises(asyncio.CancelledError):
            await task


async def know_anna(tenant: Tenant) -> list[memory_pb2.Memory]:
    """Store what is stable about Anna: a home, an allergy, a name and a preference, in this order."""
    of_anna = {"type": "fact", "subject_id": "anna"}
    known = [
        (await remembered(tenant, content, key=key, **of_anna))[0]
        for content, key in (("Lives in Graz", "city"), ("Allergic\nto nuts", "allergy:nuts"), ("Anna Berg", "name"))
    ]
    await remembered(tenant, "Fixed the kettle", **of_anna)
    await remembered(tenant, "Lives in Rome", type="fact", key="city", subject_id="berta")
    return [*known, *await remembered(tenant, "Short answers", type="preference", subject_id="anna")]


@pytest.mark.system
async def test_a_text_about_a_person_begins_with_the_same_stable_facts_whatever_is_asked(tenant: Tenant) -> None:
    city, allergy, name, answers = await know_anna(tenant)
    questions = ("Where does Anna live?", "Who fixed the kettle?")

    live, kettle = [
        await tenant.gateway.BuildContext(pb.BuildContextRequest(recall={"query": query, "subject_id": "anna"}))
        for query in questions
    ]

    assert [one.item_id for one in live.citations[:4]] == [each.memory_id for each in (name, allergy, city, answers)]
    day = city.create_time.ToDatetime().date()
    beginning = (
        f"## Profile facts\n\n- [1] {day}: name: Anna Berg\n- [2] {day}: allergy:nuts: Allergic to nuts\n"
        f"- [3] {day}: city: Lives in Graz\n- [4] {day}: Short answers\n\n"
    )
    assert kettle.text.startswith(beginning)
    assert f"{live.text}\n\n".startswith(beginning)
    assert "Fixed the kettle" in kettle.text.removeprefix(beginning)
    # The search found it too, and says how well; no line repeats it.
    assert live.text.count("Lives in Graz") == 1
    assert live.citations[2].score > 0
    assert live.branches[-1].branch == pb.BRANCH_PAGE
    assert "Rome" not in live.text


@pytest.mark.system
async def test_profile_facts_take_a_tenth_of_the_budget_at_most_and_whole_facts_alone(tenant: Tenant) -> None:
    await know_anna(tenant)
    await remembered(tenant, f"Likes {'very ' * 300}long walks", type="preference", subject_id="anna")
    sizes = {}
    for budget in (10, 1999, 2000, 8000):
        request = pb.BuildContextRequest(recall={"query": "What about the kettle?", "subject_id": "anna"})
        request.token_budget = budget
        with_facts = await tenant.gateway.BuildContext(request)
        page = with_facts.text.partition("## Memories")[0] if "## Profile facts" in with_facts.text else ""
        sizes[budget] = estimate_tokens(page)
        request.omit_profile_facts = True
        assert "## Profile facts" not in (await tenant.gateway.BuildContext(request)).text

    assert all(size <= budget / 10 for budget, size in sizes.items())
    # A small budget is the question's alone.
    assert sizes[10] == sizes[1999] == 0 < sizes[2000] < sizes[8000]


async def test_the_profile_facts_of_a_context_are_current_and_as_of_its_time(tenant: Tenant) -> None:
    (older,) = await remembered(tenant, "Lives in Graz", type="fact", key="city", subject_id="anna")
    newer = memory_pb2.Memory(type="fact", key="city", subject_id="anna", content="Lives in Oslo")
    await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=newer, on_conflict=memory_pb2.ON_CONFLICT_SUPERSEDE)
    )
    request = pb.BuildContextRequest(recall={"query": "kettle", "subject_id": "anna", "min_relevance": 0.99})

    response = await tenant.gateway.BuildContext(request)
    request.recall.as_of_time.CopyFrom(older.record_time)
    former = await tenant.gateway.BuildContext(request)

    assert ("Oslo" in response.text, "Graz" in response.text) == (True, False)
    assert ("Oslo" in former.text, "Graz" in former.text) == (False, True)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"subject_id": "anna", "filter": {"types": ["note"]}},
        {"subject_id": "anna", "filter": {"agent_id": "butler"}},
        {"subject_id": "anna", "min_trust": 0.8},
        {"subject_id": "anna", "branches": ["BRANCH_MESSAGES"]},
    ],
)
async def test_there_are_no_profile_facts_where_other_memories_are_asked_for(
    tenant: Tenant, fields: dict[str, Any]
) -> None:
    await remembered(tenant, "Lives in Graz", type="fact", key="city", subject_id="anna")
    recall = pb.RecallRequest(query="kettle", min_relevance=0.99, **fields)

    response = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=recall))

    assert response.text == ""
    assert pb.BRANCH_PAGE not in [branch.branch for branch in response.branches]


@pytest.mark.system
async def test_a_context_with_profile_facts_is_made_again_from_its_receipt(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    known = await know_anna(tenant)
    recall = pb.RecallRequest(query="What does Anna drink?", subject_id="anna", min_relevance=0.99)
    async with asyncio.timeout(60):
        response = await build_with_receipt(tenant, pb.BuildContextRequest(recall=recall))
    await remembered(tenant, "Plays the harp", type="fact", key="hobby", subject_id="anna")
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=known[0].memory_id))
    replayed = await replay_context(tenant, response.receipt_id)
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection={"memory_ids": [known[0].memory_id]}))
    without = await replay_context(tenant, response.receipt_id)

    assert {citation.item_id for citation in response.citations} == {memory.memory_id for memory in known}
    assert is_same(response, replayed)
    assert "Graz" not in without.text
    assert [(gap.reason, list(gap.item_ids)) for gap in without.gaps if gap.item_ids] == [
        (recall_pb2.REPLAY_GAP_REASON_ITEMS_PURGED, [known[0].memory_id])
    ]


@pytest.mark.system
async def test_a_replay_calls_only_purged_profile_facts_purged(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    city, allergy, name = [
        (await remembered(tenant, content, key=key, type="fact", subject_id="anna", session_id=key))[0].memory_id
        for content, key in (("Lives in Graz", "city"), ("Allergic to nuts", "allergy"), ("Anna Berg", "name"))
    ]
    recall = pb.RecallRequest(query="What does Anna drink?", subject_id="anna", min_relevance=0.99)
    async with asyncio.timeout(60):
        response = await build_with_receipt(tenant, pb.BuildContextRequest(recall=recall))
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection={"memory_ids": [allergy]}))
    request = archives_pb2.ArchiveMemoriesRequest(session_id="city", idle_since_time=datetime.now(UTC))
    assert (await tenant.history.ArchiveMemories(request)).archive.memory_count == 1

    replayed = await replay_context(tenant, response.receipt_id)

    assert {citation.item_id for citation in response.citations} == {city, allergy, name}
    assert {gap.reason: list(gap.item_ids) for gap in replayed.gaps if gap.item_ids} == {
        recall_pb2.REPLAY_GAP_REASON_ITEMS_PURGED: [allergy],
        recall_pb2.REPLAY_GAP_REASON_ITEMS_ARCHIVED: [city],
    }
    assert "Anna Berg" in replayed.text


async def test_profile_facts_whose_history_has_ended_are_not_called_purged(tenant: Tenant, cluster: Cluster) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    known = await know_anna(tenant)
    recall = pb.RecallRequest(query="What does Anna drink?", subject_id="anna", min_relevance=0.99)
    async with asyncio.timeout(60):
        response = await build_with_receipt(tenant, pb.BuildContextRequest(recall=recall))
    async with cluster.superuser() as connection:
        # No earlier time is known of a tenant.
        await connection.execute(
            "UPDATE tenancy.tenants SET create_time = now() WHERE tenant_id = $1", tenant.tenant_id
        )

    replayed = await replay_context(tenant, response.receipt_id)

    assert [gap.reason for gap in replayed.gaps] == [recall_pb2.REPLAY_GAP_REASON_HISTORY_ENDED]
    assert set(replayed.differing_ids) == {memory.memory_id for memory in known}


@pytest.mark.system
async def test_a_ledger_sends_facts_once_withdraws_superseded_ones_and_repeats_lost_text(
    tenant: Tenant,
) -> None:
    await know_anna(tenant)
    recall = pb.RecallRequest(query="kettle", subject_id="anna", min_relevance=0.99)
    request = pb.BuildContextRequest(recall=recall, ledger_id="talk", request_id="first")
    first = await tenant.gateway.BuildContext(request)
    repeated = await tenant.gateway.BuildContext(request)
    request.ledger_revision, request.request_id = first.ledger_revision, ""
    second = await tenant.gateway.BuildContext(request)
    newer = memory_pb2.Memory(type="fact", key="city", subject_id="anna", content="Lives in Oslo")
    await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=newer, on_conflict=memory_pb2.ON_CONFLICT_SUPERSEDE)
    )
    request.ledger_revision, request.request_id = second.ledger_revision, "third"
    third = await tenant.gateway.BuildContext(request)
    third_again = await tenant.gateway.BuildContext(request)

    assert (repeated.text, repeated.rebase) == (first.text, first.rebase)
    assert first.text.count("\n- [") == 4
    assert second.text == ""
    (number,) = [one.number for one in third.withdrawals]
    assert "Graz" in next(line for line in first.text.splitlines() if f"[{number}]" in line)
    assert "Lives in Oslo" in third.text
    assert third_again.text == third.text
