"""Port 5596 in the dialect whose verbs are commands in upper case."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_catalogue import over
from fix_cluster import Tenant
from fix_pc2 import Assistant, assert_healthy, error_reply
from google.protobuf import json_format

from skein.memory.v1 import memory_pb2

PORT = 5596
NOTHING = "mem_0000000000000000"


async def command(assistant: Assistant, name: str, **fields: Any) -> Any:
    """Send a command and return its reply."""
    return await assistant.send(PORT, json.dumps({"command": name, **fields}).encode())


async def store(assistant: Assistant, content: str, **data: Any) -> str:
    """Store a memory and return its id."""
    reply = await command(assistant, "STORE_MEMORY", data={"content": content, **data})
    assert reply["status"] == "SUCCESS", reply
    return str(reply["data"]["memory_id"])


async def query_memories(assistant: Assistant, **query: Any) -> list[dict[str, Any]]:
    """Return the memories of a query."""
    reply = await command(assistant, "QUERY_MEMORY", query=query)
    assert reply["status"] == "SUCCESS", reply
    assert reply["message"] == f"Found {len(reply['data']['memories'])} matching memories"
    return list(reply["data"]["memories"])


async def contents(assistant: Assistant, **query: Any) -> set[str]:
    """Return the contents of the memories of a query."""
    return {memory["content"] for memory in await query_memories(assistant, **query)}


async def memory(tenant: Tenant, memory_id: str) -> memory_pb2.Memory:
    """Read a memory as a typed client does."""
    return (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))).memory


def pc2_metadata(memory: memory_pb2.Memory) -> dict[str, Any]:
    """Return the `pc2` metadata of a memory, as any client reads it."""
    return dict(json_format.MessageToDict(memory.metadata)["pc2"])


def time_ago(**span: float) -> str:
    """Write a time in the past."""
    return (datetime.now(UTC) - timedelta(**span)).isoformat()


async def test_a_ping_is_echoed(assistant: Assistant) -> None:
    reply = await command(assistant, "TEST_PING", data="Hello")

    assert (
        reply.pop("data").items()
        >= {
            "echo": "Hello",
            "agent": "UnifiedMemoryReasoningAgent",
            "location": "PC2",
        }.items()
    )
    assert reply == {"status": "SUCCESS", "message": "TEST_PING received and processed"}
    assert (await command(assistant, "TEST_PING", data={"a": [1, None]}))["data"]["echo"] == {"a": [1, None]}


async def test_health_is_answered(assistant: Assistant) -> None:
    await command(assistant, "BOGUS")

    reply = await command(assistant, "HEALTH_CHECK")

    assert (reply["status"], reply["version"]) == ("success", "1.0")
    assert reply["agent"] == "UnifiedMemoryReasoningAgent"
    assert reply["uptime_seconds"] >= 0
    assert reply["timestamp"].endswith("Z")
    assert reply["metrics"] == {"messages_answered": 1, "messages_refused": 1}
    assert_healthy(reply["health"])


UNKNOWN_COMMANDS: list[Any] = ["BOGUS", "test_ping", "", 7, None, ["TEST_PING"]]


async def test_an_unknown_command_is_refused(assistant: Assistant) -> None:
    for name in UNKNOWN_COMMANDS:
        reply = await assistant.send(PORT, json.dumps({"command": name}).encode())

        assert reply == error_reply(f"Unknown command: {name}", status="ERROR")


async def test_a_stored_memory_is_one_of_skeins(assistant: Assistant, tenant: Tenant) -> None:
    reply = await command(
        assistant,
        "STORE_MEMORY",
        data={
            "content": "The sky is blue",
            "type": "web_data",
            "url": "https://sky.example",
            "title": "Sky",
            "source_agent": "WebScraper",
            "metadata": {"lang": "en"},
        },
    )

    memory_id = reply["data"]["memory_id"]
    stored = await memory(tenant, memory_id)
    assert reply == {
        "status": "SUCCESS",
        "message": "Memory stored successfully",
        "data": {"memory_id": memory_id},
    }
    assert memory_id.startswith("mem_")
    assert stored.external_id == memory_id
    assert (stored.content, stored.type, stored.title) == ("The sky is blue", "web_data", "Sky")
    assert (stored.source, stored.source_agent) == ("WebScraper", "WebScraper")
    assert stored.metadata["lang"] == "en"
    # A typed client reads the metadata of the port.
    assert pc2_metadata(stored)["url"] == "https://sky.example"
    assert pc2_metadata(stored)["strength"] == 1
    (record,) = await query_memories(assistant, id=memory_id)
    assert (
        record.items()
        >= {
            "id": memory_id,
            "content": "The sky is blue",
            "type": "web_data",
            "source": "WebScraper",
            "strength": 1,
            "forgotten": False,
            "url": "https://sky.example",
            "title": "Sky",
            "metadata": {"lang": "en"},
        }.items()
    )
    assert 0 <= record["last_accessed"] - record["created_at"] < 60


UNSTORABLE_MEMORIES: list[Any] = [
    None,
    {},
    [],
    "text",
    {"type": "a"},
    {"content": ""},
    {"content": 5},
    {"content": "a\0"},
    {"content": "\ud800"},
    {"content": "a", "type": ["x"]},
    {"content": "a", "title": "x" * 2000},
    {"content": "a", "source_agent": "x" * 300},
    {"content": "a", "source_agent": {}},
    {"content": "a", "metadata": "m"},
    {"content": "a", "metadata": {"deep": json.loads("[" * 40 + "]" * 40)}},
    {"content": "x" * 100_001},
]


async def test_a_memory_that_cannot_be_stored_is_refused(assistant: Assistant) -> None:
    for data in UNSTORABLE_MEMORIES:
        reply = await command(assistant, "STORE_MEMORY", data=data)

        assert reply["status"] == "ERROR"
        assert reply == error_reply(reply["message"], status="ERROR")
        assert "Skein failed" not in reply["message"]


@pytest.mark.system
async def test_a_query_goes_by_id_then_ids_then_keywords_then_source(assistant: Assistant) -> None:
    sky = await store(assistant, "The sky is blue", source_agent="Scraper")
    sea = await store(assistant, "The sea is green", source_agent="Sailor")
    await store(assistant, "Grass grows", source_agent="Sailor")

    everything = {"id": sky, "ids": [sea], "keywords": ["grass"], "source": "Sailor"}
    assert await contents(assistant, **everything) == {"The sky is blue"}
    assert await contents(assistant, ids=[sea, NOTHING, sky]) == {"The sea is green", "The sky is blue"}
    assert await contents(assistant, ids=[sea], keywords=["sky"]) == {"The sea is green"}
    assert await contents(assistant, keywords=["sky", "grass"]) == {"The sky is blue", "Grass grows"}
    assert await contents(assistant, keywords=["sky", "sea"], source="Sailor") == {"The sea is green"}
    assert await contents(assistant, keywords="sky", min_strength=0.1) == {"The sky is blue"}
    assert await contents(assistant, source="Sailor") == {"The sea is green", "Grass grows"}
    assert await contents(assistant, source='no"body') == set()
    assert await contents(assistant, keywords=["volcano"]) == set()


async def test_a_query_finds_what_a_typed_client_stored(assistant: Assistant, tenant: Tenant) -> None:
    typed = memory_pb2.Memory(content="Typed about volcanoes", type="fact", source_agent="Geologist")
    typed.create_time.FromJsonString("2024-01-01T00:00:00Z")
    stored = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=typed))).memory

    by_words = await query_memories(assistant, keywords=["volcano"])
    by_agent = await query_memories(assistant, source="Geologist")
    (by_id,) = await query_memories(assistant, id=stored.memory_id)

    assert [record["id"] for record in by_words] == [record["id"] for record in by_agent] == [stored.memory_id]
    # Only memories of this dialect have a strength: memories of other clients are never forgotten here.
    assert (by_id["strength"], by_id["forgotten"], by_id["source"]) == (1, False, "Geologist")
    assert by_id["created_at"] == datetime(2024, 1, 1, tzinfo=UTC).timestamp()


UNANSWERABLE_QUERIES: list[Any] = [
    None,
    {},
    {"id": ""},
    {"ids": []},
    {"keywords": []},
    {"min_strength": 0.5},
    [],
    "sky",
    {"id": 5},
    {"ids": [5]},
    {"ids": ["a\0"]},
    {"id": "a\0"},
    {"id": "x" * 300},
    {"keywords": [None]},
    {"keywords": {"a": 1}},
    {"keywords": ["x" * 20_000]},
    {"keywords": ["a\0"]},
    {"keywords": ["\ud800"]},
    {"keywords": [str(number) for number in range(51)]},
    {"keywords": ["sky"], "min_strength": "much"},
    {"keywords": ["sky"], "source": 5},
    {"source": "x" * 5000},
    {"source": ["x"]},
]


async def test_a_query_that_cannot_be_answered_is_refused(assistant: Assistant) -> None:
    for query in UNANSWERABLE_QUERIES:
        reply = await command(assistant, "QUERY_MEMORY", query=query)

        assert reply["status"] == "ERROR", reply
        assert "Skein failed" not in reply["message"]
        if not query:
            assert reply["message"] in {"No query parameters provided", "query is an object"}


async def test_a_query_without_parameters_is_refused_as_documented(assistant: Assistant) -> None:
    reply = await command(assistant, "QUERY_MEMORY", query={})

    assert reply == error_reply("No query parameters provided", status="ERROR")


@pytest.mark.system
async def test_reinforcing_makes_stronger_up_to_five(assistant: Assistant, tenant: Tenant) -> None:
    memory_id = await store(assistant, "The sky is blue")

    first = await command(assistant, "REINFORCE_MEMORY", memory_id=memory_id)
    for _ in range(9):
        last = await command(assistant, "REINFORCE_MEMORY", memory_id=memory_id)

    assert first == {
        "status": "SUCCESS",
        "message": f"Memory {memory_id} reinforced successfully",
        "data": {"memory_id": memory_id, "strength": 1.2},
    }
    assert last["data"]["strength"] == 5
    assert (await query_memories(assistant, id=memory_id))[0]["strength"] == 5
    stored = pc2_metadata(await memory(tenant, memory_id))
    assert (stored["strength"], stored["reinforcements"]) == (5, 10)


async def test_a_command_that_is_sent_again_with_its_request_id_is_done_once(assistant: Assistant) -> None:
    memory_id = await store(assistant, "once")
    request = {"memory_id": memory_id, "request_id": "req-1"}

    strengths = [(await command(assistant, "REINFORCE_MEMORY", **request))["data"]["strength"] for _ in range(2)]
    deletions = [await command(assistant, "DELETE_MEMORY", **request) for _ in range(2)]

    assert strengths == [1.2, 1.2]
    assert deletions == [{"status": "SUCCESS", "message": f"Memory {memory_id} deleted successfully"}] * 2


@pytest.mark.system
async def test_reinforcements_at_once_all_count(assistant: Assistant) -> None:
    memory_id = await store(assistant, "busy")

    replies = await asyncio.gather(*(command(assistant, "REINFORCE_MEMORY", memory_id=memory_id) for _ in range(6)))

    assert {reply["status"] for reply in replies} == {"SUCCESS"}
    assert (await query_memories(assistant, id=memory_id))[0]["strength"] == round(1.2**6, 6)


async def test_a_typed_clients_memory_is_reinforced_too(assistant: Assistant, tenant: Tenant) -> None:
    typed = memory_pb2.Memory(content="typed")
    typed.metadata["own"] = "stays"
    stored = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=typed))).memory

    reply = await command(assistant, "REINFORCE_MEMORY", memory_id=stored.memory_id)

    assert reply["data"]["strength"] == 1.2
    assert (await memory(tenant, stored.memory_id)).metadata["own"] == "stays"


@over("name", ["REINFORCE_MEMORY", "DELETE_MEMORY"])
async def test_a_memory_that_is_not_there_is_not_found(assistant: Assistant, name: str) -> None:
    assert await command(assistant, name, memory_id=NOTHING) == error_reply(
        f"Memory {NOTHING} not found", status="ERROR"
    )
    for wrong in (None, "", 5, [NOTHING], "x" * 300, "a\0", "\ud800"):
        reply = await command(assistant, name, memory_id=wrong)

        assert reply["status"] == "ERROR"
        assert "Skein failed" not in reply["message"]


@pytest.mark.system
async def test_a_deleted_memory_is_not_found_by_any_client(assistant: Assistant, tenant: Tenant) -> None:
    memory_id = await store(assistant, "The sky is blue")

    deleted = await command(assistant, "DELETE_MEMORY", memory_id=memory_id)
    again = await command(assistant, "DELETE_MEMORY", memory_id=memory_id)

    assert deleted == {"status": "SUCCESS", "message": f"Memory {memory_id} deleted successfully"}
    assert again == error_reply(f"Memory {memory_id} not found", status="ERROR")
    assert await contents(assistant, keywords=["sky"]) == set()
    assert not (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories


@pytest.mark.system
async def test_idle_memories_fade_are_forgotten_and_come_back(assistant: Assistant, tenant: Tenant) -> None:
    memories = [
        {"id": "idle", "content": "one idle week", "strength": 1.0, "last_accessed": time_ago(days=7, minutes=5)},
        {"id": "gone", "content": "one idle month", "strength": 1.0, "last_accessed": time_ago(days=30, minutes=5)},
    ]
    await command(assistant, "SYNC_MEMORIES", memories=memories)

    by_words = await contents(assistant, keywords=["idle"])
    strong = await contents(assistant, keywords=["idle"], min_strength=0.9)
    everything = await query_memories(assistant, keywords=["idle"], include_forgotten=True, min_strength=0.1)
    by_id = await command(assistant, "QUERY_MEMORY", query={"id": "gone"})
    nevertheless = await query_memories(assistant, id="gone", include_forgotten=True)
    for _ in range(5):
        reply = await command(assistant, "REINFORCE_MEMORY", memory_id="gone")

    assert by_words == {"one idle week"}
    assert strong == set()
    assert {record["id"]: record["forgotten"] for record in everything} == {"idle": False, "gone": True}
    assert {record["id"]: record["strength"] for record in everything} == {
        "idle": round(0.9**7, 6),
        "gone": round(0.9**30, 6),
    }
    assert by_id == error_reply("Memory gone is forgotten", status="ERROR")
    # A query ends the idle time and does not raise the strength.
    assert nevertheless[0]["strength"] == round(0.9**30, 6)
    assert nevertheless[0]["last_accessed"] > datetime.now(UTC).timestamp() - 60
    assert reply["data"]["strength"] == round(0.9**30 * 1.2**5, 6)
    assert await contents(assistant, keywords=["idle"]) == {"one idle week", "one idle month"}
    assert pc2_metadata(await memory(tenant, "gone"))["decays"] == 30


@pytest.mark.system
async def test_the_status_sums_up(assistant: Assistant, tenant: Tenant) -> None:
    memory_id = await store(assistant, "The sky is blue")
    await command(assistant, "REINFORCE_MEMORY", memory_id=memory_id)
    before = await command(assistant, "GET_MEMORY_STATUS")
    idle = {"id": "gone", "content": "long ago", "last_accessed": time_ago(days=30, minutes=5)}
    await command(assistant, "SYNC_MEMORIES", memories=[idle])
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="typed")))

    reply = await command(assistant, "GET_MEMORY_STATUS")

    data = reply["data"]
    assert reply["status"] == "SUCCESS"
    assert set(data) == {
        "total_memories",
        "active_memories",
        "forgotten_memories",
        "total_reinforcements",
        "total_decays",
        "last_decay_check",
        "last_sync",
        "timestamp",
    }
    assert (data["total_memories"], data["active_memories"], data["forgotten_memories"]) == (3, 2, 1)
    assert (data["total_reinforcements"], data["total_decays"]) == (1, 30)
    assert before["data"]["last_sync"] is None
    now = datetime.now(UTC).timestamp()
    assert all(now - 60 < data[name] <= now for name in ("last_sync", "last_decay_check", "timestamp"))


@pytest.mark.system
async def test_synchronization_applies_newer_memories(assistant: Assistant, tenant: Tenant) -> None:
    stored = await store(assistant, "before")
    old, new = time_ago(days=2), time_ago(hours=-1)

    first = await command(
        assistant,
        "SYNC_MEMORIES",
        memories=[
            {"id": "m2", "content": "new here", "type": "fact", "created_at": "2024-05-01T00:00:00Z", "strength": 2.5},
            {"id": stored, "content": "stale", "last_accessed": old, "strength": 4},
        ],
    )
    second = await command(
        assistant,
        "SYNC_MEMORIES",
        memories=[{"id": stored, "content": "after", "last_accessed": new, "strength": 0.5, "metadata": {"a": 1}}],
    )

    fresh, changed = await memory(tenant, "m2"), await memory(tenant, stored)
    assert first["message"] == "Synchronized 1 memories"
    assert first["data"] == {"synced_count": 1, "total_memories": 2}
    assert second["data"] == {"synced_count": 1, "total_memories": 2}
    assert (fresh.content, fresh.type) == ("new here", "fact")
    assert fresh.create_time.ToDatetime(tzinfo=UTC) == datetime(2024, 5, 1, tzinfo=UTC)
    # The stronger of the two.
    assert (changed.content, pc2_metadata(changed)["strength"], changed.metadata["a"]) == ("after", 1, 1)


@pytest.mark.system
async def test_synchronizing_again_changes_nothing(assistant: Assistant, tenant: Tenant) -> None:
    memories = [{"id": "a", "content": "said", "last_accessed": time_ago(hours=1)}, {"id": "b", "content": "undated"}]
    for _ in range(2):
        reply = await command(assistant, "SYNC_MEMORIES", memories=memories)

    assert reply["data"] == {"synced_count": 2, "total_memories": 2}
    assert [(await memory(tenant, name)).revision for name in ("a", "b")] == [1, 1]


@pytest.mark.system
async def test_many_changes_are_synchronized_at_once_or_in_parts(assistant: Assistant) -> None:
    before = [{"id": f"m{number}", "content": "before"} for number in range(20)]
    after = [{**memory, "content": "after"} for memory in before]
    await command(assistant, "SYNC_MEMORIES", memories=before)

    reply = await command(assistant, "SYNC_MEMORIES", memories=after)
    while "remaining_count" in reply["data"]:
        reply = await command(assistant, "SYNC_MEMORIES", memories=after)

    records = await query_memories(assistant, ids=[memory["id"] for memory in before])
    assert reply["data"]["synced_count"] == 20
    assert {record["content"] for record in records} == {"after"}


@pytest.mark.system
async def test_synchronization_does_not_restore_deleted_memories(assistant: Assistant) -> None:
    memories = [{"id": "a", "content": "deleted"}, {"content": "without an id"}]
    await command(assistant, "SYNC_MEMORIES", memories=memories[:1])
    await command(assistant, "DELETE_MEMORY", memory_id="a")

    reply = await command(assistant, "SYNC_MEMORIES", memories=memories)

    assert reply["data"] == {"synced_count": 1, "total_memories": 1}
    assert await command(assistant, "QUERY_MEMORY", query={"id": "a"}) == error_reply(
        "Memory a not found", status="ERROR"
    )


async def test_of_two_versions_of_one_memory_the_newer_is_stored(assistant: Assistant) -> None:
    memories = [
        {"id": "a", "content": "newer", "last_accessed": time_ago(hours=1)},
        {"id": "a", "content": "older", "last_accessed": time_ago(hours=3)},
    ]

    reply = await command(assistant, "SYNC_MEMORIES", memories=memories)

    assert reply["data"]["synced_count"] == 1
    assert await contents(assistant, id="a") == {"newer"}


UNSYNCHRONIZABLE: list[Any] = [
    None,
    [],
    {},
    "text",
    [1],
    [{}],
    [{"id": "a"}],
    [{"id": 5, "content": "a"}],
    [{"id": "x" * 300, "content": "a"}],
    [{"id": "a\0", "content": "a"}],
    [{"id": "a", "content": "a", "strength": "much"}],
    [{"id": "a", "content": "a", "last_accessed": "yesterday"}],
    [{"id": "a", "content": "a", "created_at": 10**30}],
    [{"id": "a", "content": "a", "created_at": "1900-01-01T00:00:00Z"}],
    [{"id": "a", "content": "a\0"}],
    [{"id": "a", "content": "a", "type": 1}],
    [{"id": "a", "content": "a"}] * 501,
]


@pytest.mark.system
async def test_an_invalid_memory_rejects_the_whole_synchronization(assistant: Assistant, tenant: Tenant) -> None:
    for memories in UNSYNCHRONIZABLE:
        reply = await command(assistant, "SYNC_MEMORIES", memories=memories)

        assert reply["status"] == "ERROR"
        assert "Skein failed" not in reply["message"]
        assert not (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories


@pytest.mark.system
async def test_a_dual_writer_finds_its_memories_under_its_own_uuids(assistant: Assistant, tenant: Tenant) -> None:
    """Write as a client with its own store does: it sends each memory, at times twice."""
    written = {
        f"5f0c1d9e-0000-4000-8000-{number:012d}": {
            "content": f"turn {number}",
            "last_accessed": time_ago(minutes=number),
        }
        for number in range(10)
    }
    for memory_id, values in written.items():
        for _ in range(2):
            reply = await command(assistant, "SYNC_MEMORIES", memories=[{"id": memory_id, **values}])
            assert reply["data"]["synced_count"] == 1

    records = await query_memories(assistant, ids=list(written))

    assert {record["id"]: record["content"] for record in records} == {
        memory_id: values["content"] for memory_id, values in written.items()
    }
    assert (await memory(tenant, next(iter(written)))).content == "turn 0"
