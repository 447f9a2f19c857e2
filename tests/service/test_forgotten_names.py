"""Forget follows the names of a person: aliases, former names, and every form in which they are written."""

from __future__ import annotations

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import access_log_pb2, curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2


async def alias(tenant: Tenant, name: str, canonical: str) -> None:
    request = curation_pb2.ResolveEntityRequest(alias_memory_id=name, canonical_memory_id=canonical)
    await tenant.curation.ResolveEntity(request)


async def keep_words(tenant: Tenant) -> None:
    policy = subjects_pb2.Policy(audit_query_text=True, audit_strict=True)
    mask = FieldMask(paths=["audit_query_text", "audit_strict"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))


async def ask(tenant: Tenant, *texts: str) -> None:
    for text in texts:
        await tenant.recall.Recall(recall_pb2.RecallRequest(query=text, mode=recall_pb2.SEARCH_MODE_KEYWORD))


async def recorded(tenant: Tenant) -> set[str]:
    """Return the words of searches that are still recorded."""
    page = await tenant.history.ListAccessLog(access_log_pb2.ListAccessLogRequest(page_size=100))
    words = {json_format.MessageToDict(entry.request_data).get("query") for entry in page.access_events}
    return {each for each in words if isinstance(each, str)}


async def existing(tenant: Tenant, *memory_ids: str) -> list[bool]:
    request = memory_pb2.BatchGetMemoriesRequest(memory_ids=memory_ids)
    known = {memory.memory_id for memory in (await tenant.memory.BatchGetMemories(request)).memories}
    return [memory_id in known for memory_id in memory_ids]


@pytest.mark.system
async def test_a_forgotten_person_s_aliases_go_and_those_about_others_are_named(tenant: Tenant) -> None:
    ann = await tenant.remember("Ann Miller", subject_id="u-17")
    nickname = await tenant.remember("Nanny Ogg")
    cousin = await tenant.remember("The Duchess", subject_id="u-18")
    club = await tenant.remember("Chess Club")
    hers = await tenant.remember("The Monday round", subject_id="u-17")
    await keep_words(tenant)
    await ask(tenant, "where does nanny ogg live?", "the duchess", "chess club", "weather")
    await alias(tenant, nickname, ann)
    await alias(tenant, cousin, ann)
    await alias(tenant, hers, club)

    answer = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="u-17"))

    counts = {table: n for each in answer.erasures for table, n in each.deleted_counts.items()}
    assert counts["memory.memories"] == 3
    assert counts["memory.aliases"] == 3
    assert list(answer.remaining_memory_ids) == [cousin]
    assert await existing(tenant, ann, nickname, hers, cousin, club) == [False, False, False, True, True]
    assert await recorded(tenant) == {"the duchess", "chess club", "weather"}


@pytest.mark.system
async def test_recorded_words_go_under_the_names_of_aliases_that_they_did_not_find(tenant: Tenant) -> None:
    ann, nickname = await tenant.remember("Ann Miller", subject_id="u-17"), await tenant.remember("Nanny Ogg")
    await keep_words(tenant)
    await ask(tenant, "does nanny ogg garden?", "ANN MILLER?", "what about annotations?")
    await alias(tenant, nickname, ann)
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(
            memory=memory_pb2.Memory(memory_id=ann, content="Ann Baker"), update_mask=FieldMask(paths=["content"])
        )
    )
    await ask(tenant, "where is Ann Baker?")

    await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="u-17"))

    assert await recorded(tenant) == {"what about annotations?"}


@pytest.mark.parametrize(
    "written", ["J\u00fcrgen M\u00fcller", "Ju\u0308rgen Mu\u0308ller", "\uff2a\u00fcrgen M\u00fc\u00adller"]
)
async def test_a_name_goes_from_recorded_words_in_every_form(tenant: Tenant, written: str) -> None:
    subject = subjects_pb2.Subject(subject_id="u-17", display_name="J\u00fcrgen M\u00fcller")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    await keep_words(tenant)
    await ask(tenant, f"Where is {written}?", "weather")

    await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="u-17"))

    assert await recorded(tenant) == {"weather"}


@pytest.mark.system
async def test_many_names_are_looked_for_as_they_are_written(tenant: Tenant) -> None:
    names = ["C++", "a|b", "(Bob)", "[Q]", "x.y", "Zo\u00eb", "\\d", "^\u6f22$"]
    ann = await tenant.remember("Ann Miller", subject_id="u-17")
    for name in names:
        await alias(tenant, await tenant.remember(name), ann)
    await keep_words(tenant)
    await ask(tenant, *(f"where is {name.upper()}?" for name in names), "xzy in Bobbio, 7 metres")

    await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="u-17"))

    assert await recorded(tenant) == {"xzy in Bobbio, 7 metres"}


@pytest.mark.system
async def test_a_person_has_a_hundred_former_names_and_no_more(tenant: Tenant) -> None:
    subject = subjects_pb2.Subject(subject_id="u-17", display_name="name")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))

    async def rename(name: str) -> None:
        subject.display_name = name
        renaming = subjects_pb2.UpdateSubjectRequest(subject=subject, update_mask=FieldMask(paths=["display_name"]))
        await tenant.tenancy.UpdateSubject(renaming)

    for number in range(100):
        await rename(f"name {number}")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await rename("one more")
    await rename("name 7")
