"""Every RPC of a tenant against callers that do not see a space of it.

The RPCs come from the contract, and what each does with spaces from its declaration. One caller sees the default space
and a space of its own; another one is bound to the latter. What lies in a third space holds a marker that may appear in
no answer, and is compared before and after.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import replace

import asyncpg
import grpc
import pytest
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from fix_matrix import GUARDED, INTERNAL, OK, Channels, call, outcome
from fix_recipes import RECIPES, request_for
from fix_spaces import SPACE_KEY, new_key, new_space
from fix_world import World, identity
from google.protobuf.message import Message

from skein.memory.v1 import access_log_pb2, blocks_pb2, memory_pb2
from skein.options.v1 import options_pb2 as options
from skein.recall.v1 import recall_pb2
from skein_kit.identity.permissions import ACCESS_RULES, TENANT_PERMISSIONS

UNSUPPORTED = (grpc.StatusCode.PERMISSION_DENIED, "SPACES_UNSUPPORTED")
# Calls that a key of a tenant may make, through the gateway or, for services of the cluster, in the caller's name.
PATHS = [path for path in GUARDED if ACCESS_RULES[path].permission in {None, *TENANT_PERMISSIONS}]
WALLED = [path for path in PATHS if ACCESS_RULES[path].spaces == options.SPACE_RULE_WALLED]
NO_ITEMS = [path for path in PATHS if ACCESS_RULES[path].spaces == options.SPACE_RULE_NO_ITEMS]
OF_ALL = [path for path in PATHS if ACCESS_RULES[path].spaces == options.SPACE_RULE_ALL]
OF_DEFAULT = [path for path in PATHS if ACCESS_RULES[path].spaces == options.SPACE_RULE_DEFAULT]
_NAME = re.compile(r'\bname: "[^"]*"')
_HIDDEN_IDS = """
    SELECT memory_id::text AS id FROM memory.memories WHERE space_id = $1
    UNION SELECT message_id::text FROM session.messages WHERE space_id = $1
    UNION SELECT block_id FROM memory.blocks WHERE space_id = $1
"""
# What lies in a space, with the column that names the rows of a hidden memory where a table has no space.
_OF_MEMORIES = ("tags", "properties", "links", "aliases", "sources")
_WITH_SPACE = (
    "memory.memories",
    "memory.tasks",
    "memory.versions",
    "memory.fact_keys",
    "memory.external_ids",
    "memory.blocks",
    "memory.block_agents",
    "memory.snapshots",
    "memory.snapshot_items",
    "memory.archives",
    "memory.archived_memories",
    "memory.webhooks",
    "session.sessions",
    "session.messages",
    "session.message_order",
    "session.message_external_ids",
    "session.session_properties",
    "session.title_terms",
    "session.items",
    "session.agent_states",
    "session.archived_sessions",
    "session.archived_messages",
)
# It has the ids that refused calls of the caller itself named, and grows with each call.
ACCESS_LOG = "/skein.memory.v1.HistoryService/ListAccessLog"
# It grows with each call of Recall.
RECEIPTS = "/skein.recall.v1.RecallService/ListRecallReceipts"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture(scope="module")
def channels(cluster: Cluster) -> Channels:
    return Channels(cluster)


class Walls:
    """One tenant with a hidden space, and keys of two callers that do not see it."""

    def __init__(self, world: World, hidden: World, hidden_id: str, keys: dict[str, str]) -> None:
        # The default space, and what has no space at all.
        self.world = world
        # Its stubs write in the hidden space.
        self.hidden = hidden
        self.hidden_id = hidden_id
        self.keys = keys

    async def request(self, path: str) -> Message:
        """Return a request that names what is hidden, and what everybody sees where nothing of it can be hidden."""
        for name in RECIPES[path].needs:
            await self._make(name)
        return await request_for(path, replace(self.hidden, marker=f"marker{uuid.uuid4().hex}"))

    async def _make(self, name: str) -> None:
        """Make a thing in the hidden space, or where none of its kind lies there, in the default one."""
        try:
            await self.hidden.thing(name)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                raise
            self.hidden.things[name] = await self.world.thing(name)

    async def hidden_ids(self, connection: asyncpg.Connection[asyncpg.Record]) -> set[str]:
        rows = await connection.fetch(_HIDDEN_IDS, uuid.UUID(self.hidden_id))
        return {row["id"] for row in rows}


@pytest.fixture(scope="module")
async def walls(cluster: Cluster) -> Walls:
    world = await World.new(cluster)
    # What others see too is made before the tenant has spaces, after which some calls are refused.
    for path in PATHS:
        for name in RECIPES[path].needs:
            await world.thing(name)
    hidden_id = await new_space(world.tenant, "hidden")
    own_id = await new_space(world.tenant, "own")
    _, writer = await new_key(cluster, world.tenant, [hidden_id], permissions=TENANT_PERMISSIONS)
    stubs = cluster.with_key(writer, **{SPACE_KEY: hidden_id})
    tenant = Tenant(channel=stubs.channel, tenant_id=world.tenant.tenant_id, api_key=writer)
    hidden = World(cluster=cluster, tenant=tenant, marker=f"hidden{uuid.uuid4().hex}", space_id=hidden_id)
    keys = {}
    for name, bind, lacks in (("open", False, ""), ("bound", True, ""), ("member", False, "spaces.write")):
        permissions = TENANT_PERMISSIONS - {lacks}
        keys[name] = (await new_key(cluster, world.tenant, [own_id], bind=bind, permissions=permissions))[1]
    return Walls(world, hidden, hidden_id, keys)


def test_every_rpc_says_what_it_does_with_spaces() -> None:
    assert set(PATHS) == {*WALLED, *NO_ITEMS, *OF_ALL, *OF_DEFAULT}


async def answer_of(
    channels: Channels, walls: Walls, key: str, path: str, request: Message
) -> tuple[grpc.StatusCode, str, Message | None]:
    credential = walls.keys[key]
    if path in INTERNAL:
        credential = await identity(walls.world.cluster, credential)
    return await outcome(call(channels.of(path), path, request, credential))


# One after another: what each of them changed is looked for.
@pytest.mark.timeout(600)
@over("path", [*WALLED, *NO_ITEMS])
async def test_what_lies_in_another_space_neither_shows_nor_changes(
    channels: Channels, walls: Walls, catalog_of: asyncpg.Connection[asyncpg.Record], path: str
) -> None:
    requests = {key: await walls.request(path) for key in ("open", "bound")}
    before = await _hidden_rows(catalog_of, walls)
    hidden_ids = await walls.hidden_ids(catalog_of)

    for key, request in requests.items():
        code, reason, answer = await answer_of(channels, walls, key, path, request)

        allowed = {OK, grpc.StatusCode.NOT_FOUND}
        assert code in allowed or reason in {RECIPES[path].own, "SPACES_UNSUPPORTED", "PERMISSION_MISSING"}, (
            key,
            code,
            reason,
        )
        text = str(answer)
        assert walls.hidden.marker not in text, key
        if path == ACCESS_LOG and isinstance(answer, access_log_pb2.ListAccessLogResponse):
            shown = {event.memory_id: event.error_code for event in answer.access_events}
            assert {shown[id_] for id_ in hidden_ids & shown.keys()} <= {
                "NOT_FOUND",
                "INVALID_ARGUMENT",
                "PERMISSION_DENIED",
            }
            continue
        assert not hidden_ids & set(_UUID.findall(text)) - set(_UUID.findall(str(request))), (key, text)
        if path in WALLED and code is OK:
            assert not _counts(answer, hidden_ids, request), (key, text)

    assert await _hidden_rows(catalog_of, walls) == before


def _counts(answer: Message | None, hidden_ids: set[str], request: Message) -> list[str]:
    """Return the fields that tell a hidden thing was found: none does, except of what was not, and by its own name.

    A copy that an import made has the id of the hidden one as its name.
    """
    named = hidden_ids & set(_UUID.findall(str(request)))
    found = []
    for field, value in answer.ListFields() if answer is not None else ():
        text = _NAME.sub("", str(value))
        if field.name in {"not_found_ids", "unread_ids"} or _GONE in text:
            continue
        if any(id_ in text for id_ in named):
            found.append(field.name)
    return found


# What CheckItems says of an item that is hidden, deleted, or never was.
_GONE = recall_pb2.KnownItemState.Name(recall_pb2.KNOWN_ITEM_STATE_GONE)
_COUNT = re.compile(r"^ *(?!access_)(\w*(?:count|total|size)\w*): (\d+)$", re.MULTILINE)


@pytest.mark.system
async def test_what_lies_in_another_space_is_not_counted(channels: Channels, walls: Walls) -> None:
    requests = {
        path: await request_for(path, walls.world)
        for path in WALLED
        if str(ACCESS_RULES[path].permission).endswith(".read") and path not in {ACCESS_LOG, RECEIPTS}
    }

    async def counts() -> dict[str, list[tuple[str, str]]]:
        answers = {path: await answer_of(channels, walls, "open", path, each) for path, each in requests.items()}
        return {path: sorted(_COUNT.findall(str(answer))) for path, (_, _, answer) in answers.items()}

    # The first answers may make what later ones count, such as ledgers.
    await counts()
    before = await counts()

    for number in range(3):
        content = f"{walls.world.text('the kettle is red ')} {number}"
        memory = memory_pb2.Memory(content=content, type="fact", key=f"kettle {number}", tags=["kettle"])
        await walls.hidden.tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
        await walls.hidden.tenant.append(f"hidden {number}", content)
        await walls.hidden.tenant.blocks.CreateBlock(
            blocks_pb2.CreateBlockRequest(block=blocks_pb2.Block(label=f"{number} {uuid.uuid4().hex}", value=content))
        )

    assert await counts() == before


# The right to erase goes through every wall: the one who has it is bound to no space and manages all of them.
@over("path", OF_ALL, at_once=4)
async def test_calls_that_go_through_all_spaces_are_for_who_manages_them(
    channels: Channels, walls: Walls, path: str
) -> None:
    for key, reason in (("bound", "SPACES_UNSUPPORTED"), ("member", "PERMISSION_MISSING")):
        code, actual, _ = await answer_of(channels, walls, key, path, await walls.request(path))
        assert (code, actual) == (grpc.StatusCode.PERMISSION_DENIED, reason)


@over("path", OF_DEFAULT, at_once=4)
async def test_calls_of_the_default_space_are_refused_to_bound_callers(
    channels: Channels, walls: Walls, path: str
) -> None:
    code, reason, _ = await answer_of(channels, walls, "bound", path, await walls.request(path))

    assert (code, reason) == UNSUPPORTED


async def _hidden_rows(connection: asyncpg.Connection[asyncpg.Record], walls: Walls) -> dict[str, str]:
    """Return a digest of what lies in the hidden space, and of all that hangs on it, for each table."""
    ids = [uuid.UUID(id_) for id_ in await walls.hidden_ids(connection) if _UUID.fullmatch(id_)]
    conditions = dict.fromkeys(_WITH_SPACE, "space_id = $1")
    for table in _OF_MEMORIES:
        column = {"links": "from_memory_id", "aliases": "alias_memory_id"}.get(table, "memory_id")
        conditions[f"memory.{table}"] = f"tenant_id = $2 AND {column} = ANY ($3::uuid[])"
    digests = " UNION ALL ".join(
        f"SELECT '{table}' AS name, md5(string_agg(t::text, '|' ORDER BY t::text)) AS digest "  # noqa: S608 - of this file.
        f"FROM {table} AS t WHERE {condition}"
        for table, condition in conditions.items()
    )
    rows = await connection.fetch(digests, uuid.UUID(walls.hidden_id), walls.world.tenant.tenant_id, ids)
    return {row["name"]: row["digest"] for row in rows}
