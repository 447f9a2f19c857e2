"""Moving in from a Memory Orchestrator: its own tables, filled as years leave them."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from fix_cluster import Cluster, Tenant
from fix_command import skein
from fix_moving import a_database, changed, fill, holding, move_in, outcome, refusal_of, refusals, remaining_counts
from fix_stores import ORCHESTRATOR
from google.protobuf.json_format import MessageToDict

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_importers.errors import SourceInvalid
from skein_importers.sources import FORMATS
from skein_importers.sources.base import Notes

T0 = datetime(2024, 3, 1, 8, 30)  # noqa: DTZ001 - its columns have no zone.
MODEL = f"moving-{uuid.uuid4().hex[:8]}"
VECTOR = "[" + ",".join(["0.5"] + ["0.01"] * 1535) + "]"


def body(**content: Any) -> str:
    return json.dumps(content)


@pytest.fixture
async def source(cluster: Cluster) -> AsyncIterator[tuple[str, asyncpg.Connection[asyncpg.Record]]]:
    """A Memory Orchestrator that was used for a while, by people and by scripts."""
    async with a_database(cluster, ORCHESTRATOR) as (url, connection):
        await fill(
            connection,
            "user_profiles",
            {
                "user_id": "u1",
                "profile_data": body(name="Ada"),
                "preferences": body(theme="dark"),
                "created_at": T0,
            },
            {"user_id": "u2", "profile_data": '["not", "an object"]', "is_active": False},
        )
        await fill(
            connection,
            "sessions",
            {
                "session_id": "s1",
                "user_id": "u1",
                "created_at": T0,
                "metadata": body(room="kitchen"),
                "session_type": "conversation",
            },
            {"session_id": "s2", "created_at": T0, "ended_at": T0 + timedelta(hours=1), "session_type": "task"},
            {"session_id": "s3", "created_at": T0, "summary": "Long ago.", "is_archived": True, "session_type": "task"},
        )
        # What was written before the constraints were.
        await connection.execute("ALTER TABLE memory_entries DROP CONSTRAINT valid_priority")
        await connection.execute("ALTER TABLE memory_entries DROP CONSTRAINT memory_entries_session_id_fkey")
        entry = {"memory_type": "conversation", "created_at": T0, "updated_at": T0}
        talk = body(text="Ada takes tea at eight.", source_agent="butler", metadata={"mood": "calm"}, turn=3)
        await fill(
            connection,
            "memory_entries",
            {**entry, "memory_id": "m1", "session_id": "s1", "content": talk, "priority": 10},
            {**entry, "memory_id": "m2", "content": body(text="No sugar."), "source_agent": "cook", "priority": 1,
             "updated_at": T0 + timedelta(days=1), "expires_at": datetime(2999, 1, 1)},  # noqa: DTZ001 - no zone.
            {**entry, "memory_id": "m3", "content": body(text="Gone."), "is_active": False},
            {**entry, "memory_id": "m4", "content": body(text="Over."), "expires_at": T0},
            {**entry, "memory_id": "m5", "memory_type": "User-Preference", "content": body(lights={"hall": "dim"})},
            {**entry, "memory_id": "m6", "content": '"just words"', "priority": 0},
            {**entry, "memory_id": "m7", "session_id": "gone", "content": body(text="Whose session?"), "priority": 99},
            {**entry, "memory_id": "m8", "content": body(metadata={"empty": True})},
            {**entry, "memory_id": "m9", "memory_type": "episodic", "content": body(text="It whistled.", kettle=1)},
        )  # fmt: skip
        await fill(
            connection,
            "memory_tags",
            *({"memory_id": "m1", "tag": tag} for tag in ("tea", " tea", "morning")),
        )
        for memory_id in ("m1", "m3"):
            statement = (
                "INSERT INTO vector_embeddings (memory_id, embedding, embedding_model) VALUES ($1, $2::text::vector, "
            )
            await connection.execute(f"{statement}$3)", memory_id, VECTOR, MODEL)
        await fill(
            connection,
            "agent_states",
            {"agent_id": "butler", "session_id": "s1", "state_data": body(step=2)},
            {"agent_id": "butler", "state_data": body(mood="old"), "updated_at": T0},
            {"agent_id": "butler", "state_data": body(mood="new")},
            {"agent_id": "cook", "state_data": body(stale=True), "expires_at": T0},
        )
        link = {"source_memory_id": "m1", "created_at": T0}
        await fill(
            connection,
            "memory_relationships",
            {**link, "target_memory_id": "m2", "relationship_type": "Follow-Up", "metadata": body(by="hand")},
            {**link, "target_memory_id": "m3", "relationship_type": "reference"},
        )
        await fill(connection, "memory_access_logs", *({"operation": "read", "success": True} for _ in range(3)))
        yield url, connection


async def test_memories_of_an_orchestrator_are_read_by_typed_calls_with_ids_and_times(
    cluster: Cluster, tenant: Tenant, source: tuple[str, Any]
) -> None:
    done = await skein("import", "orchestrator-pg", source[0], environment=holding(cluster, tenant))

    assert done.code == 1, done.err
    assert "1 to 10 became importance 0 to 1" in done.out
    assert "postgresql://" not in done.out + done.err
    m1, m2, m7, m9 = [await tenant.get_memory(name) for name in ("m1", "m2", "m7", "m9")]
    assert (m1.content, m1.type, m1.importance, m1.session_id) == ("Ada takes tea at eight.", "conversation", 1.0, "s1")
    assert (sorted(m1.tags), m1.source_agent) == (["morning", "tea"], "butler")
    assert m1.create_time.ToDatetime(tzinfo=UTC) == T0.replace(tzinfo=UTC)
    assert MessageToDict(m1.data)["turn"] == 3
    assert MessageToDict(m1.metadata) == {"mood": "calm"}
    assert (m2.importance, m2.source_agent, m2.expire_time.ToDatetime().year) == (0.0, "cook", 2999)
    assert MessageToDict(m2.metadata) == {"orchestrator": {"updated_at": "2024-03-02T08:30:00Z"}}
    assert MessageToDict((await tenant.get_memory("m5")).data) == {"lights": {"hall": "dim"}}
    assert (await tenant.get_memory("m5")).type == "user_preference"
    assert (await tenant.get_memory("m6")).content == "just words"
    assert (m7.session_id, m7.importance) == ("", 1.0)
    assert MessageToDict(m7.metadata) == {"orchestrator": {"session_id": "gone"}}
    assert MessageToDict(m9.metadata)["orchestrator"]["content"]["kettle"] == 1


async def test_sessions_links_states_and_people_come_along(
    cluster: Cluster, tenant: Tenant, source: tuple[str, Any]
) -> None:
    await move_in(cluster, tenant, "orchestrator-pg", source[0])

    for session_id, state in (("s1", "ACTIVE"), ("s2", "ENDED"), ("s3", "HIDDEN")):
        response = await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=session_id))
        assert response.session.state == session_pb2.SessionState.Value(f"SESSION_STATE_{state}")
        assert response.session.create_time.ToDatetime() == T0
    links = await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id="m1"))
    assert [(link.relation, link.label) for link in links.links] == [("follow_up", "Follow-Up")]
    states = (await tenant.sessions.ListAgentStates(states_pb2.ListAgentStatesRequest())).states
    assert {(state.agent_id, state.session_id): MessageToDict(state.state_data) for state in states} == {
        ("butler", ""): {"mood": "new"},
        ("butler", "s1"): {"step": 2.0},
    }
    ada = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="u1"))).subject
    assert (ada.display_name, MessageToDict(ada.preferences)) == ("Ada", {"theme": "dark"})


async def test_the_report_says_what_was_changed_left_and_refused_and_a_repeat_writes_nothing(
    cluster: Cluster, tenant: Tenant, source: tuple[str, Any]
) -> None:
    dry = await move_in(cluster, tenant, "orchestrator-pg", source[0], "--dry-run")
    first = await move_in(cluster, tenant, "orchestrator-pg", source[0])
    again = await move_in(cluster, tenant, "orchestrator-pg", source[0])

    report = first.json
    assert {kind: outcome(report, kind) for kind in report["read"]} == {
        "subject": (2, 2, 0),
        "session": (3, 3, 0),
        "agent_state": (2, 2, 0),
        "memory": (7, 7, 0),
        "embedding": (1, 0, 0),
        "link": (1, 1, 0),
        "message": (0, 0, 0),
    }
    assert changed(report, "memory_entries", "priority") == {
        "1 to 10 became importance 0 to 1": 7,
        "moved into 1 to 10": 2,
    }
    assert changed(report, "vector_embeddings", "embedding")
    assert remaining_counts(report) == {
        "agent_states": 2,
        "memory_access_logs": 3,
        "memory_entries": 1,
        "memory_relationships": 1,
        "vector_embeddings": 1,
    }
    assert refusals(report) == {"memory_entries m8": "content is empty"}
    assert (dry.json["read"], dry.json["left"]) == (report["read"], report["left"])
    assert not any(dry.json["written"].values())
    assert not any(again.json["written"].values())
    assert again.json["skipped"]["memory"] == 7


async def test_vectors_are_kept_where_their_model_is_known(
    cluster: Cluster, tenant: Tenant, source: tuple[str, Any]
) -> None:
    model = recall_pb2.EmbeddingModel(model=MODEL, provider="caller", dimensions=1536)
    await cluster.operator.recall.RegisterEmbeddingModel(
        recall_pb2.RegisterEmbeddingModelRequest(embedding_model=model)
    )
    try:
        done = await move_in(cluster, tenant, "orchestrator-pg", source[0])
        again = await move_in(cluster, tenant, "orchestrator-pg", source[0])
    finally:
        await cluster.operator.recall.DeleteEmbeddingModel(recall_pb2.DeleteEmbeddingModelRequest(model=MODEL))

    assert outcome(done.json, "embedding") == (1, 1, 0)
    assert outcome(again.json, "embedding") == (1, 0, 1)


async def test_a_comparison_finds_what_was_changed_on_one_side(
    cluster: Cluster, tenant: Tenant, source: tuple[str, asyncpg.Connection[asyncpg.Record]]
) -> None:
    await move_in(cluster, tenant, "orchestrator-pg", source[0])
    same = await move_in(cluster, tenant, "orchestrator-pg", source[0], "--compare")
    await source[1].execute("UPDATE memory_entries SET priority = 2 WHERE memory_id = 'm1'")
    await fill(
        source[1],
        "memory_entries",
        {"memory_id": "late", "memory_type": "context", "content": body(text="Written meanwhile.")},
    )

    after = await move_in(cluster, tenant, "orchestrator-pg", source[0], "--compare")

    assert (same.code, same.json["missing"], same.json["different"]) == (0, {}, [])
    assert after.code == 1
    assert after.json["missing"] == {"memory": {"count": 1, "samples": ["late"]}}
    (different,) = after.json["different"]
    assert (different["fields"], different["samples"]) == (["importance"], ["m1"])


async def test_an_import_changes_nothing_in_its_source_and_waits_for_no_lock(
    cluster: Cluster, tenant: Tenant, source: tuple[str, asyncpg.Connection[asyncpg.Record]]
) -> None:
    async with source[1].transaction():
        await source[1].execute("UPDATE memory_entries SET priority = 3 WHERE memory_id = 'm1'")
        done = await move_in(cluster, tenant, "orchestrator-pg", source[0])
        assert outcome(done.json, "memory") == (7, 7, 0)

    assert (await tenant.get_memory("m1")).importance == 1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ALTER TABLE memory_entries DROP COLUMN priority, DROP COLUMN memory_type", "no column memory_type"),
        ("DROP TABLE memory_entries CASCADE", "no table memory_entries"),
        ("CREATE ROLE {role} LOGIN PASSWORD 'open sesame'", "may not read"),
    ],
)
async def test_an_unknown_or_unreadable_database_is_refused_in_one_sentence(
    cluster: Cluster, change: str, words: str
) -> None:
    role = f"reader_{uuid.uuid4().hex}"
    async with a_database(cluster, ORCHESTRATOR) as (url, connection):
        await connection.execute(change.format(role=role))
        source = url.replace("postgres@", f"{role}:open%20sesame@", 1) if "ROLE" in change else url

        refusal = await refusal_of("orchestrator-pg", source)

        if "ROLE" in change:
            await connection.execute(f"DROP ROLE {role}")
    assert words in refusal
    assert "sesame" not in refusal


async def test_a_connection_that_ends_meanwhile_is_reported_in_one_sentence(
    source: tuple[str, asyncpg.Connection[asyncpg.Record]],
) -> None:
    opened = FORMATS["orchestrator-pg"].open(source[0])
    result = await asyncio.to_thread(opened.__enter__)
    (realm,) = result.tenants()
    await source[1].execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'skein import' AND datname = current_database()"
    )

    with pytest.raises(SourceInvalid, match="The connection to the database ended"):
        await asyncio.to_thread(list, result.records(realm, Notes()))
    await asyncio.to_thread(opened.__exit__, None, None, None)


async def test_a_database_that_is_not_there_is_named_without_the_password(cluster: Cluster) -> None:
    url = cluster.postgres.url(user="postgres", database="nowhere").replace("postgres@", "postgres:hushhush@", 1)

    refusal = await refusal_of("orchestrator-pg", url)

    assert "There is no such database" in refusal
    assert "hushhush" not in refusal
