"""Many memories at a time through the orchestrator's ports: pages, searches, deletions, summaries."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_catalogue import over
from fix_cluster import Tenant
from fix_pc2 import SESSION, Assistant

from skein.memory.v1 import memory_pb2
from skein_pc2.envelope import memory_lists

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def code(reply: Any) -> str:
    """Return the code of a refusal."""
    assert reply["status"] == "error", reply
    return str(reply["error"]["code"])


def iso(minute: int) -> str:
    return (START + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")


async def store(tenant: Tenant, count: int, **fields: Any) -> None:
    """Store memories `m0`, `m1` … of one minute each from START on."""
    memories = []
    for number in range(count):
        memory = memory_pb2.Memory(
            content=f"memory number {number}", external_id=f"m{number}", session_id=SESSION, **fields
        )
        memory.create_time.FromDatetime(START + timedelta(minutes=number))
        memories.append(memory)
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))


async def batch(assistant: Assistant, **payload: Any) -> Any:
    reply = await assistant.request("batch_read", payload=payload)
    assert reply["status"] == "success", reply
    return reply["data"]


def ids(data: Any) -> list[str]:
    return [memory["memory_id"] for memory in data["memories"]]


async def test_memories_are_read_by_id_in_the_requested_order(
    assistant: Assistant, tenant: Tenant, other_tenant: Tenant
) -> None:
    await store(tenant, 3)
    theirs = memory_pb2.Memory(content="secret", external_id="theirs")
    await other_tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=theirs))

    data = await batch(assistant, memory_ids=["m2", "nobody", "m0", "theirs", "m2"])

    assert ids(data) == ["m2", "m0"]
    assert data["total_count"] == 2
    assert data["page_info"] == {"limit": 4, "offset": 0, "has_more": False}
    assert set(data["memories"][0]) >= {"memory_id", "memory_type", "content", "tags", "created_at", "priority"}


async def test_a_filter_holds_for_named_memories_too(assistant: Assistant, tenant: Tenant) -> None:
    await store(tenant, 5, type="context", tags=["even"])
    expected_id = await assistant.create("another", memory_type="user_preference")
    named = ["m0", "m1", "m2", "m3", "m4", expected_id]

    by_type = await batch(assistant, memory_ids=named, filter={"memory_type": "user_preference"})
    by_tag = await batch(assistant, memory_ids=named, filter={"tags": ["even"]})
    by_time = await batch(assistant, memory_ids=named, filter={"time_range": {"start": iso(1), "end": iso(3)}})

    assert ids(by_type) == [expected_id]
    assert (ids(by_tag), by_tag["total_count"]) == (["m0", "m1", "m2", "m3", "m4"], 5)
    assert ids(by_time) == ["m1", "m2"]


async def test_pages_follow_one_another_to_the_end(assistant: Assistant, tenant: Tenant) -> None:
    await store(tenant, 7)

    pages = [await batch(assistant, filter={"limit": 3, "offset": offset}) for offset in (0, 3, 6, 9)]

    assert [ids(page) for page in pages] == [["m6", "m5", "m4"], ["m3", "m2", "m1"], ["m0"], []]
    assert [page["page_info"]["has_more"] for page in pages] == [True, True, False, False]
    assert [page["total_count"] for page in pages] == [7, 7, 7, 7]
    assert pages[1]["page_info"] == {"limit": 3, "offset": 3, "has_more": True}


async def test_lists_are_filtered(assistant: Assistant, tenant: Tenant) -> None:
    await store(tenant, 4, type="context", tags=["a"])
    other = await assistant.create("tea", memory_type="user_preference", tags=["b", "c"])

    assert ids(await batch(assistant, filter={"memory_type": "User-Preference"})) == [other]
    assert ids(await batch(assistant, filter={"tags": ["c", "d"]})) == [other]
    assert ids(await batch(assistant, filter={"time_range": {"end": iso(2)}})) == ["m1", "m0"]
    assert ids(await batch(assistant, filter={"time_range": {"start": iso(2), "end": iso(60)}})) == ["m3", "m2"]
    assert ids(await batch(assistant, filter={"memory_type": "context", "tags": ["b"]})) == []


@pytest.mark.parametrize(
    ("field", "order", "expected"),
    [
        ("created_at", "desc", ["m2", "m1", "m0"]),
        ("created_at", "asc", ["m0", "m1", "m2"]),
        ("updated_at", "desc", ["m0", "m1", "m2"]),
        ("updated_at", "asc", ["m2", "m1", "m0"]),
        ("priority", "desc", ["m1", "m2", "m0"]),
        ("priority", "asc", ["m0", "m2", "m1"]),
    ],
)
async def test_lists_have_the_requested_order(
    assistant: Assistant, tenant: Tenant, field: str, order: str, expected: list[str]
) -> None:
    await store(tenant, 3)
    for memory_id, priority in (("m2", 5), ("m1", 9), ("m0", 2)):
        await assistant.request("update", payload={"memory_id": memory_id, "priority": priority})

    assert ids(await batch(assistant, filter={"sort": {"field": field, "order": order}})) == expected


@pytest.mark.system
async def test_an_order_without_an_index_is_refused_when_too_much_would_be_read(
    assistant: Assistant, tenant: Tenant
) -> None:
    batches = [
        [memory_pb2.Memory(content=f"{part} {number}", session_id=SESSION) for number in range(501)]
        for part in range(2)
    ]
    for memories in batches:
        await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))

    refused = await assistant.request("batch_read", payload={"filter": {"sort": {"field": "priority", "order": "asc"}}})
    indexed = await batch(assistant, filter={"sort": {"field": "priority"}, "offset": 1000, "limit": 1})

    assert code(refused) == "validation_error"
    assert (len(indexed["memories"]), indexed["page_info"]["has_more"], indexed["total_count"]) == (1, True, 1002)


@pytest.mark.system
async def test_a_reply_has_a_few_megabytes_and_its_real_page_size(assistant: Assistant, tenant: Tenant) -> None:
    # Large data, not content: a busy machine needs a while to split and embed some megabytes of words.
    for part in range(2):
        memories = [
            memory_pb2.Memory(content="heavy", session_id=SESSION, external_id=f"m{part}-{number}")
            for number in range(30)
        ]
        for memory in memories:
            memory.metadata["weight"] = "x" * 60_000
        await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))

    data = await batch(assistant, filter={"limit": 60})
    next_page = await batch(assistant, filter={"limit": 60, "offset": data["page_info"]["limit"]})

    assert data["page_info"]["limit"] == len(data["memories"]) < 60
    assert data["page_info"]["has_more"] is True
    assert len({*ids(data), *ids(next_page)}) == len(ids(data)) + len(ids(next_page)) == 60


@over(
    "payload",
    [
        {"memory_ids": "a\ud800"},
        {"memory_ids": 5},
        {"memory_ids": [5]},
        {"memory_ids": []},
        {"memory_ids": ["x" * 256]},
        {"memory_ids": [f"m{number}" for number in range(1001)]},
        {"filter": []},
        {"filter": {"limit": 0}},
        {"filter": {"limit": "5"}},
        {"filter": {"offset": -1}},
        {"filter": {"offset": 1001}},
        {"filter": {"offset": 1.5}},
        {"filter": {"sort": {"field": "content"}}},
        {"filter": {"sort": {"order": "sideways"}}},
        {"filter": {"sort": 5}},
        {"filter": {"time_range": "today"}},
        {"filter": {"time_range": {"start": "yesterday"}}},
        {"filter": {"memory_type": "no/pe"}},
        {"filter": {"tags": [f"t{number}" for number in range(51)]}},
    ],
)
async def test_an_invalid_list_request_is_rejected(assistant: Assistant, payload: dict[str, Any]) -> None:
    assert code(await assistant.request("batch_read", payload=payload)) == "validation_error"


@pytest.mark.system
async def test_bulk_delete_deletes_what_passes_its_filter(
    assistant: Assistant, tenant: Tenant, other_tenant: Tenant
) -> None:
    await store(tenant, 4, type="context", tags=["a"])
    await store(other_tenant, 4, type="context", tags=["a"])
    kept_id = await assistant.create("tea", memory_type="context", tags=["b"])

    reply = await assistant.request(
        "bulk_delete", payload={"filter": {"memory_type": "context", "older_than": iso(3), "tags": ["a", "z"]}}
    )

    assert reply["data"] == {
        "deleted_count": 3,
        "filter_applied": {"memory_type": "context", "older_than": "2026-03-01T12:03:00.000Z", "tags": ["a", "z"]},
        "has_more": False,
    }
    assert ids(await batch(assistant)) == [kept_id, "m3"]
    theirs = await other_tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert len(theirs.memories) == 4


@pytest.mark.system
async def test_a_bulk_delete_sent_again_deletes_nothing_more(assistant: Assistant) -> None:
    await assistant.create("one", tags=["x"])
    request: dict[str, Any] = {"request_id": "req-1", "payload": {"filter": {"tags": ["x"]}}}

    first = await assistant.request("bulk_delete", **request)
    await assistant.create("two", tags=["x"])
    again = await assistant.request("bulk_delete", **request)

    assert first["data"]["deleted_count"] == 1
    assert again["data"] == first["data"]
    assert (await batch(assistant))["total_count"] == 1


@pytest.mark.system
async def test_a_bulk_delete_continues_in_the_background(
    assistant: Assistant, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_lists, "DELETION_BATCH_SIZE", 10)
    monkeypatch.setattr(memory_lists, "MAX_DELETION_CALLS", 2)
    memories = [memory_pb2.Memory(content=f"number {number}", tags=["x"], session_id=SESSION) for number in range(25)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))

    reply = await assistant.request("bulk_delete", payload={"filter": {"tags": ["x"]}})
    later = await assistant.create("stored after the deletion", tags=["x"])

    assert (reply["data"]["deleted_count"], reply["data"]["has_more"]) == (20, True)
    async with asyncio.timeout(60):
        while (await batch(assistant))["total_count"] > 1:
            await asyncio.sleep(0.05)
    assert ids(await batch(assistant)) == [later]


@pytest.mark.parametrize("action", ["batch_read", "search", "bulk_delete", "summarize"])
async def test_a_list_without_a_session_is_refused(assistant: Assistant, action: str) -> None:
    await assistant.create("kept")
    payload = {"query": "kept", "memory_type": "conversation", "filter": {"memory_type": "conversation"}}

    reply = await assistant.request(action, session_id=None, payload=payload)

    assert code(reply) == "invalid_request"
    assert (await batch(assistant))["total_count"] == 1


@pytest.mark.system
async def test_clearing_one_session_leaves_every_other_as_it_was(assistant: Assistant) -> None:
    for session_id in ("ana", "bob"):
        for number in range(5):
            await assistant.request(
                "create", session_id=session_id, payload={"content": {"text": f"{number} {session_id}"}}
            )

    cleared = await assistant.request(
        "bulk_delete", session_id="ana", payload={"filter": {"memory_type": "conversation"}}
    )

    assert cleared["data"]["deleted_count"] == 5
    remaining = await assistant.request("batch_read", session_id="bob", payload={"filter": {}})
    assert [memory["content"]["text"] for memory in remaining["data"]["memories"]] == [
        f"{n} bob" for n in (4, 3, 2, 1, 0)
    ]


@pytest.mark.system
async def test_lists_searches_and_summaries_exclude_other_sessions(assistant: Assistant) -> None:
    text = "Bob hides the key under the green flower pot"
    theirs = await assistant.request("create", session_id="bob", payload={"content": {"text": text}})
    await assistant.request("create", session_id="ana", payload={"content": {"text": "Ana waters the flowers"}})
    memory_id = theirs["data"]["memory_id"]

    replies = [
        await assistant.request(action, session_id="ana", payload=payload)
        for action, payload in (
            ("batch_read", {"filter": {"limit": 10}}),
            ("batch_read", {"memory_ids": [memory_id], "filter": {}}),
            ("search", {"query": "green flower pot key", "filters": {"min_similarity": 0.0, "limit": 5}}),
            ("search", {"query": "green flower pot key", "search_type": "keyword"}),
            ("summarize", {"memory_type": "conversation"}),
        )
    ]
    read = await assistant.request("read", session_id="ana", payload={"memory_id": memory_id})

    assert not [reply for reply in replies if "hides" in str(reply)]
    assert replies[0]["data"]["total_count"] == replies[4]["data"]["memory_count"] == 1
    assert read["data"]["content"]["text"] == text


async def test_named_memories_come_in_their_order_whatever_limit_is_sent(assistant: Assistant, tenant: Tenant) -> None:
    await store(tenant, 12)
    named = [f"m{number}" for number in (3, 1, 11, 0, 2, 10, 4, 9, 5, 8, 6, 7)]
    always_sent = {"memory_type": None, "time_range": None, "tags": None, "limit": 10, "offset": 0}

    data = await batch(
        assistant, memory_ids=named, filter={**always_sent, "sort": {"field": "created_at", "order": "desc"}}
    )

    assert ids(data) == named
    assert data["page_info"]["has_more"] is False


async def test_a_summary_needs_a_type(assistant: Assistant) -> None:
    assert code(await assistant.request("summarize", payload={})) == "validation_error"


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"filter": {}},
        {"filter": None},
        {"filter": "all"},
        {"filter": {"tags": []}},
        {"filter": {"memory_type": None, "older_than": None, "tags": None}},
        {"filter": {"time_range": {}}},
        {"filter": {"older_than": "a while"}},
        {"filter": {"memory_type": "context", "oldre_than": "2020-01-01T00:00:00Z"}},
    ],
)
async def test_a_bulk_delete_without_a_condition_deletes_nothing(assistant: Assistant, payload: dict[str, Any]) -> None:
    await assistant.create("kept", memory_type="context")

    assert code(await assistant.request("bulk_delete", payload=payload)) == "validation_error"
    assert (await batch(assistant))["total_count"] == 1


async def test_a_summary_tells_of_the_memories_that_pass(assistant: Assistant, tenant: Tenant) -> None:
    texts = [
        "Ana drinks green tea in the morning.",
        "The green tea comes from Japan and Ana loves it.",
        "Ana buys green tea every month.",
    ]
    for number, text in enumerate(texts):
        memory = memory_pb2.Memory(content=text, type="user_preference", session_id=SESSION)
        memory.create_time.FromDatetime(START + timedelta(minutes=number))
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    await assistant.create("The boiler was serviced in May.", memory_type="context")

    await assistant.request("create", session_id="another", payload={"content": {"text": "Green tea is not for Bob."}})

    whole = (await assistant.request("summarize", payload={"memory_type": "user_preference"}))["data"]
    span = {"start": iso(1), "end": iso(2)}
    part = (await assistant.request("summarize", payload={"memory_type": "user_preference", "time_range": span}))[
        "data"
    ]

    assert whole["memory_count"] == 3
    assert "green tea" in whole["summary"]
    assert "boiler" not in whole["summary"]
    assert whole["time_range"] == {"start": "2026-03-01T12:00:00.000Z", "end": "2026-03-01T12:02:00.000Z"}
    assert (part["summary"], part["memory_count"]) == (texts[1], 1)
    assert part["time_range"] == {"start": "2026-03-01T12:01:00.000Z", "end": "2026-03-01T12:02:00.000Z"}


async def test_a_summary_of_nothing_is_empty_and_of_a_word_is_the_word(assistant: Assistant) -> None:
    nothing = (await assistant.request("summarize", payload={"memory_type": "conversation"}))["data"]
    await assistant.create("tea")
    word = (await assistant.request("summarize", payload={"memory_type": "conversation"}))["data"]

    assert nothing == {
        "summary": "",
        "memory_count": 0,
        "time_range": {"start": None, "end": None},
        "has_more": False,
    }
    assert (word["summary"], word["memory_count"]) == ("tea", 1)


async def test_a_hybrid_search_with_a_threshold_excludes_unrelated_memories(assistant: Assistant) -> None:
    expected_id = await assistant.create("Ana drinks green tea")
    await assistant.create("The boiler was serviced in May")

    async def search(**filters: Any) -> list[str]:
        reply = await assistant.request("search", payload={"query": "green tea", "filters": filters})
        return [result["memory_id"] for result in reply["data"]["results"]]

    assert await search(min_similarity=0.99) == [expected_id]
    assert (await search())[0] == expected_id


async def test_search_is_filtered_by_type_time_and_tags_together(assistant: Assistant, tenant: Tenant) -> None:
    await store(tenant, 4, type="context", tags=["a"])

    async def search(**filters: Any) -> list[str]:
        payload = {"query": "memory number", "search_type": "keyword", "filters": filters}
        reply = await assistant.request("search", payload=payload)
        assert reply["data"]["total_count"] == len(reply["data"]["results"])
        return sorted(result["memory_id"] for result in reply["data"]["results"])

    span = {"start": iso(1), "end": iso(3)}
    assert await search(memory_types=["context", "fact"], tags=["a", "b"], time_range=span) == ["m1", "m2"]
    assert await search(memory_types=["fact"], tags=["a"], time_range=span) == []
    assert len(await search(limit=3)) == 3
    assert len(await search(limit=1000)) == 4
