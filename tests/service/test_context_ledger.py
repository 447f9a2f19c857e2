"""Turns of context ledgers: texts that continue earlier ones, and what forces a new first text."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_context_ledgers import QUERY, Prompt, lines_of, remember
from fix_contexts import AGENT, PERSON, SESSION, Household, context_request
from fix_lineage import rescore
from fix_states import expire, superuser, sweep

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import archives_pb2, blocks_pb2, curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import limits_pb2, subjects_pb2

CHANGED = (grpc.StatusCode.ABORTED, "CONTEXT_LEDGER_CHANGED")
NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "CONTEXT_LEDGER_NOT_FOUND")
GONE = pb.REBASE_REASON_ITEM_GONE


@pytest.fixture
def prompt(tenant: Tenant) -> Prompt:
    return Prompt(stubs=tenant)


async def ledgers(cluster: Cluster, tenant: Tenant) -> list[bytes]:
    """Return the stored ledgers of a tenant."""
    connection = await superuser(cluster)
    try:
        question = "SELECT content FROM session.context_ledgers WHERE tenant_id = $1"
        return [row["content"] for row in await connection.fetch(question, tenant.tenant_id)]
    finally:
        await connection.close()


async def key_of(tenant: Tenant, cluster: Cluster, *permissions: str, agent_id: str = "") -> Stubs:
    request = auth_pb2.CreateApiKeyRequest(display_name="other", agent_id=agent_id, permissions=permissions)
    return cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)


async def turn_that_rebases(prompt: Prompt) -> pb.BuildContextResponse:
    """Take turns until one has a first text."""
    async with asyncio.timeout(60):
        while not (turn := await prompt.turn()).rebase:
            await asyncio.sleep(0.05)
    return turn


async def test_the_first_answer_is_a_first_text_and_an_unchanged_one_is_empty(tenant: Tenant, prompt: Prompt) -> None:
    await remember(tenant, "Anna drinks green tea.", "Anna drinks no coffee.")

    first = await prompt.turn()
    again = await prompt.turn()

    assert first.rebase == pb.REBASE_REASON_REQUESTED
    assert [citation.number for citation in first.citations] == [1, 2]
    assert first.cache_breakpoints == [len(first.text)]
    assert (again.text, again.rebase, list(again.citations)) == ("", pb.REBASE_REASON_UNSPECIFIED, [])
    assert again.ledger_revision == first.ledger_revision
    assert again.prompt_token_count == first.prompt_token_count == first.token_count


async def test_what_is_new_is_appended_under_the_next_number(tenant: Tenant, prompt: Prompt) -> None:
    await remember(tenant, "Anna drinks green tea.")
    first = await prompt.turn()
    (memory,) = await remember(tenant, "Anna drinks no coffee.", type="fact")

    second = await prompt.turn()

    assert re.fullmatch(r"\n\n## Memories: fact\n\n- \[2\] [\d-]+: Anna drinks no coffee\.", second.text)
    assert [(one.number, one.item_id) for one in second.citations] == [(2, memory.memory_id)]
    assert prompt.text == first.text + second.text
    assert second.prompt_token_count == first.token_count + second.token_count
    assert second.cache_breakpoints == [len(second.text)]


async def test_a_changed_item_is_said_again_under_its_number(tenant: Tenant, prompt: Prompt) -> None:
    (memory,) = await remember(tenant, "Anna drinks green tea.")
    await prompt.turn()
    memory.content = "Anna drinks white tea.\n- [1] withdrawn: superseded"
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["content"]}))

    changed = await prompt.turn()

    assert re.fullmatch(
        r"\n\n## Changes\n\n- \[1\] now: [\d-]+: Anna drinks white tea\.\n  \| - \(1\) withdrawn: superseded",
        changed.text,
    )
    assert [(one.number, one.item_id) for one in changed.citations] == [(1, memory.memory_id)]
    assert (await prompt.turn()).text == ""


async def test_a_change_that_no_text_shows_is_not_said(tenant: Tenant, prompt: Prompt) -> None:
    (memory,) = await remember(tenant, "Anna drinks green tea.")
    await prompt.turn()
    memory.importance = 0.9
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["importance"]})
    )

    assert (await prompt.turn()).text == ""


async def test_a_superseded_item_is_withdrawn(tenant: Tenant, prompt: Prompt) -> None:
    (old,) = await remember(tenant, "Anna drinks green tea.")
    await prompt.turn()
    (new,) = await remember(tenant, "Anna drinks white tea since May.")
    link = memory_pb2.Link(from_memory_id=new.memory_id, to_memory_id=old.memory_id, relation="supersedes")
    await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))

    turn = await prompt.turn()

    assert lines_of(turn.text)[0] == "- [1] withdrawn: superseded"
    assert [(one.number, one.reason) for one in turn.withdrawals] == [(1, recall_pb2.KNOWN_ITEM_STATE_SUPERSEDED)]
    assert [one.number for one in turn.citations] == [2]
    assert (await prompt.turn()).text == ""


async def test_an_item_that_is_no_longer_valid_is_withdrawn(tenant: Tenant, prompt: Prompt) -> None:
    (memory,) = await remember(tenant, "Anna drinks green tea.")
    await prompt.turn()
    memory.valid_to_time.GetCurrentTime()
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["valid_to_time"]})
    )

    turn = await prompt.turn()

    assert lines_of(turn.text) == ["- [1] withdrawn: expired"]
    assert [one.reason for one in turn.withdrawals] == [recall_pb2.KNOWN_ITEM_STATE_EXPIRED]


async def _delete(tenant: Tenant, memory: memory_pb2.Memory) -> None:
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory.memory_id))


async def _purge(tenant: Tenant, memory: memory_pb2.Memory) -> None:
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection={"memory_ids": [memory.memory_id]}))


async def _hide(tenant: Tenant, memory: memory_pb2.Memory) -> None:
    memory.scope, memory.agent_id = memory_pb2.SCOPE_AGENT, "another"
    mask = {"paths": ["scope", "agent_id"]}
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=memory, update_mask=mask))


@pytest.mark.parametrize("withdraw", [_delete, _purge, _hide])
async def test_an_item_that_the_reader_may_not_see_any_more_forces_a_first_text(
    tenant: Tenant, prompt: Prompt, withdraw: Callable[..., Any]
) -> None:
    prompt.fields["recall"] = {"filter": {"visible_to": {"agent_id": AGENT, "subject_id": PERSON}}}
    secret, _ = await remember(tenant, "Anna drinks the secret tea.", "Anna drinks no coffee.")
    first = await prompt.turn()
    number = next(one.number for one in first.citations if one.item_id == secret.memory_id)
    await withdraw(tenant, secret)

    turn = await prompt.turn()

    assert turn.rebase == GONE
    assert "secret" not in prompt.text
    assert [one.number for one in turn.citations] == [3 - number]


async def test_a_distrusted_source_forces_a_first_text(tenant: Tenant, prompt: Prompt, cluster: Cluster) -> None:
    prompt.fields["recall"] = {"min_trust": 0.5}
    (memory,) = await remember(tenant, "Anna drinks green tea.")
    await prompt.turn()
    await tenant.curation.SetSourceTrust(curation_pb2.SetSourceTrustRequest(source=memory.created_by, trust=0.1))
    await rescore(cluster, tenant)

    turn = await turn_that_rebases(prompt)

    assert (turn.rebase, turn.text) == (GONE, "")


async def test_an_item_in_cold_storage_forces_a_first_text(tenant: Tenant, prompt: Prompt) -> None:
    cold, kept = await remember(tenant, "Anna drinks green tea.", "Anna drinks no coffee.")
    cold.session_id = "long-ago"
    mask = {"paths": ["session_id"]}
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=cold, update_mask=mask))
    await prompt.turn()
    archived = archives_pb2.ArchiveMemoriesRequest(session_id="long-ago", idle_since_time=datetime.now(UTC))
    assert (await tenant.history.ArchiveMemories(archived)).archive.memory_count == 1

    turn = await prompt.turn()

    assert turn.rebase == GONE
    assert "green" not in prompt.text
    assert [one.item_id for one in turn.citations] == [kept.memory_id]


@pytest.mark.system
async def test_a_permission_that_is_lost_between_two_turns_forces_a_first_text(
    tenant: Tenant, cluster: Cluster
) -> None:
    subject = subjects_pb2.Subject(subject_id=PERSON, display_name="Anna Berg")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    await remember(tenant, "Anna drinks green tea.", subject_id=PERSON)
    account = accounts_pb2.ServiceAccount(display_name="agent", permissions=["recall.read", "subject.read"])
    request = accounts_pb2.CreateServiceAccountRequest(service_account=account)
    account = (await tenant.auth.CreateServiceAccount(request)).service_account
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(
        display_name="key", service_account_id=account.service_account_id
    ))  # fmt: skip
    prompt = Prompt(stubs=cluster.with_key(key.secret), fields={"recall": {"subject_id": PERSON}})
    first = await prompt.turn()

    account.permissions[:] = ["recall.read"]
    await tenant.auth.UpdateServiceAccount(
        accounts_pb2.UpdateServiceAccountRequest(service_account=account, update_mask={"paths": ["permissions"]})
    )
    turn = await turn_that_rebases(prompt)

    assert "Anna Berg" in first.text
    assert turn.rebase == GONE
    assert "green tea" in prompt.text
    assert "Anna Berg" not in prompt.text


@pytest.mark.system
async def test_blocks_profile_and_messages_continue_too(tenant: Tenant) -> None:
    household = await Household.fill(tenant, random.Random(5), memories=8)
    request = context_request("the kettle of the kitchen", token_budget=5000)
    prompt = Prompt(stubs=tenant, fields={"session_id": SESSION, "token_budget": 5000, "recall": {
        "filter": request.recall.filter}})  # fmt: skip
    query = "the kettle and the boiler and the garden and the roof belong together"
    first = await prompt.turn(query)
    kinds = {one.kind for one in first.citations}
    await household.append(random.Random(6), count=2)
    await household.change_profile(random.Random(7))
    profile = next(one for one in first.citations if one.kind == recall_pb2.ITEM_KIND_PROFILE)

    second = await prompt.turn(query)

    assert kinds == set(range(1, 5))
    assert len(first.cache_breakpoints) == 3
    assert f"- [{profile.number}] now: profile: name: Anna Berg" in second.text
    assert {one.kind for one in second.citations} >= {recall_pb2.ITEM_KIND_PROFILE, recall_pb2.ITEM_KIND_MESSAGE}
    assert second.rebase == 0


async def test_a_block_that_is_detached_forces_a_first_text(tenant: Tenant) -> None:
    block = blocks_pb2.Block(block_id="human", label="human", value="Anna drinks green tea.")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id=AGENT))
    fields = {"recall": {"filter": {"visible_to": {"agent_id": AGENT}}}}
    prompt = Prompt(stubs=tenant, fields=fields)
    first = await prompt.turn()

    block.value = "Anna drinks white tea."
    await tenant.blocks.UpdateBlock(blocks_pb2.UpdateBlockRequest(block=block, update_mask={"paths": ["value"]}))
    changed = await prompt.turn()
    await tenant.blocks.DetachBlock(blocks_pb2.DetachBlockRequest(block_id="human", agent_id=AGENT))
    detached = await prompt.turn()

    assert "green tea" in first.text
    assert lines_of(changed.text)[0].endswith("human: Anna drinks white tea.")
    assert (detached.rebase, detached.text) == (GONE, "")


@pytest.mark.system
async def test_a_message_that_is_deleted_forces_a_first_text(tenant: Tenant) -> None:
    chosen = random.Random(8)
    household = await Household.fill(tenant, chosen, memories=0)
    prompt = Prompt(stubs=tenant, fields={"session_id": SESSION})
    first = await prompt.turn("kettle")

    await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=household.message_ids[-1]))
    turn = await prompt.turn("kettle")

    assert household.message_ids[-1] in {one.item_id for one in first.citations}
    assert turn.rebase == GONE
    assert household.message_ids[-1] not in {one.item_id for one in turn.citations}


async def test_another_reader_or_budget_begins_anew_and_other_conditions_do_not(tenant: Tenant, prompt: Prompt) -> None:
    await remember(tenant, "Anna drinks green tea.", type="fact")
    await prompt.turn()

    narrowed = await prompt.turn(recall={"filter": {"types": ["fact"]}})
    read = await prompt.turn(recall={"filter": {"visible_to": {"subject_id": "bert"}}})
    budget = await prompt.turn(recall={"filter": {"visible_to": {"subject_id": "bert"}}}, token_budget=900)

    assert (narrowed.rebase, narrowed.text) == (0, "")
    assert [read.rebase, budget.rebase] == 2 * [pb.REBASE_REASON_REQUEST_CHANGED]


@pytest.mark.system
async def test_a_lost_answer_comes_again_under_its_request_id(tenant: Tenant, prompt: Prompt) -> None:
    tea, _ = await remember(tenant, "Anna drinks green tea. " * 40, "Anna drinks no coffee.")
    first_request = prompt.request(request_id="r1")
    lost = await tenant.gateway.BuildContext(first_request)
    first = prompt.take(await tenant.gateway.BuildContext(first_request))
    await remember(tenant, "Anna drinks milk.", "Anna drinks " + "water, and tea, " * 200)
    tea.content = "Anna drinks white tea."
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=tea, update_mask={"paths": ["content"]}))
    request = prompt.request(request_id="r2")

    lost_append = await tenant.gateway.BuildContext(request)
    await remember(tenant, "Anna drinks juice.")
    again = await tenant.gateway.BuildContext(request)

    assert (first.text, first.ledger_revision, first.rebase) == (lost.text, lost.ledger_revision, lost.rebase)
    assert "now:" in again.text
    assert (again.text, again.ledger_revision, again.rebase) == (lost_append.text, lost_append.ledger_revision, 0)
    assert again.cache_breakpoints == lost_append.cache_breakpoints
    assert again.prompt_token_count == lost_append.prompt_token_count
    prompt.take(again)
    assert "juice" in (await prompt.turn()).text


async def test_a_lost_answer_whose_item_was_purged_does_not_come_again(tenant: Tenant, prompt: Prompt) -> None:
    secret, _ = await remember(tenant, "Anna drinks the secret tea.", "Anna drinks no coffee.")
    request = prompt.request(request_id="r1")
    await tenant.gateway.BuildContext(request)
    await _purge(tenant, secret)

    again = await tenant.gateway.BuildContext(request)

    assert again.rebase == pb.REBASE_REASON_ANSWER_LOST
    assert "secret" not in again.text


async def test_a_request_id_with_another_request_is_refused(tenant: Tenant, prompt: Prompt) -> None:
    await remember(tenant, "Anna drinks green tea.")
    await prompt.turn(request_id="r1")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED"):
        await prompt.turn("What is blue?", request_id="r1")


@pytest.mark.system
async def test_of_two_turns_at_once_one_wins(tenant: Tenant, prompt: Prompt) -> None:
    await remember(tenant, "Anna drinks green tea.")
    await prompt.turn()
    await remember(tenant, "Anna drinks no coffee.")
    requests = [prompt.request(request_id=f"r{number}") for number in range(4)]

    results = await asyncio.gather(*map(tenant.gateway.BuildContext, requests), return_exceptions=True)

    answers = [one for one in results if isinstance(one, pb.BuildContextResponse)]
    assert len(answers) == 1
    for result in results:
        if isinstance(result, grpc.aio.AioRpcError):
            with refused(*CHANGED):
                raise result
    prompt.take(answers[0])
    assert (await prompt.turn()).text == ""


async def test_the_same_turn_twice_at_once_has_one_answer(tenant: Tenant, prompt: Prompt) -> None:
    await remember(tenant, "Anna drinks green tea.")
    request = prompt.request(request_id="r1")

    results = await asyncio.gather(*(tenant.gateway.BuildContext(request) for _ in range(4)))

    assert len({(one.text, one.ledger_revision) for one in results}) == 1


async def test_an_older_revision_is_refused_and_zero_begins_anew(tenant: Tenant, prompt: Prompt) -> None:
    await remember(tenant, "Anna drinks green tea.")
    first = await prompt.turn()
    await remember(tenant, "Anna drinks no coffee.")
    await prompt.turn()

    with refused(*CHANGED) as caught:
        await tenant.gateway.BuildContext(prompt.request(ledger_revision=first.ledger_revision))
    anew = await prompt.turn(ledger_revision=0)

    assert caught.value.code() is grpc.StatusCode.ABORTED
    assert anew.rebase == pb.REBASE_REASON_REQUESTED
    assert [one.number for one in sorted(anew.citations, key=lambda one: one.create_time.ToNanoseconds())] == [1, 2]


async def test_an_expired_ledger_is_not_found_and_swept(tenant: Tenant, cluster: Cluster, prompt: Prompt) -> None:
    await remember(tenant, "Anna drinks green tea.")
    first = await prompt.turn()
    await expire(cluster, tenant, "context_ledgers")

    with refused(*NOT_FOUND):
        await prompt.turn()
    anew = await prompt.turn(ledger_revision=0)
    await expire(cluster, tenant, "context_ledgers")
    await sweep(cluster, tenant)

    assert anew.ledger_revision > first.ledger_revision
    assert await ledgers(cluster, tenant) == []


@pytest.mark.system
async def test_a_ledger_belongs_to_its_maker(tenant: Tenant, other_tenant: Tenant, cluster: Cluster) -> None:
    await remember(tenant, "Anna drinks green tea.")
    prompt = Prompt(stubs=tenant)
    await prompt.turn()

    others = [
        other_tenant,
        await key_of(tenant, cluster, "recall.read"),
        await key_of(tenant, cluster, "recall.read", agent_id=AGENT),
    ]
    for other in others:
        with refused(*NOT_FOUND):
            await other.gateway.BuildContext(prompt.request())
        own = await other.gateway.BuildContext(prompt.request(ledger_revision=0))
        assert own.rebase == pb.REBASE_REASON_REQUESTED
    assert (await prompt.turn()).text == ""


async def test_a_reader_alone_may_keep_a_ledger(tenant: Tenant, cluster: Cluster) -> None:
    await remember(tenant, "Anna drinks green tea.")
    prompt = Prompt(stubs=await key_of(tenant, cluster, "recall.read"))

    first = await prompt.turn()

    assert "green tea" in first.text
    assert (await prompt.turn()).text == ""


@pytest.mark.system
async def test_appends_beyond_their_share_of_the_budget_begin_anew(tenant: Tenant, prompt: Prompt) -> None:
    prompt.fields["token_budget"] = 200
    await remember(tenant, "Anna drinks green tea.")
    await prompt.turn()
    turns: list[pb.BuildContextResponse] = []
    while pb.REBASE_REASON_BUDGET not in prompt.rebases:
        assert len(turns) < 200
        await remember(tenant, f"Anna drinks tea number {len(turns)} at noon.")
        before = prompt.text
        turns.append(turn := await prompt.turn())
        assert turn.token_count <= 200
        assert turn.rebase or prompt.text.startswith(before)

    assert len(turns) > 5
    assert turns[-1].prompt_token_count == turns[-1].token_count


async def test_an_as_of_time_has_no_ledger(prompt: Prompt) -> None:
    request = prompt.request()
    request.recall.as_of_time.GetCurrentTime()

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await prompt.stubs.gateway.BuildContext(request)


@pytest.mark.system
async def test_a_ledger_holds_no_content_and_goes_with_its_person(
    tenant: Tenant, cluster: Cluster, prompt: Prompt
) -> None:
    prompt.fields["recall"] = {"subject_id": PERSON}
    await tenant.tenancy.CreateSubject(
        subjects_pb2.CreateSubjectRequest(subject=subjects_pb2.Subject(subject_id=PERSON, display_name="Anna"))
    )
    await remember(tenant, "Anna drinks green tea.", subject_id=PERSON, scope=memory_pb2.SCOPE_USER)
    await prompt.turn()
    stored = await ledgers(cluster, tenant)
    exported = await tenant.sessions.ExportSubject(session_pb2.ExportSubjectRequest(subject_id=PERSON))
    usage = await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest())

    await tenant.gateway.Forget(pb.ForgetRequest(subject_id=PERSON))

    assert len(stored) == 1
    assert b"green" not in stored[0]
    assert [one.ledger.ledger_id for one in exported.records] == [prompt.ledger_id]
    assert len(exported.records[0].ledger.entries) == 2
    assert {one.kind: one.used for one in usage.usage}["session_items"] == 1
    assert await ledgers(cluster, tenant) == []
    with refused(*NOT_FOUND):
        await prompt.turn()


@pytest.mark.system
async def test_a_ledger_goes_with_its_session(tenant: Tenant, cluster: Cluster) -> None:
    await Household.fill(tenant, random.Random(9), memories=0)
    prompt = Prompt(stubs=tenant, fields={"session_id": SESSION})
    await prompt.turn("kettle")

    await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id=SESSION))

    assert await ledgers(cluster, tenant) == []


async def test_a_full_quota_refuses_a_new_ledger(tenant: Tenant, cluster: Cluster, prompt: Prompt) -> None:
    operator = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    quota = limits_pb2.Quota(session_items=0)
    await operator.tenancy.UpdateQuota(
        limits_pb2.UpdateQuotaRequest(quota=quota, update_mask={"paths": ["session_items"]})
    )

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
        await prompt.turn()


@pytest.mark.system
async def test_the_prompt_is_what_the_ledger_says_whatever_happens(tenant: Tenant) -> None:
    chosen = random.Random(11)
    household = await Household.fill(tenant, chosen, memories=10)
    fields = {
        "session_id": SESSION, "token_budget": 600,
        "recall": {"filter": {"visible_to": {"agent_id": AGENT, "subject_id": PERSON}}},
    }  # fmt: skip
    prompt = Prompt(stubs=tenant, fields=fields)
    numbers: dict[str, int] = {}
    for number in range(25):
        before = prompt.text
        turn = await prompt.turn(f"the kettle and the garden {number % 3}")
        assert turn.rebase or prompt.text.startswith(before)
        assert turn.prompt_token_count == sum_of_tokens(prompt, turn, before)
        for citation in turn.citations:
            assert numbers.setdefault(citation.item_id, citation.number) == citation.number
        assert len(set(numbers.values())) == len(numbers)
        shown = {int(found) for found in re.findall(r"^- \[(\d+)\]", prompt.text, re.MULTILINE)}
        assert shown <= set(numbers.values())
        await household.write(chosen)

    whole = await tenant.gateway.BuildContext(prompt.request("kettle", ledger_revision=0))
    assert all(numbers.get(one.item_id, one.number) == one.number for one in whole.citations)


def sum_of_tokens(prompt: Prompt, turn: pb.BuildContextResponse, before: str) -> int:
    """Return what the ledger counts: the tokens of the first text, and of each append."""
    counts = prompt.__dict__.setdefault("counts", [])
    if turn.rebase:
        counts.clear()
    assert turn.rebase or prompt.text == before + turn.text
    counts.append(turn.token_count)
    return sum(counts)


async def test_a_ledger_may_begin_with_an_empty_text(prompt: Prompt) -> None:
    response = await prompt.turn(QUERY)

    assert (response.text, response.rebase) == ("", pb.REBASE_REASON_REQUESTED)
    assert response.ledger_revision > 0
