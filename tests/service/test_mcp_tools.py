"""Every tool of every toolset, called with real things of a tenant; the arguments are those of the RPC's own recipe."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from fix_mcp import Mcp
from fix_models import until
from fix_receipts import recall_with_receipt
from fix_recipes import RECIPES, request_for
from fix_world import World

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein.memory.v1 import memory_pb2
from skein_gateway.mcp.schemas import to_json_value
from skein_gateway.mcp.tool import Effect, Tool
from skein_gateway.mcp.toolsets import TOOLS
from skein_kit.identity.permissions import ROLE_PERMISSIONS
from skein_kit.ids import now

# What the recipe of the RPC does not say, because its rows are about something else.
MORE: dict[str, dict[str, Any]] = {
    "link_memories": {"relation": "causes"},
    "update_link": {"label": "why"},
    "put_item": {"value": {"step": 2}},
    "update_webhook": {"display_name": "renamed"},
    "update_message": {"content": "corrected"},
}
# Refused however right the arguments are.
REFUSED = {
    # Webhooks go to public addresses over https, and none is there.
    "test_webhook": "",
}


@pytest.fixture
async def mcp(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Mcp]:
    async with Mcp.of(cluster.addresses["http"], tenant.api_key, "?toolsets=all") as client:
        yield client


async def arguments_of(tool: Tool, world: World) -> dict[str, Any]:
    """Return the arguments that make the request of the RPC's recipe, as far as the tool has them."""
    arguments = to_json_value(await request_for(tool.path, world))
    results = {argument.name: _at(arguments, argument.field_path) for argument in tool.arguments}
    return {name: value for name, value in results.items() if value is not None} | MORE.get(tool.name, {})


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


@pytest.fixture(scope="session")
async def read_only(cluster: Cluster) -> World:
    """A tenant that no tool changes."""
    return await World.new(cluster)


@pytest.mark.timeout(300)
@over("name", TOOLS, at_once=4)
async def test_a_tool_does_what_its_rpc_does(cluster: Cluster, read_only: World, name: str) -> None:
    tool = TOOLS[name]
    world = read_only if tool.effect is Effect.READS else await World.new(cluster)
    arguments = await arguments_of(tool, world)

    async with Mcp.of(cluster.addresses["http"], world.tenant.api_key, "?toolsets=all") as mcp:
        result = await mcp.ask("tools/call", {"name": name, "arguments": arguments})

    jsonschema.Draft202012Validator(tool.input_schema).validate(arguments)
    if name in REFUSED or RECIPES[tool.path].own:
        assert "skein/error" in result.get("_meta", {}) or not result.get("isError"), result
        return
    assert not result.get("isError"), (arguments, result)
    assert result["content"][0]["text"]
    jsonschema.Draft202012Validator({**tool.output_schema, "additionalProperties": False}).validate(
        result["structuredContent"]
    )


async def test_a_memory_that_a_tool_saves_is_read_by_an_rpc(mcp: Mcp, tenant: Tenant) -> None:
    saved = await mcp.call(
        "remember", content="Ada prefers tea", type="fact", key="ada.drink", tags=["tea"], importance=0.9
    )

    read = await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=saved["memory"]["memory_id"]))

    assert (read.memory.content, read.memory.type, read.memory.key) == ("Ada prefers tea", "fact", "ada.drink")
    assert (list(read.memory.tags), read.memory.importance) == (["tea"], 0.9)


async def test_recall_says_what_was_found_and_why(mcp: Mcp) -> None:
    saved = (await mcp.call("remember", content="The boiler was repaired in March"))["memory"]["memory_id"]
    message = {"role": "MESSAGE_ROLE_USER", "content": "My boiler broke in March!"}
    await mcp.call("append_messages", session_id="s1", messages=[message])

    result = await mcp.ask("tools/call", {"name": "recall", "arguments": {"query": "when was the boiler repaired?"}})

    text, hits = result["content"][0]["text"], result["structuredContent"]["hits"]
    assert hits[0]["item_id"] == saved
    assert {part["signal"] for part in hits[0]["components"]} >= {"dense", "lexical"}
    assert text.startswith(f"1. memory {saved} (relevance 0.")
    assert ", score 0." in text
    assert "The boiler was repaired in March" in text
    assert "My boiler broke in March!" in text


@pytest.mark.system
async def test_an_answer_is_explained_replayed_and_compared_by_its_receipt(mcp: Mcp, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    memory_id = (await mcp.call("remember", content="The boiler was repaired in March"))["memory"]["memory_id"]
    await recall_with_receipt(tenant, "boiler")
    query = {"query": "when was the boiler repaired?"}

    answer = await mcp.ask("tools/call", {"name": "recall", "arguments": query})
    receipt_id = answer["structuredContent"]["receipt_id"]
    await mcp.call("update_memory", memory_id=memory_id, content="The boiler was repaired in May")
    later_id = (await mcp.call("recall", **query))["receipt_id"]
    receipt = (await mcp.call("get_recall_receipt", receipt_id=receipt_id))["receipt"]
    replayed = await mcp.ask("tools/call", {"name": "replay_recall", "arguments": {"receipt_id": receipt_id}})
    (difference,) = (await mcp.call("diff_recall", receipt_id=receipt_id, other_receipt_id=later_id))["hits"]
    listed = (await mcp.call("list_recall_receipts", page_size=2))["receipts"]

    assert answer["content"][0]["text"].endswith(f"Receipt: {receipt_id}")
    assert (receipt["query"], receipt["hits"][0]["item_id"]) == (query["query"], memory_id)
    assert receipt["statement"]["formula"] == replayed["structuredContent"]["response"]["formula"]
    assert not receipt.keys() & {"content", "signature", "document"}
    assert replayed["content"][0]["text"].startswith("The search found the same.\n1. memory")
    assert "repaired in March" in replayed["content"][0]["text"]
    assert [change["event_type"] for change in difference["changes"]] == ["memory_updated"]
    assert [one["receipt_id"] for one in listed] == [later_id, receipt_id]


async def test_a_context_is_made_again_by_its_receipt(mcp: Mcp, tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    memory_id = (await mcp.call("remember", content="The boiler was repaired in March"))["memory"]["memory_id"]
    await recall_with_receipt(tenant, "boiler")
    built = await mcp.call("build_context", query="when was the boiler repaired?")
    await mcp.call("update_memory", memory_id=memory_id, content="The boiler was repaired in May")

    again = await mcp.ask("tools/call", {"name": "replay_context", "arguments": {"receipt_id": built["receipt_id"]}})

    assert "repaired in March" in built["text"]
    assert again["content"][0]["text"] == f"The text is the same byte for byte.\n{built['text']}"
    assert again["structuredContent"]["identical"] is True


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("remember", {"content": "tea"}),
        ("append_messages", {"session_id": "s", "messages": [{"role": "user", "content": "tea"}]}),
    ],
)
async def test_a_call_repeated_with_its_request_id_is_done_once(mcp: Mcp, name: str, arguments: dict[str, Any]) -> None:
    first = await mcp.call(name, **arguments, request_id="one")
    again = await mcp.call(name, **arguments, request_id="one")
    another = await mcp.call(name, **arguments, request_id="two")

    assert again == first
    assert another != first


async def test_a_request_id_is_for_one_call_alone(mcp: Mcp) -> None:
    await mcp.call("remember", content="tea", request_id="one")

    reason, text = await mcp.refused("remember", content="coffee", request_id="one")

    assert reason == "REQUEST_ID_REUSED"
    assert "choose a new one" in text


@pytest.mark.parametrize("role", ["user", "USER", "MESSAGE_ROLE_USER"])
async def test_names_are_short_and_the_contracts_own_are_read_too(mcp: Mcp, role: str) -> None:
    saved = await mcp.call("append_messages", session_id="s", messages=[{"role": role, "content": "tea"}])
    sessions = await mcp.call("list_sessions", states=["active", "SESSION_STATE_PAUSED"])

    assert saved["messages"][0]["role"] == "user"
    assert [session["state"] for session in sessions["sessions"]] == ["active"]


async def test_neighbours_of_a_memory_come_with_their_words(mcp: Mcp) -> None:
    one = (await mcp.call("remember", content="Ada drinks tea"))["memory"]["memory_id"]
    other = (await mcp.call("remember", content="Tea helps her sleep. " + "z" * 2000))["memory"]["memory_id"]
    await mcp.call("link_memories", from_memory_id=one, to_memory_id=other, relation="causes")

    result = await mcp.ask("tools/call", {"name": "neighbours", "arguments": {"memory_id": one}})

    text = result["content"][0]["text"]
    assert f"0 away: note {one}\n   | Ada drinks tea" in text
    assert f"1 away: note {other}\n   | Tea helps her sleep." in text
    assert f"{one} causes {other} (link " in text
    assert len(text) < 1500
    assert result["structuredContent"]["nodes"][1]["memory"]["content"].endswith("zzz")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("list_memories", {}, "Nothing was found."),
        ("read_blocks", {"label": "human"}, "Nothing was found."),
        ("list_sessions", {}, "Nothing was found."),
        ("recall", {"query": "tea"}, "Nothing was found."),
        ("forget", {"tags": ["nowhere"]}, "No memory matches."),
    ],
)
async def test_a_tool_does_not_claim_work_that_was_not_done(
    mcp: Mcp, name: str, arguments: dict[str, Any], message: str
) -> None:
    result = await mcp.ask("tools/call", {"name": name, "arguments": arguments})

    assert result["content"][0]["text"] == message


async def test_conditions_narrow_what_is_recalled(mcp: Mcp) -> None:
    await mcp.call("remember", content="green tea", tags=["a"], importance=0.9)
    await mcp.call("remember", content="black tea", tags=["b"])

    by_tag = await mcp.call("recall", query="tea", tags=["b"])
    by_words = await mcp.call("list_memories", where="importance > 0.8")
    by_neither = await mcp.ask("tools/call", {"name": "recall", "arguments": {"query": "tea", "tags": ["c"]}})

    assert [hit["memory"]["content"] for hit in by_tag["hits"]] == ["black tea"]
    assert [memory["content"] for memory in by_words["memories"]] == ["green tea"]
    assert "excluded everything: tags" in by_neither["content"][0]["text"]


@pytest.mark.system
async def test_a_search_is_by_the_mode_that_is_named(mcp: Mcp) -> None:
    for content in ("We took the automobile", "My car is red"):
        await mcp.call("remember", content=content)

    async def have_vectors() -> bool:
        return len((await mcp.call("recall", query="automobiles", mode="semantic")).get("hits", [])) == 2

    await until(have_vectors)
    by_words = await mcp.call("recall", query="automobiles", mode="keyword")
    by_meaning = await mcp.call("recall", query="automobiles", mode="semantic")
    by_both = await mcp.call("recall", query="automobiles", mode="hybrid", min_relevance=0)
    packed = await mcp.call("build_context", query="automobiles", mode="keyword")

    assert [hit["memory"]["content"] for hit in by_words["hits"]] == ["We took the automobile"]
    assert {part["signal"] for hit in by_meaning["hits"] for part in hit["components"]} == {"dense"}
    assert {hit["memory"]["content"]: hit["has_query_words"] for hit in by_both["hits"]} == {
        "We took the automobile": True,
        "My car is red": False,
    }
    assert "automobile" in packed["text"]
    assert "My car" not in packed["text"]


async def test_an_update_changes_what_is_given_and_clears_what_is_null(mcp: Mcp) -> None:
    memory = (await mcp.call("remember", content="tea", title="drinks", tags=["a"]))["memory"]

    changed = (await mcp.call("update_memory", memory_id=memory["memory_id"], content="coffee", title=None))["memory"]

    assert (changed["content"], changed["tags"], changed["revision"]) == ("coffee", ["a"], 2)
    assert "title" not in changed


async def test_an_archived_memory_is_kept_and_comes_back(mcp: Mcp) -> None:
    memory_id = (await mcp.call("remember", content="tea"))["memory"]["memory_id"]

    await mcp.call("update_memory", memory_id=memory_id, archive_time="2026-01-01T00:00:00Z")
    archived = await mcp.call("list_memories")
    await mcp.call("update_memory", memory_id=memory_id, archive_time=None)
    again = await mcp.call("list_memories")

    assert "memories" not in archived
    assert [memory["memory_id"] for memory in again["memories"]] == [memory_id]


@pytest.mark.system
async def test_a_forgotten_memory_can_be_restored_unless_it_is_for_good(mcp: Mcp) -> None:
    memory_id = (await mcp.call("remember", content="tea"))["memory"]["memory_id"]

    tried = await mcp.call("forget", memory_ids=[memory_id], dry_run=True)
    await mcp.call("forget", memory_ids=[memory_id])
    gone, _ = await mcp.refused("get_memory", memory_id=memory_id)
    restored = await mcp.call("undelete_memory", memory_id=memory_id)
    receipt = (await mcp.call("forget", memory_ids=[memory_id], purge=True))["receipt"]
    purged, _ = await mcp.refused("undelete_memory", memory_id=memory_id)

    assert tried["memory_ids"] == [memory_id]
    assert (gone, purged) == ("MEMORY_NOT_FOUND", "MEMORY_NOT_FOUND")
    assert restored["memory"]["content"] == "tea"
    assert receipt["memory_ids"] == [memory_id]


async def test_a_stale_revision_is_refused_with_what_to_do(mcp: Mcp) -> None:
    memory_id = (await mcp.call("remember", content="tea"))["memory"]["memory_id"]
    await mcp.call("update_memory", memory_id=memory_id, content="coffee")

    reason, text = await mcp.refused("update_memory", memory_id=memory_id, content="water", revision=1)

    assert reason == "REVISION_STALE"
    assert text.startswith("REVISION_STALE: ")


async def test_nothing_is_forgotten_without_a_selection(mcp: Mcp) -> None:
    await mcp.call("remember", content="tea")

    reason, _ = await mcp.refused("forget")

    assert reason == "SELECTION_EMPTY"
    assert len((await mcp.call("list_memories"))["memories"]) == 1


async def test_a_context_is_one_text_with_citations(mcp: Mcp) -> None:
    await mcp.call("remember", content="Ada lives in Oslo")

    result = await mcp.ask("tools/call", {"name": "build_context", "arguments": {"query": "Where does Ada live?"}})

    assert result["content"][0]["text"] == result["structuredContent"]["text"]
    assert "[1]" in result["content"][0]["text"]
    assert result["structuredContent"]["citations"][0]["number"] == 1


@pytest.mark.parametrize(
    ("name", "arguments", "word"),
    [
        ("remember", {}, "content is required"),
        ("remember", {"content": None}, "content is required"),
        (
            "remember",
            {"content": "x", "flavour": "mint"},
            "flavour is not an argument of remember, which takes content, title, type,",
        ),
        ("remember", {"content": "x", "tags": "tea"}, "tags does not match the schema"),
        ("remember", {"content": 7}, "content does not match the schema"),
        ("remember", {"content": "x", "importance": 2}, "importance must be"),
        ("remember", {"content": "x", "importance": "high"}, "importance does not match the schema"),
        ("remember", {"content": "x", "type": "No Type"}, "type does not match"),
        ("remember", {"content": "x", "expire_time": "tomorrow"}, "expire_time does not match the schema"),
        ("remember", {"content": "x", "title": "t" * 1001}, "title must be at most 1000"),
        ("remember", {"content": "x", "data": ["a"]}, "data does not match the schema"),
        ("update_memory", {"memory_id": "x"}, "name at least one field to change"),
        ("recall", {"query": "x", "limit": 101}, "limit must be"),
        ("recall", {"query": "x", "limit": 2**40}, "limit does not match the schema"),
        (
            "recall",
            {"query": "x", "branches": ["BRANCH_WINDOW"]},
            "branches[0] does not match the schema: must be one of",
        ),
        (
            "recall",
            {"query": "x", "mode": "lexical"},
            "mode does not match the schema: must be one of hybrid,",
        ),
        ("recall", {"query": "x", "since": "2026-13-01T00:00:00Z"}, "since does not match the schema"),
        ("append_messages", {"session_id": "s", "messages": []}, "messages must contain at least 1"),
        (
            "append_messages",
            {"session_id": "s", "messages": [{"role": "BOSS", "content": "x"}]},
            "messages[0].role does not match the schema: must be one of user, assistant, system, tool",
        ),
        ("append_messages", {"session_id": "s", "messages": "x"}, "messages does not match the schema: must be a list"),
        (
            "append_messages",
            {"session_id": "s", "messages": ["x"]},
            "messages[0] does not match the schema: must",
        ),
        (
            "append_messages",
            {"session_id": "s", "messages": [{"role": "user", "text": "x"}]},
            "messages[0].text does not match the schema: the field does not exist",
        ),
        (
            "append_messages",
            {"session_id": "s", "messages": [{"role": "user", "content": "x", "create_time": "2030-01-31"}]},
            'messages[0].create_time does not match the schema: must be a time such as "2030-01-31T12:00:00Z"',
        ),
        ("remember", {"content": "x", "request_id": "r" * 256}, "request_id must be at most 255"),
        (
            "recall",
            {"query": "x", "include_superseded": "yes"},
            "include_superseded does not match the schema",
        ),
        ("get_memory", {"memory_id": ""}, "memory_id must be at least 1"),
        ("get_memory", {"memory_id": {"$ne": ""}}, "memory_id does not match the schema"),
    ],
)
async def test_wrong_arguments_are_reported_to_the_model_by_their_names(
    mcp: Mcp, name: str, arguments: dict[str, Any], word: str
) -> None:
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    )

    result = (await mcp.post(body)).json()["result"]

    assert result["isError"]
    text = result["content"][0]["text"]
    assert result["_meta"]["skein/error"]["reason"] in {"INVALID_FIELD", "TEXT_NOT_STORABLE"}
    assert word in text, text
    assert "Request" not in text.replace("request", "")


async def test_an_unknown_tool_is_an_error_of_the_protocol(mcp: Mcp) -> None:
    error = await mcp.error("tools/call", {"name": "make_tea", "arguments": {}})

    assert error["code"] == -32602
    assert error["message"].startswith("Unknown tool: make_tea")


async def test_a_tool_of_another_set_says_where_it_is(cluster: Cluster, tenant: Tenant) -> None:
    async with Mcp.of(cluster.addresses["http"], tenant.api_key) as mcp:
        error = await mcp.error("tools/call", {"name": "statistics", "arguments": {}})

    assert (error["code"], "toolset curation" in error["message"]) == (-32602, True)


@pytest.mark.system
async def test_another_tenants_things_are_not_there(cluster: Cluster, mcp: Mcp, other_tenant: Tenant) -> None:
    memory_id = (await mcp.call("remember", content="a secret kettle"))["memory"]["memory_id"]
    await mcp.call("append_messages", session_id="ours", messages=[{"role": "MESSAGE_ROLE_USER", "content": "kettle"}])

    async with Mcp.of(cluster.addresses["http"], other_tenant.api_key, "?toolsets=all") as other:
        result, _ = await other.refused("get_memory", memory_id=memory_id)
        changed, _ = await other.refused("update_memory", memory_id=memory_id, content="x")
        linked, _ = await other.refused("link_memories", from_memory_id=memory_id, to_memory_id=memory_id)
        read, _ = await other.refused("read_session", session_id="ours")
        found = await other.call("recall", query="a secret kettle")
        definition = await other.ask("resources/list")
        resource = await other.error("resources/read", {"uri": f"skein://memories/{memory_id}"})

    assert (result, changed) == ("MEMORY_NOT_FOUND", "MEMORY_NOT_FOUND")
    assert linked in {"MEMORY_NOT_FOUND", "LINK_TO_ITSELF"}
    assert read == "SESSION_NOT_FOUND"
    assert (found.get("hits", []), definition["resources"]) == ([], [])
    assert resource["data"]["skein/error"]["reason"] == "MEMORY_NOT_FOUND"


async def test_a_reader_is_told_so_when_writing(cluster: Cluster, tenant: Tenant) -> None:
    account = accounts_pb2.ServiceAccount(display_name="reader", permissions=sorted(ROLE_PERMISSIONS["viewer"]))
    made = await tenant.auth.CreateServiceAccount(accounts_pb2.CreateServiceAccountRequest(service_account=account))
    key = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="k", service_account_id=made.service_account.service_account_id)
    )

    async with Mcp.of(cluster.addresses["http"], key.secret) as mcp:
        reason, text = await mcp.refused("remember", content="tea")
        result = await mcp.call("recall", query="tea")

    assert reason == "PERMISSION_MISSING"
    assert "memory.write" in text
    assert "hits" not in result


@pytest.mark.system
async def test_a_search_and_a_context_are_as_of_a_time(mcp: Mcp) -> None:
    saved = (await mcp.call("remember", content="Ada lives in Paris"))["memory"]
    known = now()
    await mcp.call("update_memory", memory_id=saved["memory_id"], content="Ada lives in Rome")

    then = await mcp.call("recall", query="where does Ada live?", as_of_time=known.isoformat())
    today = await mcp.call("recall", query="where does Ada live?")
    packed = await mcp.call("build_context", query="where does Ada live?", as_of_time=known.isoformat())
    future = await mcp.ask(
        "tools/call", {"name": "recall", "arguments": {"query": "Ada", "as_of_time": "2999-01-01T00:00:00Z"}}
    )

    assert [hit["memory"]["content"] for hit in then["hits"]] == ["Ada lives in Paris"]
    assert [hit["memory"]["content"] for hit in today["hits"]] == ["Ada lives in Rome"]
    assert "Ada lives in Paris" in packed["text"]
    assert future["isError"]
