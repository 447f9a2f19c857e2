"""Moving in from Letta's agent files."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import changed, move_in, outcome, refusal_of, refusals, remaining_counts
from google.protobuf.json_format import MessageToDict

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2

WRAPPED = json.dumps({"type": "user_message", "message": "Where are the keys?", "time": "2026-03-02 07:12:00 AM"})


def message(number: int, role: str, text: str | None, **fields: Any) -> dict[str, Any]:
    content = [] if text is None else [{"type": "text", "text": text}]
    return {
        "type": "message", "id": f"message-{number}", "role": role, "content": content, "name": None, "otid": None,
        "sender_id": None, "batch_item_id": None, "group_id": None, "model": "small", "agent_id": "agent-0",
        "tool_calls": None, "tool_call_id": None, "tool_returns": None, "created_at": f"2026-03-02T07:12:0{number}Z",
        **fields,
    }  # fmt: skip


CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"what": "keys"}'}}
FILE: dict[str, Any] = {
    "agents": [
        {
            "id": "agent-0", "name": "Juno", "agent_type": "memgpt_v2_agent", "system": "Be kind.",
            "description": "Helps at home", "metadata": {"room": "hall"}, "tags": ["home"], "timezone": "Europe/Vienna",
            "llm_config": {"model": "small", "context_window": 32000}, "embedding_config": {"embedding_dim": 3},
            "tool_rules": [{"tool_name": "find", "type": "run_first"}], "tool_ids": ["tool-0", "tool-9"],
            "block_ids": ["block-0", "block-1"], "source_ids": ["source-0"], "messages": [
                message(0, "system", "Be kind. Blocks follow."),
                message(1, "user", WRAPPED),
                message(2, "assistant", None, tool_calls=[CALL]),
                message(3, "tool", '{"status": "OK"}', tool_call_id="c1", tool_returns=[{"status": "success"}]),
                message(4, "assistant", "They hang by the door."),
                message(5, "narrator", "Meanwhile"),
            ],
            "in_context_message_ids": ["message-0", "message-4"], "files_agents": [], "group_ids": [],
            "tool_exec_environment_variables": {"TOKEN": "hidden"},
        },
        {"id": "agent-1", "name": "Vesta", "block_ids": ["block-1"], "tool_ids": [], "messages": []},
    ],
    "groups": [{"id": "group-0", "agent_ids": ["agent-0", "agent-1"], "description": "both"}],
    "blocks": [
        {"id": "block-0", "label": "human", "value": "Anna lives in Graz", "limit": 10, "read_only": True,
         "description": "Who they are", "is_template": False, "metadata": {}, "preserve_on_migration": False},
        {"id": "block-1", "label": "house", "value": "A red door", "limit": 5000, "metadata": {"by": "Anna"}},
    ],
    "files": [
        {"id": "file-0", "source_id": "source-0", "file_name": "house/rules.txt", "original_file_name": "rules.txt",
         "content": "Shoes stay in the hall.", "file_type": "text/plain"},
        {"id": "file-1", "source_id": "source-0", "file_name": "photo.txt", "content": None},
    ],
    "sources": [{"id": "source-0", "name": "house"}],
    "tools": [
        {"id": "tool-0", "name": "find", "tool_type": "custom", "description": "Finds things", "tags": ["home"],
         "source_type": "python", "source_code": "def find(what): ...", "json_schema": {"name": "find"}},
    ],
    "mcp_servers": [],
    "skills": [{"name": "tidy", "files": {"SKILL.md": "Put things back.", "list.txt": "keys"}, "source_url": None}],
    "metadata": {"revision_id": "7"},
    "created_at": "2026-03-05T00:00:00Z",
}  # fmt: skip
# The first form: one agent, entries without ids.
FIRST_FORM: dict[str, Any] = {
    "agent_type": "memgpt_agent", "name": "Ceres", "system": "Help.", "version": "0.7.0", "tags": [{"tag": "garden"}],
    "core_memory": [
        {"label": "persona", "value": "I tend gardens", "limit": 5000, "description": None, "is_template": False,
         "metadata_": {}, "template_name": None, "created_at": "2025-05-01T00:00:00"},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Water it"}], "created_at": "2025-05-02T10:00:00",
         "tool_calls": [], "tool_returns": [], "tool_call_id": None, "name": None, "model": None, "group_id": None},
    ],
    "tools": [{"name": "water", "description": "Waters", "json_schema": {"name": "water"}, "source_type": "python",
               "source_code": "def water(): ...", "tags": [], "tool_type": "custom"}],
    "in_context_message_indices": [0], "tool_rules": [], "tool_exec_environment_variables": [],
}  # fmt: skip


def a_file(path: Path, document: Any) -> str:
    path.write_text(json.dumps(document), "utf-8")
    return str(path)


async def messages_of(tenant: Tenant, agent: str) -> list[session_pb2.Message]:
    request = session_pb2.ListMessagesRequest(session_id=f"letta:{agent}")
    return list((await tenant.sessions.ListMessages(request)).messages)


@pytest.mark.system
async def test_an_agent_comes_with_tools_blocks_and_conversation(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    done = await move_in(cluster, tenant, "letta-af", a_file(tmp_path / "juno.af", FILE))

    assert done.code == 1, done.err
    juno = (await tenant.tenancy.GetAgent(tenancy_pb2.GetAgentRequest(agent_id="Juno"))).agent
    assert (juno.agent_type, juno.system_prompt, juno.description) == ("memgpt_v2_agent", "Be kind.", "Helps at home")
    assert MessageToDict(juno.metadata) == {
        "room": "hall",
        "letta": {"tags": ["home"], "timezone": "Europe/Vienna", "source_ids": ["source-0"],
                  "in_context_message_ids": ["message-0", "message-4"]},
    }  # fmt: skip
    assert MessageToDict(juno.tool_rules) == {"rules": [{"tool_name": "find", "type": "run_first"}]}
    tools = (await tenant.tenancy.ListTools(subjects_pb2.ListToolsRequest(agent_id="Juno"))).tools
    assert [(tool.tool_id, tool.source_code) for tool in tools] == [("find", "def find(what): ...")]
    human = (await tenant.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id="Juno/human"))).block
    assert (human.value, human.limit, human.read_only) == ("Anna lives in Graz", 18, True)
    shared = await tenant.blocks.ListBlockAgents(blocks_pb2.ListBlockAgentsRequest(block_id="Juno/house"))
    assert {agent.agent_id for agent in shared.agents} == {"Juno", "Vesta"}
    found = await messages_of(tenant, "Juno")
    assert [(one.role, one.content) for one in found] == [
        (session_pb2.MESSAGE_ROLE_SYSTEM, "Be kind. Blocks follow."),
        (session_pb2.MESSAGE_ROLE_USER, "Where are the keys?"),
        (session_pb2.MESSAGE_ROLE_ASSISTANT, ""),
        (session_pb2.MESSAGE_ROLE_TOOL, '{"status": "OK"}'),
        (session_pb2.MESSAGE_ROLE_ASSISTANT, "They hang by the door."),
    ]
    assert found[1].create_time.ToDatetime(tzinfo=UTC) == datetime(2026, 3, 2, 7, 12, 1, tzinfo=UTC)
    assert MessageToDict(found[1])["parts"] == [{"type": "text", "text": WRAPPED}]
    assert (MessageToDict(found[2])["toolCalls"], found[3].tool_call_id) == ([CALL], "c1")


async def test_what_has_no_place_is_named(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    done = await move_in(cluster, tenant, "letta-af", a_file(tmp_path / "juno.af", FILE))

    assert remaining_counts(done.json) == {"groups": 1, "sources": 1, "files": 1}
    assert list(refusals(done.json)) == ["messages message-5"]
    assert changed(done.json, "agents", "tool_ids") == {"no such entry in the file: left out": 1}
    assert changed(done.json, "agents", "tool_exec_environment_variables") == {
        "left out: they are secrets of the tools": 1
    }
    assert changed(done.json, "agents", "timezone") == {"no such field here: kept as metadata.letta": 1}
    assert changed(done.json, "blocks", "limit") == {"raised to the length of the value": 1}
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert {(memory.type, memory.title, memory.content) for memory in listed.memories} == {
        ("document", "rules.txt", "Shoes stay in the hall."),
        ("skill", "tidy", "Put things back."),
    }
    assert "hidden" not in done.out


@pytest.mark.system
async def test_a_repeated_import_writes_nothing_and_compares_equal(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = a_file(tmp_path / "juno.af", FILE)

    dry = await move_in(cluster, tenant, "letta-af", source, "--dry-run")
    first = await move_in(cluster, tenant, "letta-af", source)
    again = await move_in(cluster, tenant, "letta-af", source)
    compared = await move_in(cluster, tenant, "letta-af", source, "--compare")

    kinds = {"agent": 2, "tool": 1, "tool_attachment": 1, "block": 2, "block_attachment": 3, "session": 1, "message": 5,
             "memory": 2}  # fmt: skip
    for kind, count in kinds.items():
        assert outcome(dry.json, kind)[0] == count
        assert (outcome(first.json, kind), outcome(again.json, kind)) == ((count, count, 0), (count, 0, count)), kind
    assert (compared.code, compared.json["missing"], compared.json["different"]) == (0, {}, [])


async def test_a_later_file_of_an_agent_adds_its_new_messages(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    later = copy.deepcopy(FILE)
    # The same messages under other numbers, as a file that begins later has them.
    later["agents"][0]["messages"] = [
        {**old, "id": f"message-{number}"} for number, old in enumerate(FILE["agents"][0]["messages"][3:5])
    ]
    later["agents"][0]["messages"].append(message(6, "user", "Thanks"))

    await move_in(cluster, tenant, "letta-af", a_file(tmp_path / "juno.af", FILE))
    done = await move_in(cluster, tenant, "letta-af", a_file(tmp_path / "later.af", later))

    assert outcome(done.json, "message") == (3, 1, 2)
    assert [one.content for one in await messages_of(tenant, "Juno")][-1] == "Thanks"


async def test_a_file_of_the_first_form_is_read(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    source = a_file(tmp_path / "ceres.af", FIRST_FORM)

    done = await move_in(cluster, tenant, "letta-af", source)
    compared = await move_in(cluster, tenant, "letta-af", source, "--compare")

    assert (done.code, compared.code) == (0, 0), done.err + compared.err
    block = (await tenant.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id="Ceres/persona"))).block
    assert block.value == "I tend gardens"
    assert [one.content for one in await messages_of(tenant, "Ceres")] == ["Water it"]
    assert (compared.json["missing"], compared.json["different"]) == ({}, [])


async def test_another_document_is_refused(tmp_path: Path) -> None:
    assert "is no agent file of Letta" in await refusal_of("letta-af", a_file(tmp_path / "x.af", {"agents": 1}))
    assert "is no agent file of Letta" in await refusal_of("letta-af", a_file(tmp_path / "x.af", [1]))
