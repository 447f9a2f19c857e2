"""Moving in from the stores of voice assistants: SessionMemoryAgent, contextual memory and Jarvis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import move_in, refusal_of
from fix_stores import MILLISECONDS, SECONDS, database
from google.protobuf import json_format

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2

AT = "2026-03-02T07:12:00Z"
SESSIONS: list[dict[str, Any]] = [
    {
        "session_id": "s1",
        "user_id": "ann",
        "conversation_history": [
            {"role": "user", "content": "Turn on the light.", "timestamp": SECONDS},
            {"speaker": "Jarvis", "text": "Done.", "created_at": "2026-03-02T07:12:01"},
            {"user_input": "Thanks", "response": "Welcome", "mood": "fine"},
            "a bare line",
            {"role": "assistant", "content": ""},
        ],
        "session_data": {"device": "kitchen"},
        "session_summary": "Light was asked for.",
        "created_at": MILLISECONDS,
        "last_interaction": "2026-03-02 08:00:00",
        "mood": "calm",
    },
    {"session_id": "s2", "conversation_history": None, "session_data": ["odd"], "created_at": "yesterday"},
    {"session_id": "", "conversation_history": [{"role": "user", "content": "whose?"}]},
]
CONTEXTS: list[dict[str, Any]] = [
    {
        "context_id": "c1",
        "session_id": "s9",
        "context_data": {"text": "Ann is in the kitchen", "room": "kitchen", "nul": "a\0b"},
        "embedding": [0.5, 0.5],
        "created_at": SECONDS,
        "expires_at": 4_000_000_000,
        "source_agent": "contextual_memory_pc2",
        "tags": ["room", " room", ""],
    },
    {"context_id": "c2", "session_id": "s9", "context_data": "plain words", "tags": "a,b , a"},
    {"context_id": "c3", "context_data": {"temperature": 21, "lights": ["hall", "stairs"]}, "created_at": MILLISECONDS},
    {"context_id": "c4", "context_data": {"text": "gone"}, "expires_at": SECONDS},
    {"context_id": "c5", "context_data": None},
    {"context_id": "c1", "context_data": {"text": "the same id again"}},
]
USERS: dict[str, Any] = {
    "ann": {
        "preferences": {"volume": 3, "name": "Ann"},
        "entity_knowledge": {
            "Bosun": {"kind": "parrot", "colours": ["green", "red"]},
            "wifi": "the password is on the fridge",
        },
        "interaction_history": [
            {"user_input": "Play jazz", "response": "Playing jazz", "timestamp": SECONDS},
            "asked for rain",
            {},
        ],
        "skill_states": {"timer": {"left": 30}, "music": "paused"},
    },
    "ben": {"preferences": "{broken", "entity_knowledge": [{"name": "Rex", "kind": "dog"}, "unnamed"]},
    "eve": {"interaction_history": 7, "skill_states": {"timer": {"left": 1}}},
}


def written(report: dict[str, Any]) -> dict[str, int]:
    return {kind: count for kind, count in report["written"].items() if count}


def as_json(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document), "utf-8")
    return path


def as_sqlite(path: Path, table: str, rows: list[dict[str, Any]]) -> Path:
    """Write entries into a table, what is structured as JSON in text."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    types = ", ".join(f'"{column}"' for column in columns)
    lines = [
        [
            json.dumps(value) if isinstance(value, dict | list) else value
            for value in (row.get(column) for column in columns)
        ]
        for row in rows
    ]
    return database(path, f"CREATE TABLE {table} ({types});", {table: lines})


@pytest.mark.system
@pytest.mark.parametrize("form", ["list", "wrapped", "lines", "sqlite"])
async def test_sessions_of_the_session_agent_come_with_what_was_said(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, form: str
) -> None:
    path = tmp_path / "sessions"
    match form:
        case "list":
            as_json(path, SESSIONS)
        case "wrapped":
            as_json(path, {"version": 1, "sessions": SESSIONS})
        case "lines":
            path.write_text("\n".join(json.dumps(entry) for entry in SESSIONS), "utf-8")
        case _:
            as_sqlite(path, "agent_sessions", SESSIONS)
    arguments = (cluster, tenant, "session-memory-agent", str(path))

    done = await move_in(*arguments)
    again = await move_in(*arguments)
    compared = await move_in(*arguments, "--compare")

    assert written(done.json) == {"session": 2, "message": 5}, done.err
    assert "session_id is empty" in {entry["reason"] for entry in done.json["refused"]}
    assert (written(again.json), compared.code) == ({}, 0), compared.out
    session = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s1"))).session
    assert (session.summary, session.subject_id) == ("Light was asked for.", "ann")
    assert session.create_time.ToJsonString() == AT
    assert session.update_time.ToJsonString() == "2026-03-02T08:00:00Z"
    assert json_format.MessageToDict(session.metadata) == {
        "device": "kitchen",
        "mood": "calm",
        "last_interaction": "2026-03-02T08:00:00Z",
    }
    found = (await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="s1"))).messages
    user, assistant = session_pb2.MESSAGE_ROLE_USER, session_pb2.MESSAGE_ROLE_ASSISTANT
    assert [(message.external_id, message.role, message.name, message.content) for message in found] == [
        ("s1/1", user, "", "Turn on the light."),
        ("s1/2", user, "Jarvis", "Done."),
        ("s1/3", user, "", "Thanks"),
        ("s1/4", assistant, "", "Welcome"),
        ("s1/5", user, "", "a bare line"),
    ]
    assert [message.create_time.seconds - SECONDS for message in found] == [0, 1, 1, 1, 1]
    assert json_format.MessageToDict(found[2].metadata) == {"mood": "fine"}


async def test_a_conversation_that_is_no_json_is_kept_as_one_message(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    rows = [{"session_id": "s", "conversation_history": "[{broken", "session_data": b"\xff\xfe", "created_at": 0}]
    source = as_sqlite(tmp_path / "store.db", "sessions", rows)

    done = await move_in(cluster, tenant, "session-memory-agent", str(source))

    assert (done.code, written(done.json)) == (0, {"session": 1, "message": 1}), done.err
    found = (await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="s"))).messages
    assert [(message.role, message.content) for message in found] == [(session_pb2.MESSAGE_ROLE_SYSTEM, "[{broken")]


@pytest.mark.system
@pytest.mark.parametrize("form", ["json", "sqlite"])
async def test_contexts_become_memories_of_their_sessions(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, form: str
) -> None:
    path = tmp_path / "contexts"
    if form == "json":
        as_json(path, {"contexts": CONTEXTS})
    else:
        as_sqlite(path, "contextual_memory", CONTEXTS)
    arguments = (cluster, tenant, "contextual-memory", str(path))

    done = await move_in(*arguments)
    again = await move_in(*arguments)

    assert written(done.json) == {"session": 1, "memory": 4}, done.err
    assert written(again.json) == {}
    assert [entry["reason"] for entry in done.json["refused"]] == ["context_data is empty"]
    # The second entry of an id is not brought: the first is there already.
    assert done.json["skipped"]["memory"] == 1
    assert done.json["left"] == []
    assert ("expire_time", "in the past: stored as expired") in {
        (entry["column"], entry["how"]) for entry in done.json["coerced"]
    }
    assert ("embedding", "computed again: no model is named") in {
        (entry["column"], entry["how"]) for entry in done.json["coerced"]
    }
    request = memory_pb2.BatchGetMemoriesRequest(memory_ids=["c1", "c2", "c3"])
    memories = {memory.external_id: memory for memory in (await tenant.memory.BatchGetMemories(request)).memories}
    first, second, third = (memories[name] for name in ("c1", "c2", "c3"))
    assert (first.content, first.type, first.session_id) == ("Ann is in the kitchen", "context", "s9")
    assert (first.source_agent, list(first.tags)) == ("contextual_memory_pc2", ["room"])
    assert (first.create_time.ToJsonString(), first.expire_time.seconds) == (AT, 4_000_000_000)
    assert json_format.MessageToDict(first.data)["room"] == "kitchen"
    assert json_format.MessageToDict(first.data)["nul"] == "ab"
    assert (second.content, sorted(second.tags)) == ("plain words", ["a", "b"])
    assert third.content == "temperature: 21; lights: hall, stairs"


@pytest.mark.system
async def test_users_of_jarvis_come_with_what_is_known_of_them(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    path = as_json(tmp_path / "jarvis.json", USERS)
    arguments = (cluster, tenant, "jarvis-memory", str(path))

    done = await move_in(*arguments)
    again = await move_in(*arguments)
    compared = await move_in(*arguments, "--compare")

    assert written(done.json) == {"subject": 3, "agent_state": 3, "memory": 7}, done.err
    assert (done.json["refused"], written(again.json), compared.code) == ([], {}, 0), compared.out
    subject = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="ann"))).subject
    broken = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="ben"))).subject
    assert json_format.MessageToDict(subject.preferences) == {"volume": 3.0, "name": "Ann"}
    assert json_format.MessageToDict(broken.profile) == {"preferences_text": "{broken"}
    states = (await tenant.sessions.ListAgentStates(states_pb2.ListAgentStatesRequest())).states
    assert {state.agent_id: json_format.MessageToDict(state.state_data) for state in states} == {
        "timer/ann": {"left": 30.0},
        "timer/eve": {"left": 1.0},
        "music/ann": {"value": "paused"},
    }
    listed = (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    assert {(memory.external_id, memory.type, memory.content) for memory in listed} == {
        ("ann/entity/Bosun", "entity", "Bosun: kind: parrot; colours: green, red"),
        ("ann/entity/wifi", "entity", "wifi: the password is on the fridge"),
        ("ann/interaction/1", "interaction", "user: Play jazz\nassistant: Playing jazz"),
        ("ann/interaction/2", "interaction", "asked for rain"),
        ("ben/entity/Rex", "entity", "Rex: name: Rex; kind: dog"),
        ("ben/entity/#2", "entity", "#2: unnamed"),
        ("eve/interaction/1", "interaction", "7"),
    }
    assert {memory.create_time.ToJsonString() for memory in listed if memory.external_id == "ann/interaction/1"} == {AT}


async def test_skills_of_the_only_user_keep_their_names(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    rows = [{"user_id": "ann", "skill_states": {"timer": {"left": 30}}, "preferences": None}]
    source = as_sqlite(tmp_path / "jarvis.db", "jarvis_memory", rows)

    done = await move_in(cluster, tenant, "jarvis-memory", str(source))

    assert done.code == 0, done.err
    state = await tenant.sessions.GetAgentState(states_pb2.GetAgentStateRequest(agent_id="timer"))
    assert json_format.MessageToDict(state.state.state_data) == {"left": 30.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain words", "neither an SQLite database nor a JSON document"),
        ('{"users": {"ann": {"preferences": 1}', "cannot be read as JSON at character"),
        ('[{"user_id": "a"}] and more', "cannot be read as JSON at character 20"),
    ],
)
async def test_a_store_that_cannot_be_read_is_a_clear_error(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "store.json"
    path.write_text(text, "utf-8")

    ended = await move_in(cluster, tenant, "jarvis-memory", str(path), "--dry-run")

    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err


async def test_a_database_without_such_a_table_is_a_clear_error(tmp_path: Path) -> None:
    other = database(tmp_path / "other.db", "CREATE TABLE things (id TEXT);", {})

    said = await refusal_of("contextual-memory", str(other))

    assert "it has no table with context_id and one of context_data, embedding, source_agent" in said
