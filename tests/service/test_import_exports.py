"""Moving in from what people can export themselves: ChatGPT, Claude, MCP's memory server, OpenMemory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import a_file as sqlite_file
from fix_moving import changed, move_in, outcome, refusal_of, refusals, remaining_counts
from google.protobuf.json_format import MessageToDict

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2

T0 = 1_709_281_800.25
USER, ASSISTANT = session_pb2.MESSAGE_ROLE_USER, session_pb2.MESSAGE_ROLE_ASSISTANT


def node(
    name: str, parent: str | None, children: list[str], role: str = "", *parts: Any, **more: Any
) -> dict[str, Any]:
    """Return a node of ChatGPT's tree; without a role it has no message."""
    message = None
    if role:
        content = more.pop("content", {"content_type": "text", "parts": list(parts)})
        message = {
            "id": name, "author": {"role": role, "name": None, "metadata": {}}, "create_time": T0, "update_time": None,
            "content": content, "status": "finished_successfully", "end_turn": True, "weight": 1.0, "metadata": {},
            "recipient": "all", "channel": None, **more,
        }  # fmt: skip
    return {"id": name, "message": message, "parent": parent, "children": children}


CHATGPT: list[dict[str, Any]] = [
    {
        "title": "Tea", "create_time": T0, "update_time": T0 + 60, "conversation_id": "c1", "id": "c1",
        "current_node": "n5", "is_archived": True, "default_model_slug": "gpt-4o", "gizmo_id": None, "safe_urls": [],
        "mapping": {
            "root": node("root", None, ["n1"]),
            "n1": node("n1", "root", ["n2"], "system", "", metadata={"is_visually_hidden_from_conversation": True}),
            "n2": node("n2", "n1", ["n3", "n4"], "user", "Which tea?"),
            "n3": node("n3", "n2", [], "assistant", "Black tea."),
            "n4": node("n4", "n2", ["n5"], "assistant", "Green tea.", metadata={"model_slug": "gpt-4o"}),
            "n5": node("n5", "n4", [], "user", {"content_type": "image_asset_pointer", "asset_pointer": "file://x"}),
        },
    },
    {"title": "Empty", "create_time": T0, "update_time": T0, "id": "c2", "mapping": {}, "current_node": None},
    {"title": "No id", "mapping": {}},
]  # fmt: skip
CLAUDE: list[dict[str, Any]] = [
    {
        "uuid": "c1", "name": "Garden", "summary": "On roses", "created_at": "2025-05-01T08:00:00.5Z",
        "updated_at": "2025-05-01T09:00:00Z", "account": {"uuid": "a1"},
        "chat_messages": [
            {"uuid": "m1", "text": "When to cut roses?", "sender": "human", "created_at": "2025-05-01T08:00:00Z",
             "updated_at": "2025-05-01T08:00:00Z", "files": [{"file_name": "rose.png"}],
             "content": [{"type": "text", "text": "When to cut roses?"}],
             "attachments": [{"file_name": "notes.txt", "file_type": "txt", "extracted_content": "red"}]},
            {"uuid": "m2", "text": "In spring.", "sender": "assistant", "created_at": "2025-05-01T08:01:00Z",
             "content": [{"type": "thinking", "thinking": "Let me see"}, {"type": "tool_use", "name": "search"},
                         {"type": "tool_result", "name": "search"}, {"type": "text", "text": "In spring."}],
             "attachments": [], "files": [], "parent_message_uuid": "m1"},
            {"uuid": "m3", "text": "", "sender": "human", "content": [], "attachments": [], "files": []},
        ],
    },
]  # fmt: skip
MCP: list[dict[str, Any]] = [
    {"type": "entity", "name": "Anna", "entityType": "person", "observations": ["Speaks Spanish", "Has a cat", ""]},
    {"type": "entity", "name": "Acme", "entityType": "", "observations": []},
    {"type": "relation", "from": "Anna", "to": "Acme", "relationType": "works at"},
    {"type": "relation", "from": "Anna", "to": "Nobody", "relationType": "knows"},
    {"type": "note"},
]
OPENMEMORY = """
CREATE TABLE users (id CHAR(32) PRIMARY KEY, user_id VARCHAR, name VARCHAR, email VARCHAR, metadata JSON,
    created_at DATETIME, updated_at DATETIME);
CREATE TABLE apps (id CHAR(32) PRIMARY KEY, owner_id CHAR(32), name VARCHAR, description VARCHAR, metadata JSON,
    is_active BOOLEAN, created_at DATETIME, updated_at DATETIME);
CREATE TABLE memories (id CHAR(32) PRIMARY KEY, user_id CHAR(32), app_id CHAR(32), content VARCHAR, vector VARCHAR,
    metadata JSON, state VARCHAR(8), created_at DATETIME, updated_at DATETIME, archived_at DATETIME,
    deleted_at DATETIME);
CREATE TABLE categories (id CHAR(32) PRIMARY KEY, name VARCHAR, description VARCHAR);
CREATE TABLE memory_categories (memory_id CHAR(32), category_id CHAR(32), PRIMARY KEY (memory_id, category_id));
CREATE TABLE memory_access_logs (id CHAR(32) PRIMARY KEY, memory_id CHAR(32));
"""


async def messages(tenant: Tenant, session_id: str) -> list[session_pb2.Message]:
    request = session_pb2.ListMessagesRequest(session_id=session_id)
    return list((await tenant.sessions.ListMessages(request)).messages)


def a_file(path: Path, document: Any) -> str:
    path.write_text(json.dumps(document), "utf-8")
    return str(path)


def json_lines(path: Path, entries: list[dict[str, Any]]) -> str:
    path.write_text("\n".join(map(json.dumps, entries)) + "\n", "utf-8")
    return str(path)


async def test_a_conversation_of_chatgpt_comes_as_it_is_shown(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    done = await move_in(cluster, tenant, "chatgpt-json", a_file(tmp_path / "conversations.json", CHATGPT))

    assert refusals(done.json) == {"conversations #3": "conversation_id is empty"}
    assert remaining_counts(done.json) == {"messages": 2}
    session = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="chatgpt:c1"))).session
    assert (session.title, session.state) == ("Tea", session_pb2.SESSION_STATE_HIDDEN)
    assert session.create_time.ToMilliseconds() == T0 * 1000
    assert MessageToDict(session.metadata) == {"chatgpt": {"default_model_slug": "gpt-4o"}}
    first, second, third = await messages(tenant, "chatgpt:c1")
    assert [(one.role, one.content) for one in (first, second, third)] == [
        (USER, "Which tea?"), (ASSISTANT, "Green tea."), (USER, ""),
    ]  # fmt: skip
    assert (second.model, second.external_id) == ("gpt-4o", "chatgpt:c1/n4")
    assert MessageToDict(third)["parts"] == [{"content_type": "image_asset_pointer", "asset_pointer": "file://x"}]


async def test_a_conversation_of_claude_comes_with_what_tools_did(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    done = await move_in(cluster, tenant, "claude-json", a_file(tmp_path / "conversations.json", CLAUDE))

    assert (done.code, remaining_counts(done.json)) == (0, {"messages": 1}), done.err
    session = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="claude:c1"))).session
    assert (session.title, session.summary) == ("Garden", "On roses")
    assert MessageToDict(session.metadata) == {"claude": {"account": {"uuid": "a1"}}}
    first, second = await messages(tenant, "claude:c1")
    assert [(one.role, one.content) for one in (first, second)] == [
        (USER, "When to cut roses?"), (ASSISTANT, "In spring."),
    ]  # fmt: skip
    assert [part["type"] for part in MessageToDict(first)["parts"]] == ["attachment", "file"]
    assert [part["type"] for part in MessageToDict(second)["parts"]] == ["thinking"]
    assert MessageToDict(second)["toolCalls"] == [{"type": "tool_use", "name": "search"}]
    assert MessageToDict(second)["toolReturns"] == [{"type": "tool_result", "name": "search"}]
    assert MessageToDict(second.metadata) == {"claude": {"parent_message_uuid": "m1"}}


async def test_the_graph_of_mcp_s_memory_server_comes_as_memories_and_links(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    done = await move_in(cluster, tenant, "mcp-memory-jsonl", json_lines(tmp_path / "memory.jsonl", MCP))

    assert refusals(done.json) == {"relations Anna": "to names no entity of the file"}
    assert remaining_counts(done.json) == {"lines": 1, "observations": 1}
    listed = (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    contents = {memory.content: memory for memory in listed}
    assert set(contents) == {"Anna (person)", "Acme", "Anna: Speaks Spanish", "Anna: Has a cat"}
    anna = contents["Anna (person)"]
    assert (anna.type, anna.title) == ("entity", "Anna")
    links = (await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id=anna.memory_id))).links
    assert sorted((link.relation, link.label, link.to_memory_id == anna.memory_id) for link in links) == [
        ("about", "", True), ("about", "", True), ("works_at", "works at", False),
    ]  # fmt: skip


@pytest.mark.system
async def test_openmemory_comes_with_people_apps_and_categories(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    at = "2025-06-01 08:00:00.000000"
    memory = {"user_id": "u", "app_id": "a", "created_at": at, "updated_at": at, "state": "active"}
    source = sqlite_file(
        tmp_path / "openmemory.db",
        OPENMEMORY,
        users=[{"id": "u", "user_id": "anna", "name": "Anna", "email": "anna@example.org", "metadata": "{}"}],
        apps=[{"id": "a", "owner_id": "u", "name": "cursor"}],
        memories=[
            {**memory, "id": "m1", "content": "Likes tea", "metadata": '{"cups": 2}', "vector": "[1]"},
            {**memory, "id": "m2", "content": "Likes milk", "state": "archived", "archived_at": at},
            {**memory, "id": "m3", "content": "Likes ale", "state": "paused"},
            {**memory, "id": "m4", "content": "Likes mead", "state": "deleted", "deleted_at": at},
        ],
        categories=[{"id": "c", "name": "food"}, {"id": "d", "name": "habits"}],
        memory_categories=[{"memory_id": "m1", "category_id": "c"}, {"memory_id": "m1", "category_id": "d"}],
        memory_access_logs=[{"id": "l", "memory_id": "m1"}],
    )

    done = await move_in(cluster, tenant, "openmemory-sqlite", source)

    assert done.code == 0, done.err
    assert remaining_counts(done.json) == {"memories": 1, "apps": 1, "memory_access_logs": 1}
    m1, m2, m3 = [await tenant.get_memory(name) for name in ("m1", "m2", "m3")]
    assert (m1.content, m1.subject_id, m1.source_agent) == ("Likes tea", "anna", "cursor")
    assert (sorted(m1.tags), MessageToDict(m1.metadata)) == (["food", "habits"], {"cups": 2})
    assert [memory.HasField("archive_time") for memory in (m1, m2, m3)] == [False, True, True]
    subject = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="anna"))).subject
    assert MessageToDict(subject.profile) == {"email": "anna@example.org"}
    assert changed(done.json, "memories", "vector") == {"made again by the cluster": 1}


@pytest.mark.parametrize(
    ("form", "document"), [("chatgpt-json", CHATGPT), ("claude-json", CLAUDE), ("mcp-memory-jsonl", None)]
)
async def test_an_export_that_is_imported_again_adds_nothing(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, form: str, document: Any
) -> None:
    source = json_lines(tmp_path / "m.jsonl", MCP) if document is None else a_file(tmp_path / "c.json", document)

    first = await move_in(cluster, tenant, form, source)
    again = await move_in(cluster, tenant, form, source)
    compared = await move_in(cluster, tenant, form, source, "--compare")

    for kind in ("session", "message", "memory", "link"):
        _, written, _ = outcome(first.json, kind)
        assert outcome(again.json, kind)[1:] == (0, written)
    assert compared.json["different"] == []
    assert compared.json["missing"] == {}


@pytest.mark.parametrize("form", ["chatgpt-json", "claude-json", "mcp-memory-jsonl"])
async def test_another_document_is_refused_in_one_sentence(tmp_path: Path, form: str) -> None:
    assert "is no" in await refusal_of(form, a_file(tmp_path / "other.json", [{"id": "x", "uuid": "x", "name": "y"}]))
