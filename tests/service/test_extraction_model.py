"""Facts that a language model proposes: what is stored, refused and sent to whom; budgets, failures, later attempts."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant
from fix_cluster import refused as refused_call
from fix_extraction import Jobs, current, facts, jobs_of, learning_tenant, say, settings_of
from fix_language_model import (
    BROKEN,
    CELLO,
    COMPLETION_TOKENS,
    HOSTILE,
    PROMPT_TOKENS,
    LanguageModel,
    running_language_model,
)
from fix_language_model import facts as proposals
from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import access_log_pb2, approvals_pb2, curation_pb2, memory_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import jobs_pb2, subjects_pb2
from skein_kit.outbound.fetch import SafeHttpClient
from skein_worker.settings import WorkerSettings

SAID = CELLO[:-1]
TOKENS = PROMPT_TOKENS + COMPLETION_TOKENS
MODEL = jobs_pb2.JOB_KIND_MODEL_EXTRACTION


@asynccontextmanager
async def reading(
    cluster: Cluster, *, seconds: float = 20.0, **settings: Any
) -> AsyncIterator[tuple[LanguageModel, Jobs]]:
    """A language model, and a worker's extraction that uses it."""
    async with running_language_model() as model:
        job = jobs_of(
            settings_of(cluster),
            cluster.addresses,
            model=model.fact_model(seconds=seconds),
            settings=WorkerSettings(**settings),
        )
        yield model, job


async def read_all(job: Jobs, tenant: Tenant) -> None:
    await job.read_all(str(tenant.tenant_id))


async def refused(tenant: Tenant) -> list[tuple[str, str]]:
    response = await tenant.curation.ListRefusedFacts(approvals_pb2.ListRefusedFactsRequest())
    return [(fact.created_by, fact.refusal_reason) for fact in response.refused_facts]


async def job_state(tenant: Tenant) -> jobs_pb2.Job:
    jobs = (await tenant.tenancy.GetJobs(jobs_pb2.GetJobsRequest())).jobs
    return next(job for job in jobs if job.kind == MODEL)


async def failures(tenant: Tenant) -> list[session_pb2.ExtractionFailure]:
    request = session_pb2.ListFailedExtractionsRequest()
    return list((await tenant.sessions.ListFailedExtractions(request)).failures)


async def let_pass(cluster: Cluster, tenant: Tenant) -> None:
    """Let the pauses of the queue pass."""
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE session.extraction_messages SET retry_time = now() WHERE tenant_id = $1 AND kind = 'model'",
            tenant.tenant_id,
        )


async def test_a_fact_of_a_model_names_its_author_and_the_characters_that_say_it(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        (message,) = await say(tenant, f"Hello! {CELLO}")
        model.says(message.content, proposals({"quote": CELLO}))

        await read_all(job, tenant)

    (fact,) = await facts(tenant)
    lineage = await tenant.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=[fact.memory_id]))
    (edge,) = (edge for edge in lineage.edges if lineage.nodes[edge.source_number].id == message.message_id)
    assert (fact.content, fact.type, fact.key, fact.subject_id) == (SAID, "fact", "", "mira")
    assert (fact.created_by, fact.source) == ("extractor:model@1", "extractor:model@1")
    assert message.content[edge.start_character : edge.end_character] == SAID


@pytest.mark.system
async def test_rules_read_first_and_a_model_repeats_nothing_of_them(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        (message,) = await say(tenant, f"I live in Porto. {CELLO}")
        model.says(message.content, proposals({"quote": "I live in Porto."}, {"quote": CELLO}))

        await read_all(job, tenant)

    assert [(fact.content, fact.created_by) for fact in await facts(tenant)] == [
        ("I live in Porto", "extractor:rules@4"),
        (SAID, "extractor:model@1"),
    ]


@pytest.mark.system
async def test_nothing_of_a_hostile_model_is_stored_and_each_refusal_has_its_reason(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        for number, (text, proposal, _) in enumerate(HOSTILE.values()):
            model.says(text, proposals(proposal))
            await say(tenant, text, session_id=f"talk-{number}")
            await read_all(job, tenant)

    assert [fact.content for fact in await facts(tenant) if fact.created_by == "extractor:model@1"] == []
    assert sorted(await refused(tenant)) == sorted(("extractor:model@1", reason) for _, _, reason in HOSTILE.values())


@pytest.mark.system
@pytest.mark.parametrize("name", BROKEN)
async def test_a_message_whose_answer_is_broken_is_read_later_or_is_a_failure_with_a_reason(
    cluster: Cluster, name: str
) -> None:
    reply, reason = BROKEN[name]
    async with reading(cluster, seconds=0.5 if reply.hangs else 20.0) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        (message,) = await say(tenant, CELLO)
        model.says(CELLO, reply)

        await read_all(job, tenant)
        model.released.set()
        stored, failed = await facts(tenant), await failures(tenant)
        model.says(CELLO, proposals({"quote": CELLO}))
        await let_pass(cluster, tenant)
        if failed:
            await tenant.sessions.StartExtraction(session_pb2.StartExtractionRequest())
        # Another process, whose circuit breaker is closed.
        later = jobs_of(settings_of(cluster), cluster.addresses, model=model.fact_model())
        await read_all(later, tenant)

    is_final = reason in {"schema", "truncated"}
    assert stored == []
    assert [(failure.message_id, failure.reason, failure.attempt_count) for failure in failed] == (
        [(message.message_id, reason, 1)] if is_final else []
    )
    assert await current(tenant) == [SAID]
    assert await failures(tenant) == []


@pytest.mark.system
async def test_a_message_is_a_failure_after_its_last_attempt(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        (message,) = await say(tenant, CELLO)
        model.says(CELLO, BROKEN["no choices"][0])

        for _ in range(16):
            await read_all(job, tenant)
            await let_pass(cluster, tenant)
        sent = len(model.requests)
        await read_all(job, tenant)

    (failure,) = await failures(tenant)
    assert (failure.message_id, failure.session_id, failure.reason) == (message.message_id, "talk", "content")
    assert (failure.attempt_count, sent, len(model.requests)) == (16, 16, 16)


@pytest.mark.system
async def test_a_message_that_waits_holds_up_no_deletion_and_is_not_sent_at_once(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        await say(tenant, CELLO)
        (deleted,) = await say(tenant, "I live in Porto.")
        model.says(CELLO, BROKEN["no choices"][0])
        await read_all(job, tenant)
        before = await current(tenant)

        await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=deleted.message_id))
        await read_all(job, tenant)

    assert (before, await current(tenant)) == (["I live in Porto"], [])
    assert model.messages == [CELLO]


async def test_the_rules_facts_of_a_message_that_waits_are_stored_once(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model", approval="agents")
        (message,) = await say(tenant, f"I live in Porto. {CELLO}")
        model.says(message.content, BROKEN["no choices"][0], proposals({"quote": CELLO}))

        await read_all(job, tenant)
        await let_pass(cluster, tenant)
        await read_all(job, tenant)

    pending = await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())
    assert sorted(one.memory.content for one in pending.pending_memories) == ["I live in Porto", SAID]


async def test_a_429_is_no_attempt_and_stops_the_lease(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model", extraction_messages=2)
        await say(tenant, CELLO, "I collect old maps.")
        model.says(CELLO, BROKEN["429"][0])

        await read_all(job, tenant)
        async with cluster.superuser() as connection:
            rows = await connection.fetch(
                "SELECT attempt_count, retry_time > now() + interval '5 s' AS waits"
                " FROM session.extraction_messages WHERE tenant_id = $1",
                tenant.tenant_id,
            )

    assert model.messages == [CELLO]
    assert [tuple(row) for row in rows] == [(0, True), (0, True)]


async def test_tokens_are_counted_and_messages_beyond_the_budget_wait(cluster: Cluster) -> None:
    async with reading(cluster, extraction_tokens_per_day=TOKENS) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model", extraction_messages=2)
        await say(tenant, CELLO, "I collect old maps.")

        await read_all(job, tenant)
        state = await job_state(tenant)

    assert model.messages == [CELLO]
    assert (state.day_cost, state.done_count, state.remaining_count) == (TOKENS, 1, 1)
    assert state.cost == jobs_pb2.JOB_COST_TOKENS


@pytest.mark.system
async def test_a_tenant_pauses_and_limits_its_model(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        await tenant.tenancy.PauseJob(jobs_pb2.PauseJobRequest(kind=MODEL))
        await say(tenant, f"I live in Porto. {CELLO}")
        await read_all(job, tenant)
        paused, sent = await current(tenant), len(model.requests)

        await tenant.tenancy.ResumeJob(jobs_pb2.ResumeJobRequest(kind=MODEL))
        await tenant.tenancy.LimitJob(
            jobs_pb2.LimitJobRequest(kind=MODEL, limits=jobs_pb2.JobLimits(max_cost_per_day=1))
        )
        await let_pass(cluster, tenant)
        await read_all(job, tenant)
        await say(tenant, "I collect old maps.")
        await read_all(job, tenant)
        state = await job_state(tenant)

    assert (paused, sent) == (["I live in Porto"], 0)
    assert len(model.requests) == 1
    assert (state.state, state.day_cost) == (jobs_pb2.JOB_STATE_CEILING_REACHED, TOKENS)


@pytest.mark.system
async def test_the_access_log_says_which_message_was_sent_to_whom(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        (message,) = await say(tenant, CELLO)
        await read_all(job, tenant)

    entries: list[access_log_pb2.AccessEvent] = []
    async with asyncio.timeout(20):
        while not entries:
            page = await tenant.history.ListAccessLog(access_log_pb2.ListAccessLogRequest())
            entries = [entry for entry in page.access_events if entry.method == "StartModelCall"]
            await asyncio.sleep(0.1)
    (entry,) = entries
    data = json.loads(entry.request_data_json)
    assert (entry.principal, entry.session_id, entry.subject_id) == ("extractor:model@1", "talk", "mira")
    assert (data["message_id"], data["endpoint"], data["model"]) == (
        message.message_id, model.url.removesuffix("/v1"), "small",
    )  # fmt: skip
    assert CELLO not in json.dumps(data)


@pytest.mark.parametrize(("wish", "sent", "kept"), [("rules", 0, 1), ("off", 0, 0), ("model", 1, 1)])
async def test_a_person_can_be_exempt(cluster: Cluster, wish: str, sent: int, kept: int) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        subject = subjects_pb2.Subject(
            subject_id="mira", display_name="Mira", preferences_json=json.dumps({"extraction": wish})
        )
        await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
        await say(tenant, "I live in Porto.")

        await read_all(job, tenant)

    assert (len(model.requests), len(await current(tenant))) == (sent, kept)


async def test_a_pasted_text_and_the_messages_of_others_are_not_sent(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        await say(tenant, "long " * 5000)
        await say(tenant, CELLO, role="ASSISTANT")

        await read_all(job, tenant)

    assert model.requests == []


async def test_instructions_and_types_of_the_policy_reach_the_model_and_bind_the_rules(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(
            cluster, extraction="model", extraction_instructions="Instruments.", extraction_types=["note"]
        )
        await say(tenant, "I live in Porto. Remember that the key lies under the mat.")

        await read_all(job, tenant)

    assert await current(tenant) == ["Remember that the key lies under the mat"]
    prompt = model.requests[0]["messages"][0]["content"]
    assert "Instruments." in prompt
    assert "one of note." in prompt


@pytest.mark.system
async def test_a_corrected_message_is_sent_again_and_its_facts_end(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        model.says(CELLO, proposals({"quote": CELLO}))
        model.says("I play the flute.", proposals({"quote": "I play the flute."}))
        (message,) = await say(tenant, CELLO)
        await read_all(job, tenant)

        await tenant.sessions.UpdateMessage(
            session_pb2.UpdateMessageRequest(
                message=session_pb2.Message(message_id=message.message_id, content="I play the flute."),
                update_mask=FieldMask(paths=["content"]),
            )
        )
        await read_all(job, tenant)

    assert await current(tenant) == ["I play the flute"]


@pytest.mark.system
async def test_a_purged_message_takes_its_facts_and_its_failure_with_it(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        model.says(CELLO, proposals({"quote": CELLO}))
        model.says("I collect old maps.", BROKEN["prose"][0])
        read, failed = await say(tenant, CELLO, "I collect old maps.")
        await read_all(job, tenant)
        before = len(await failures(tenant)), len(await facts(tenant))

        ids = [read.message_id, failed.message_id]
        await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=ids))
        await read_all(job, tenant)

    assert before == (1, 1)
    assert (await failures(tenant), await facts(tenant)) == ([], [])


@pytest.mark.system
async def test_without_a_model_rules_read_and_a_backfill_sends_the_rest_later(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        model.says(CELLO, proposals({"quote": CELLO}))
        await say(tenant, CELLO)
        await read_all(jobs_of(settings_of(cluster), cluster.addresses), tenant)
        before = await current(tenant)

        await tenant.sessions.StartExtraction(session_pb2.StartExtractionRequest())
        await read_all(job, tenant)

    assert (before, await current(tenant)) == ([], [SAID])


@pytest.mark.system
async def test_two_workers_at_once_send_each_message_once(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        model.says(CELLO, proposals({"quote": CELLO}))
        for number in range(4):
            await say(tenant, CELLO, subject_id=f"person-{number}", session_id=f"talk-{number}")
        other = jobs_of(settings_of(cluster), cluster.addresses, model=model.fact_model())

        await asyncio.gather(read_all(job, tenant), read_all(other, tenant))

    assert model.messages == [CELLO] * 4
    assert len(await facts(tenant)) == 4


@pytest.mark.system
async def test_a_lease_that_ends_during_a_slow_call_doubles_nothing(cluster: Cluster) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        await say(tenant, CELLO)
        model.says(CELLO, replace(proposals({"quote": CELLO}), waits=True), proposals({"quote": CELLO}))
        slow = asyncio.create_task(read_all(job, tenant))
        async with asyncio.timeout(20):
            while not model.requests:
                await asyncio.sleep(0.01)

        await let_pass(cluster, tenant)
        other = jobs_of(settings_of(cluster), cluster.addresses, model=model.fact_model())
        await read_all(other, tenant)
        model.released.set()
        await slow
        await let_pass(cluster, tenant)
        await read_all(other, tenant)

    assert len(await facts(tenant)) == 1


async def own_endpoint(cluster: Cluster, url: str, *, key: str = "sk-of-the-tenant") -> Tenant:
    """A tenant with an endpoint of its own, whose key is in the vault."""
    tenant = await cluster.new_tenant()
    memory = memory_pb2.Memory(type="knowledge_vault", content="model", secret_value=key)
    stored = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory
    values = {
        "extraction": "model",
        "extraction_messages": 1,
        "extraction_url": url,
        "extraction_model": "own",
        "extraction_key_id": stored.memory_id,
    }
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(**values),  # type: ignore[arg-type]  # Each has the type of its field.
            update_mask=FieldMask(paths=list(values)),
        )
    )
    return tenant


@pytest.mark.system
async def test_a_tenant_s_own_endpoint_gets_its_messages_with_its_own_key(cluster: Cluster) -> None:
    async with running_language_model() as own, reading(cluster) as (model, _):
        outbound = SafeHttpClient(allow=[own.url.removesuffix("/v1")])
        job = jobs_of(settings_of(cluster), cluster.addresses, model=model.fact_model(), outbound=outbound)
        tenant = await own_endpoint(cluster, own.url)
        own.says(CELLO, proposals({"quote": CELLO}))
        await say(tenant, CELLO)

        await read_all(job, tenant)

    assert (own.keys, own.requests[0]["model"], model.requests) == (["Bearer sk-of-the-tenant"], "own", [])
    assert SAID in await current(tenant)


@pytest.mark.parametrize("allowed", [False, True], ids=["not allowed", "inner address"])
async def test_an_endpoint_that_a_tenant_may_not_have_gets_nothing(cluster: Cluster, *, allowed: bool) -> None:
    async with running_language_model() as own, reading(cluster) as (model, _):
        job = jobs_of(
            settings_of(cluster),
            cluster.addresses,
            model=model.fact_model(),
            outbound=SafeHttpClient() if allowed else None,
        )
        tenant = await own_endpoint(cluster, own.url.replace("http", "https"))
        await say(tenant, f"I live in Porto. {CELLO}")

        await read_all(job, tenant)

    assert (own.requests, model.requests) == ([], [])
    assert "I live in Porto" in await current(tenant)


async def test_who_may_not_read_secrets_cannot_say_where_one_is_sent(cluster: Cluster) -> None:
    tenant = await cluster.new_tenant()
    created = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="policies", permissions=["tenant.read", "tenant.write"])
    )
    keeper = cluster.with_key(created.secret)

    for field, value in (("extraction_url", "https://evil.example/v1"), ("extraction_key_id", str(uuid.uuid4()))):
        with refused_call(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await keeper.tenancy.UpdatePolicy(
                subjects_pb2.UpdatePolicyRequest(
                    policy=subjects_pb2.Policy(**{field: value}),  # type: ignore[arg-type]  # A text.
                    update_mask=FieldMask(paths=[field]),
                )
            )


@pytest.mark.system
@pytest.mark.parametrize("way", ["corrected", "deleted", "purged"])
async def test_what_a_message_said_before_it_changed_during_the_call_is_no_fact(cluster: Cluster, way: str) -> None:
    async with reading(cluster) as (model, job):
        tenant = await learning_tenant(cluster, extraction="model")
        (message,) = await say(tenant, CELLO)
        model.says(CELLO, replace(proposals({"quote": CELLO}), waits=True))
        model.says("I play the flute.", proposals({"quote": "I play the flute."}))
        slow = asyncio.create_task(read_all(job, tenant))
        async with asyncio.timeout(20):
            while not model.requests:
                await asyncio.sleep(0.01)

        if way == "corrected":
            await tenant.sessions.UpdateMessage(
                session_pb2.UpdateMessageRequest(
                    message=session_pb2.Message(message_id=message.message_id, content="I play the flute."),
                    update_mask=FieldMask(paths=["content"]),
                )
            )
        elif way == "deleted":
            await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message.message_id))
        else:
            await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message.message_id]))
        while await job.rules.extract_session(str(tenant.tenant_id)):
            pass
        model.released.set()
        await slow
        await read_all(job, tenant)

    assert await current(tenant) == (["I play the flute"] if way == "corrected" else [])
    assert way != "purged" or await facts(tenant) == []
