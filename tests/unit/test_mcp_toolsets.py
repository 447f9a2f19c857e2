"""The tools as they are told to clients: few, described, and all that the systems that users come from had."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from fix_catalogue import over

from skein_gateway.mcp.schemas import COMMON_KEYWORDS
from skein_gateway.mcp.tool import Effect, Tool
from skein_gateway.mcp.toolsets import CORE, SET_OF, TOOLS, TOOLSETS, ToolsetUnknown, parse_toolsets, tools_of
from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.text.token_estimate import estimate_tokens

# What the systems behind the seeds let a model do, and the tools that do it here.
DUYETBOT = {
    "list sessions": ["list_sessions"],
    "create, get and update a session": ["create_session", "get_session", "update_session"],
    "delete a session": ["delete_session"],
    "save messages": ["append_messages"],
    "get messages": ["read_session"],
    "search messages": ["search_messages", "recall"],
    "set, get, list and delete short-term items": ["put_item", "get_item", "list_items", "delete_item"],
    "save, update, delete and list long-term items": ["remember", "update_memory", "forget", "list_memories"],
    "tasks: add, list, update": ["add_task", "list_tasks", "update_task_status", "complete_task", "reopen_task"],
}
MEMORYVAULT = {
    "save a memory": ["remember"],
    "get, list, update, delete": ["get_memory", "list_memories", "update_memory", "forget"],
    "get a fact by its key": ["list_memories"],
    "archive and bring back": ["update_memory"],
    "search": ["recall"],
    "context pack": ["build_context"],
    "link, unlink, list links": ["link_memories", "unlink", "list_links"],
    "neighbours": ["neighbours"],
    "subgraph": ["subgraph"],
    "paths": ["find_paths"],
    "suggest links": ["suggest_links"],
    "consolidate": ["consolidate_memories"],
    "merge": ["merge_memories"],
    "forget, soft and hard": ["forget", "purge_memories", "undelete_memory"],
    "activate": ["spread_activation"],
    "reinforce": ["reinforce_memory"],
    "decay": ["decay_scores"],
    "review queue": ["review_queue"],
    "temporal clusters": ["temporal_clusters"],
    "objectives: root, set, list": ["add_objective", "set_objective", "list_objectives"],
    "next actions": ["next_actions"],
    "statistics": ["statistics"],
    "explain a score": ["explain_score"],
    "conflicts: list, resolve": ["list_conflicts", "resolve_conflict", "list_conflict_resolutions"],
    "entities: resolve, list aliases": ["resolve_entity", "list_aliases", "get_canonical_memory", "delete_alias"],
    "source trust: set, list": ["set_source_trust", "get_source_trust", "list_source_trust"],
    "policy: get, set": ["get_policy", "update_policy"],
    "snapshots": ["create_snapshot", "list_snapshots", "restore_snapshot", "diff_snapshots", "delete_snapshot"],
    "changelog": ["list_changes"],
    "watches": ["create_webhook", "list_webhooks", "update_webhook", "delete_webhook", "test_webhook"],
    "export and import": ["export_data", "import_data"],
    "purge": ["purge_memories"],
}
AGENTMEM = {
    "agents": ["create_agent", "get_agent", "list_agents", "update_agent", "delete_agent"],
    "agent state": ["put_agent_state", "get_agent_state"],
    "tools and attachment": ["create_agent_tool", "attach_tool", "detach_tool", "list_agent_tools"],
    "messages of an agent": ["list_agent_messages"],
    "core memory: create": ["create_block"],
    "core_memory_append": ["append_to_block"],
    "core_memory_replace": ["replace_in_block"],
    "attach and detach a block": ["attach_block", "detach_block"],
    "block templates": ["create_block_from_template"],
    "compile blocks": ["compile_blocks"],
    "batch create": ["remember_many"],
    "search": ["recall"],
    "levels": ["promote_memory", "demote_memory"],
    "typed memories": ["list_memory_types", "remember"],
    "versions": ["list_memory_versions"],
    "users": ["add_person", "get_person", "list_people", "update_person"],
    "usage": ["usage"],
}
LONGTERM = {"recall_memory": ["recall"]}
ORCHESTRATOR = {
    "create, read, update, delete a memory": ["remember", "get_memory", "update_memory", "forget"],
    "search by text, tag, property": ["recall", "list_memories"],
    "sessions": ["create_session", "get_session", "end_session", "hide_session"],
    "relations": ["link_memories", "list_links"],
    "states": ["put_agent_state", "get_agent_state", "list_agent_states"],
    "access log": ["list_accesses"],
}
# RPCs that no tool calls, and why.
WITHOUT: dict[str, str] = {
    r"/skein\.auth\.": "accounts, credentials and consent are people's own, not a model's",
    r"/skein\.tenancy\.v1\.TenancyService/.*(Organization|Tenant|Member|Invitation|Deletion|Ownership|Quota)": "the "
    "tenant's administration",
    r"/skein\.recall\.v1\.RecallService/(Recall$|.*(Similar|Embed|Index|Reindex))": "recall is the gateway's; vectors "
    "and models are the operator's",
    r"GetClusterStatus": "the operator's",
    r"/(Watch|Stream)[A-Z]": "a stream; list_changes and read_session page through the same",
    r"/RevealSecret|RotateTenantKey|RotateWebhookSecret": "a model needs no secret",
    r"/((Una|A)rchive(Memories|Session)|ListArchive(s|dSessions))": "cold storage",
    r"/(PurgeBlock|PurgeSession|PurgeMessages|PurgeSubject|ExportSubject)": "parts of forget_person",
    r"/((Start|Cancel)Extraction|ListFailedExtractions)$": "background work, which a person starts",
    r"GatewayService/Remember": "remember and append_messages are its parts",
    r"/CreateLink$": "link_memories does the same, and can be repeated",
    r"/(GetLink|DeleteMemory)$": "list_links and forget do it",
    r"/(DeleteSubject|GetTool|UpdateTool|ListBlockAgents|RetryWebhookDelivery)$": "rare, and one call of the RPC away",
    r"/(UndeleteSubject|UndeleteTool|UndeleteAgent)$": "rare, and one call of the RPC away",
    r"/(Create|Update|Delete)Page$": "which pages there are is a person's choice; a model reads them",
    r"/AdvanceImport$": "an importer's, for each batch",
    r"/GetSearchCounts$": "how often was searched, which is of use to people",
    r"/\w+Space(s|Grants?)?$": "who sees what is a person's decision",
    r"/(ExplainAccess|Move(Memories|Session|Block))$": "who sees what is a person's decision",
    r"/ListContextLedgers$": "what prompts have, which is of use to people",
    r"/(PurgeTool|PurgeAgent)$": "for good, so a person's decision",
}


def test_a_client_that_names_nothing_remembers_recalls_and_builds_contexts() -> None:
    assert [tool.name for tool in tools_of(parse_toolsets([]))] == ["remember", "recall", "build_context"]
    assert parse_toolsets([]) == {CORE}


@over("system", [DUYETBOT, MEMORYVAULT, AGENTMEM, LONGTERM, ORCHESTRATOR])
def test_every_action_of_the_other_toolset_exists_here(system: dict[str, list[str]]) -> None:
    missing = {what: [name for name in names if name not in TOOLS] for what, names in system.items()}

    assert {what: names for what, names in missing.items() if names} == {}


def test_every_public_rpc_has_a_tool_or_a_reason_to_have_none() -> None:
    called = {tool.path for tool in TOOLS.values()}

    remaining = [path for path in PUBLIC_METHODS if path not in called]

    assert [path for path in remaining if not any(re.search(pattern, path) for pattern in WITHOUT)] == []
    assert [pattern for pattern in WITHOUT if not any(re.search(pattern, path) for path in remaining)] == []


@pytest.mark.system
def test_a_schema_of_a_tool_is_one_of_json_schema() -> None:
    schemas = [schema for tool in TOOLS.values() for schema in (tool.definition.input_schema, tool.output_schema)]
    # Tools share most definitions, and each of them is checked once.
    parts = [{**schema, "$defs": {}} for schema in schemas]
    parts += [part for schema in schemas for part in schema.get("$defs", {}).values()]

    for text in {json.dumps(part, sort_keys=True) for part in parts}:
        jsonschema.Draft202012Validator.check_schema(json.loads(text))


@over("tool", TOOLS.values(), name=lambda tool: tool.name)
def test_a_tool_is_described_in_full(tool: Tool) -> None:
    definition = tool.definition

    assert definition.input_schema["type"] == tool.output_schema["type"] == "object"
    assert re.fullmatch(r"[a-z][a-z_]{2,31}", definition.name)
    assert definition.description
    assert 10 < len(definition.description) <= 300
    assert definition.title
    assert definition.annotations is not None
    assert set(_references(definition.input_schema)) <= {
        f"#/$defs/{name}" for name in definition.input_schema.get("$defs", {})
    }


@over("tool", TOOLS.values(), name=lambda tool: tool.name)
def test_a_tool_that_reads_needs_no_permission_to_write(tool: Tool) -> None:
    permission = ACCESS_RULES[tool.path].permission or ""

    # Each part of forgetting a person wants a permission of its own.
    changes = permission.endswith(".write") or tool.name in {"forget_person", "approve_memory", "refuse_memory"}
    assert tool.definition.annotations is not None
    assert changes == (tool.effect is not Effect.READS) == (not tool.definition.annotations.read_only_hint), permission


def test_tools_that_remove_or_replace_say_so() -> None:
    destructive = {name for name, tool in TOOLS.items() if (tool.definition.annotations or 0).destructive_hint}  # type: ignore[union-attr]

    assert {"forget", "purge_memories", "update_memory", "restore_snapshot", "forget_person"} <= destructive
    assert not {"remember", "append_messages", "recall"} & destructive


def test_tools_that_change_something_can_be_repeated_safely() -> None:
    changes = {name: tool for name, tool in TOOLS.items() if tool.effect is not Effect.READS}

    without = [name for name, tool in changes.items() if "request_id" not in tool.input_schema["properties"]]

    # Each try is one more delivery.
    assert without == ["test_webhook"]
    assert not any(
        "request_id" in tool.input_schema["properties"] for tool in TOOLS.values() if tool not in changes.values()
    )


def test_tools_that_reach_addresses_of_a_caller_say_so() -> None:
    outside = {name for name, tool in TOOLS.items() if (tool.definition.annotations or 0).open_world_hint}  # type: ignore[union-attr]

    assert outside == {"create_webhook", "update_webhook", "test_webhook"}


def test_another_version_is_an_effect_of_repeating_an_update() -> None:
    annotations = TOOLS["update_memory"].definition.annotations

    assert annotations is not None
    assert annotations.idempotent_hint is False


def test_limits_of_the_contract_are_limits_of_the_schema() -> None:
    schema = TOOLS["remember"].input_schema
    recall = TOOLS["recall"].input_schema["properties"]

    assert schema["required"] == ["content"]
    assert schema["properties"]["tags"]["maxItems"] == 100
    assert schema["properties"]["importance"] == {
        "type": "number",
        "minimum": 0.0,
        "maximum": 1.0,
        "description": "Importance, 0 to 1.",
    }
    assert (recall["limit"]["minimum"], recall["limit"]["maximum"]) == (0, 100)
    assert recall["since"]["format"] == "date-time"
    assert recall["branches"]["items"]["enum"] == ["memories", "messages", "blocks", "profile"]


def test_the_core_tools_fit_into_a_small_part_of_a_models_context() -> None:
    definitions = [tool.definition.model_dump(by_alias=True, exclude_none=True) for tool in TOOLSETS[CORE]]

    assert estimate_tokens(json.dumps({"tools": definitions})) <= 2500


def test_the_tools_that_most_agents_need_fit_into_a_part_of_a_models_context() -> None:
    tokens = sum(estimate_tokens(json.dumps(tool.input_schema) + tool.text) for tool in TOOLSETS["standard"])

    assert tokens <= 4000


@over("tool", TOOLS.values(), name=lambda tool: tool.name)
def test_clients_of_openai_and_gemini_can_read_each_schema(tool: Tool) -> None:
    arguments = [*_schemas(tool.input_schema)]

    assert {name for schema in [*arguments, *_schemas(tool.output_schema)] for name in schema} <= COMMON_KEYWORDS
    assert {schema["format"] for schema in arguments if "format" in schema} <= {"date-time"}
    # Strict mode: each value has one type, no object takes unknown names, and no reference has a description beside it.
    assert [schema for schema in arguments if not ("anyOf" in schema or isinstance(schema.get("type"), str))] == []
    assert [schema for schema in arguments if "properties" in schema and schema["additionalProperties"]] == []
    assert [schema for schema in arguments if schema.get("type") == "array" and "items" not in schema] == []
    assert [schema for schema in arguments if "$ref" in schema] == []


def test_a_result_may_be_any_json_where_an_item_may() -> None:
    item = {"session_id": "s", "key": "k", "value": [[1, None], {"a": [2]}]}

    jsonschema.validate({"item": item}, TOOLS["get_item"].output_schema)


def test_toolsets_are_named_in_any_order_and_more_than_once() -> None:
    assert parse_toolsets(["curation, graph", "core,graph"]) == {"curation", "graph", "core"}
    assert parse_toolsets(["all"]) == set(TOOLSETS)
    assert SET_OF[tools_of({"graph", "core"})[0].name] == "core"


def test_an_unknown_toolset_says_which_there_are() -> None:
    with pytest.raises(ToolsetUnknown, match="'everything'; there are core, standard, memories, graph"):
        parse_toolsets(["graph,everything"])


def _schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema and all within it; names of properties are no keywords."""
    yield schema
    within = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    for each in [*within, *([schema["items"]] if "items" in schema else ())]:
        yield from _schemas(each)


def _references(schema: object) -> list[str]:
    if isinstance(schema, dict):
        result = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
        return result + [one for each in schema.values() for one in _references(each)]
    return [one for each in schema for one in _references(each)] if isinstance(schema, list) else []
