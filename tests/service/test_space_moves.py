"""Memories, sessions and blocks that move from one space to another: what follows them, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from fix_calls import stamp
from fix_cluster import Cluster, Stubs, Tenant, metadata_in, refused
from fix_context_ledgers import Prompt
from fix_extraction import extraction_job, learning_tenant
from fix_spaces import SPACE_KEY, first_spaces, grant, new_key, new_space
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import approvals_pb2, blocks_pb2, curation_pb2, history_pb2, memory_pb2, scores_pb2
from skein.memory.v1 import archives_pb2 as memory_archives_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import archives_pb2, ledgers_pb2, session_pb2, states_pb2
from skein_kit.identity.permissions import TENANT_PERMISSIONS

pytestmark = pytest.mark.system
NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND")
NO_SESSION = (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
TEXT = "The red rose needs manure"
LONG_AGO = stamp(datetime(2020, 1, 1, tzinfo=UTC))
USER = session_pb2.MESSAGE_ROLE_USER


@dataclass(frozen=True)
class House:
    """A tenant with two spaces, a key that writes in both, and a key that is bound to each."""

    cluster: Cluster
    tenant: Tenant
    kitchen_id: str
    garden_id: str
    secret: str
    # Bound to one space each.
    cook: Stubs
    gardener: Stubs

    @property
    def everyone(self) -> Stubs:
        return self.cluster.with_key(self.secret)

    def at(self, space_id: str) -> Stubs:
        return self.cluster.with_key(self.secret, **{SPACE_KEY: space_id})

    async def move(self, memory_ids: Iterable[str], request_id: str = "") -> list[str]:
        """Move memories from the kitchen to the garden."""
        request = pb.MoveMemoriesRequest(memory_ids=memory_ids, space_id=self.garden_id, request_id=request_id)
        return list((await self.at(self.kitchen_id).memory.MoveMemories(request)).memory_ids)

    async def move_session(self, session_id: str, request_id: str = "") -> None:
        """Move a session from the kitchen to the garden."""
        request = session_pb2.MoveSessionRequest(session_id=session_id, space_id=self.garden_id, request_id=request_id)
        await self.at(self.kitchen_id).sessions.MoveSession(request)

    async def move_block(self, block_id: str) -> None:
        """Move a block from the kitchen to the garden."""
        request = blocks_pb2.MoveBlockRequest(block_id=block_id, space_id=self.garden_id)
        await self.at(self.kitchen_id).blocks.MoveBlock(request)


@pytest.fixture
async def house(tenant: Tenant, cluster: Cluster) -> House:
    return await new_house(tenant, cluster)


async def new_house(tenant: Tenant, cluster: Cluster) -> House:
    kitchen_id, garden_id = await first_spaces(cluster, tenant, "kitchen", "garden")
    _, secret = await new_key(cluster, tenant, [kitchen_id, garden_id])
    _, cook = await new_key(cluster, tenant, [kitchen_id], bind=True)
    _, gardener = await new_key(cluster, tenant, [garden_id], bind=True)
    return House(
        cluster=cluster,
        tenant=tenant,
        kitchen_id=kitchen_id,
        garden_id=garden_id,
        secret=secret,
        cook=cluster.with_key(cook),
        gardener=cluster.with_key(gardener),
    )


async def found(stubs: Stubs, query: str, **fields: object) -> list[str]:
    answer = await stubs.search(query, min_relevance=0, **fields)
    return [hit.item_id for hit in answer.hits]


async def test_a_moved_memory_is_seen_in_its_new_space_alone_with_all_that_it_has(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    memory = await kitchen.create_memory(
        TEXT, external_id="rose", type="fact", key="rose", tags=["rose"], metadata={"bed": 3}
    )
    before = stamp(datetime.now(UTC))
    updated = await kitchen.update_memory(memory.memory_id, content="The red rose is fed")
    assert await found(house.cook, "red rose") == [memory.memory_id]

    assert await house.move(["rose"]) == [memory.memory_id]

    # From the answer on, and in one moment.
    for name in (memory.memory_id, "rose"):
        with refused(*NOT_FOUND):
            await house.cook.get_memory(name)
    with refused(*NOT_FOUND):
        await house.cook.get_memory(memory.memory_id, as_of_time=before)
    with refused(*NOT_FOUND):
        await house.cook.memory.ListMemoryVersions(pb.ListMemoryVersionsRequest(memory_id=memory.memory_id))
    assert await house.cook.list_memories() == []
    assert await found(house.cook, "red rose") == []
    assert await found(house.cook, "red rose", as_of_time=before) == []
    moved = await house.gardener.get_memory("rose")
    # The search above counts as a use, within seconds.
    moved.ClearField("last_access_time")
    assert moved == updated
    assert (await house.gardener.get_memory(memory.memory_id, as_of_time=before)).content == TEXT
    assert await found(house.gardener, "red rose") == [memory.memory_id]
    assert await found(house.gardener, "red rose manure", as_of_time=before) == [memory.memory_id]
    versions = await house.gardener.memory.ListMemoryVersions(pb.ListMemoryVersionsRequest(memory_id=memory.memory_id))
    assert [version.memory.content for version in versions.versions] == ["The red rose is fed", TEXT]


async def test_a_moved_memory_leaves_its_names_and_takes_them_along(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    memory = await kitchen.create_memory(TEXT, external_id="rose", type="fact", key="rose")
    await house.move([memory.memory_id])

    again = await kitchen.create_memory(TEXT, external_id="rose", type="fact", key="rose")

    assert again.memory_id != memory.memory_id
    garden = house.at(house.garden_id)
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await garden.create_memory("x", type="fact", key="rose")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"):
        await garden.create_memory("x", external_id="rose")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"external_id": "rose"}, "EXTERNAL_ID_TAKEN"), ({"type": "fact", "key": "Rose"}, "FACT_KEY_TAKEN")],
)
async def test_a_name_that_is_taken_in_the_new_space_refuses_the_move_whole(
    house: House, fields: dict[str, str], reason: str
) -> None:
    kitchen = house.at(house.kitchen_id)
    plain = await kitchen.create_memory("The oven is hot")
    named = await kitchen.create_memory(TEXT, **fields)
    taken = await house.at(house.garden_id).create_memory(
        "x", **(fields | ({"key": "rose"} if "key" in fields else {}))
    )

    with refused(grpc.StatusCode.ALREADY_EXISTS, reason):
        await house.move([plain.memory_id, named.memory_id])

    assert {memory.memory_id for memory in await house.cook.list_memories()} == {plain.memory_id, named.memory_id}
    assert [memory.memory_id for memory in await house.gardener.list_memories()] == [taken.memory_id]
    assert (await house.cook.get_memory(fields.get("external_id", named.memory_id))).memory_id == named.memory_id


async def test_a_link_between_spaces_is_seen_by_who_sees_both(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    moved, stays = await kitchen.create_memory(TEXT), await kitchen.create_memory("The oven is hot")
    link = await kitchen.create_link(moved.memory_id, stays.memory_id)
    await house.move([moved.memory_id])

    async def links(stubs: Stubs, memory_id: str) -> list[str]:
        listed = await stubs.links.ListLinks(pb.ListLinksRequest(memory_id=memory_id))
        walked = await stubs.links.TraverseLinks(pb.TraverseLinksRequest(memory_id=memory_id))
        assert len(walked.links) == len(listed.links)
        return [one.link_id for one in listed.links]

    assert await links(house.everyone, moved.memory_id) == [link.link_id]
    assert await links(house.everyone, stays.memory_id) == [link.link_id]
    assert await links(house.gardener, moved.memory_id) == []
    assert await links(house.cook, stays.memory_id) == []
    with refused(grpc.StatusCode.NOT_FOUND, "LINK_NOT_FOUND"):
        await house.cook.links.GetLink(pb.GetLinkRequest(link_id=link.link_id))


async def test_a_link_follows_its_memory_into_a_third_space_that_its_mover_alone_sees(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    first, second = await kitchen.create_memory(TEXT), await kitchen.create_memory("The oven is hot")
    link = await kitchen.create_link(first.memory_id, second.memory_id)
    await house.move([second.memory_id])
    cellar_id = await new_space(house.tenant, "cellar")
    # It does not see the garden, where the other end lies.
    _, secret = await new_key(house.cluster, house.tenant, [house.kitchen_id, cellar_id])
    _, both = await new_key(house.cluster, house.tenant, [house.garden_id, cellar_id])

    await house.cluster.with_key(secret, **{SPACE_KEY: house.kitchen_id}).memory.MoveMemories(
        pb.MoveMemoriesRequest(memory_ids=[first.memory_id], space_id=cellar_id)
    )

    request = pb.GetLinkRequest(link_id=link.link_id)
    assert (await house.cluster.with_key(both).links.GetLink(request)).link.link_id == link.link_id
    with refused(grpc.StatusCode.NOT_FOUND, "LINK_NOT_FOUND"):
        await house.everyone.links.GetLink(request)
    listed = await house.everyone.links.ListLinks(pb.ListLinksRequest(memory_id=second.memory_id))
    assert not listed.links


async def test_only_a_writer_of_both_moves_and_only_what_lies_where_the_call_acts(house: House) -> None:
    memory = await house.at(house.kitchen_id).create_memory(TEXT)
    principal, secret = await new_key(house.cluster, house.tenant, [house.kitchen_id])
    request = pb.MoveMemoriesRequest(memory_ids=[memory.memory_id], space_id=house.garden_id)
    stranger = house.cluster.with_key(secret, **{SPACE_KEY: house.kitchen_id})

    with refused(grpc.StatusCode.NOT_FOUND, "SPACE_NOT_FOUND"):
        await stranger.memory.MoveMemories(request)
    await grant(house.tenant, house.garden_id, principal, "reader")
    async with asyncio.timeout(30):
        # The gateway keeps an exchange for some seconds.
        while True:
            try:
                with refused(grpc.StatusCode.PERMISSION_DENIED, "SPACE_READ_ONLY"):
                    await stranger.memory.MoveMemories(request)
                break
            except AssertionError:
                await asyncio.sleep(0.1)
    with refused(*NOT_FOUND):
        # It acts in the default space.
        await house.everyone.memory.MoveMemories(request)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await house.at(house.garden_id).memory.MoveMemories(request)
    assert (await house.cook.get_memory(memory.memory_id)).content == TEXT


async def test_a_memory_in_cold_storage_refuses_a_move_and_moves_once_it_is_back(house: House) -> None:
    both = [house.kitchen_id, house.garden_id]
    _, secret = await new_key(house.cluster, house.tenant, both, permissions=TENANT_PERMISSIONS)
    kitchen = house.cluster.with_key(secret, **{SPACE_KEY: house.kitchen_id})
    memory = await kitchen.create_memory(TEXT, external_id="rose", session_id="old", create_time=LONG_AGO)
    stays = await kitchen.create_memory("The oven is hot")
    archive = memory_archives_pb2.ArchiveMemoriesRequest(idle_since_time=stamp(datetime.now(UTC)), session_id="old")
    archive_id = (await kitchen.history.ArchiveMemories(archive)).archive.archive_id

    for name in ("rose", memory.memory_id):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "MEMORY_ARCHIVED") as caught:
            await house.move([stays.memory_id, name])
        assert metadata_in(caught) == {"memory_id": memory.memory_id, "archive_id": archive_id}
    # It says nothing of it to an agent, whose memory it may not be, nor to who acts in another space.
    _, secret = await new_key(house.cluster, house.tenant, both, agent_id="helper")
    helper = house.cluster.with_key(secret, **{SPACE_KEY: house.kitchen_id})
    request = pb.MoveMemoriesRequest(memory_ids=[memory.memory_id], space_id=house.garden_id)
    with refused(*NOT_FOUND):
        await helper.memory.MoveMemories(request)
    request.space_id = house.kitchen_id
    with refused(*NOT_FOUND):
        await house.at(house.garden_id).memory.MoveMemories(request)
    assert (await house.cook.get_memory(stays.memory_id)).content == "The oven is hot"
    unarchive = memory_archives_pb2.UnarchiveMemoriesRequest(archive_id=archive_id)
    await kitchen.history.UnarchiveMemories(unarchive)
    await house.move(["rose"])

    assert (await house.gardener.get_memory("rose")).content == TEXT


async def test_a_memory_that_is_linked_into_another_space_stays_out_of_cold_storage(house: House) -> None:
    both = [house.kitchen_id, house.garden_id]
    _, secret = await new_key(house.cluster, house.tenant, both, permissions=TENANT_PERMISSIONS)
    kitchen = house.cluster.with_key(secret, **{SPACE_KEY: house.kitchen_id})
    named = {"session_id": "old", "create_time": LONG_AGO}
    linked, lone, moved = [await kitchen.create_memory(text, **named) for text in ("rose", "oven", "bed")]
    link = pb.Link(from_memory_id=linked.memory_id, to_memory_id=moved.memory_id, relation="supports")
    made = (await kitchen.links.CreateLink(pb.CreateLinkRequest(link=link))).link
    await house.move([moved.memory_id])

    # The cook sees nothing of the garden, nor of the link.
    archive = memory_archives_pb2.ArchiveMemoriesRequest(idle_since_time=stamp(datetime.now(UTC)), session_id="old")
    archived = (await kitchen.history.ArchiveMemories(archive)).archive

    assert archived.memory_count == 1
    assert (await kitchen.get_memory(linked.memory_id)).content == "rose"
    with refused(*NOT_FOUND):
        await kitchen.get_memory(lone.memory_id)
    listed = await house.everyone.links.ListLinks(pb.ListLinksRequest(memory_id=linked.memory_id))
    assert [one.link_id for one in listed.links] == [made.link_id]


async def test_an_alias_moves_with_its_memory_alone(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    canonical, alias = await kitchen.create_memory("Rosa"), await kitchen.create_memory("The rose")
    await kitchen.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(alias_memory_id=alias.memory_id, canonical_memory_id=canonical.memory_id)
    )

    for name in (alias, canonical):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "ALIAS_APART"):
            await house.move([name.memory_id])
    await house.move([alias.memory_id, canonical.memory_id])

    answer = await house.gardener.curation.GetCanonicalMemory(
        curation_pb2.GetCanonicalMemoryRequest(memory_id=alias.memory_id)
    )
    assert answer.canonical_memory_id == canonical.memory_id


async def test_memories_of_two_spaces_are_not_merged_and_who_sees_both_is_told_why(house: House) -> None:
    first = await house.at(house.kitchen_id).create_memory(TEXT)
    second = await house.at(house.garden_id).create_memory(TEXT)
    request = scores_pb2.MergeMemoriesRequest(memory_ids=[first.memory_id, second.memory_id])

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "SPACES_DIFFER"):
        await house.at(house.kitchen_id).memory.MergeMemories(request)
    for stubs in (house.cook, house.gardener):
        with refused(*NOT_FOUND):
            await stubs.memory.MergeMemories(request)
    await house.move([first.memory_id])
    merged = await house.at(house.garden_id).memory.MergeMemories(request)
    assert merged.memory.memory_id == first.memory_id


async def test_a_task_and_a_deleted_memory_move_too(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    task = await kitchen.create_memory("Feed the rose", type="task")
    deleted = await kitchen.create_memory(TEXT)
    await kitchen.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=deleted.memory_id))
    await house.move([task.memory_id, deleted.memory_id])

    restored = await house.at(house.garden_id).memory.UndeleteMemory(
        pb.UndeleteMemoryRequest(memory_id=deleted.memory_id)
    )

    assert restored.memory.content == TEXT
    assert await found(house.gardener, "rose manure") != []
    listed = await house.gardener.memory.ListTasks(memory_pb2.ListTasksRequest())
    assert [one.memory_id for one in listed.memories] == [task.memory_id]
    assert not (await house.cook.memory.ListTasks(memory_pb2.ListTasksRequest())).memories


async def texts(stubs: Stubs, session_id: str = "talk", **fields: Any) -> list[str]:
    request = session_pb2.ListMessagesRequest(session_id=session_id, **fields)
    return [message.content for message in (await stubs.sessions.ListMessages(request)).messages]


async def test_a_moved_session_is_seen_in_its_new_space_alone_with_all_that_it_has(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    await kitchen.create_session("talk", title="About roses", agent_id="cook", metadata={"bed": 3})
    first, second = await kitchen.append(
        "talk", session_pb2.Message(role=USER, content=TEXT, external_id="m"), "Yes, it does"
    )
    before = stamp(datetime.now(UTC))
    await kitchen.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(
            message=session_pb2.Message(message_id=first.message_id, content="The red rose is fed"),
            update_mask=FieldMask(paths=["content"]),
        )
    )
    await kitchen.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=second.message_id))
    item = states_pb2.PutSessionItemRequest(session_id="talk", key="bed")
    item.value.number_value = 3
    await kitchen.sessions.PutSessionItem(item)
    state = states_pb2.AgentState(agent_id="cook", session_id="talk")
    state.state_data.update({"bed": 3})
    await kitchen.sessions.PutAgentState(states_pb2.PutAgentStateRequest(state=state))
    assert await found(house.cook, "red rose") == [first.message_id]
    was = (await kitchen.sessions.GetSession(session_pb2.GetSessionRequest(session_id="talk"))).session

    await house.move_session("talk")

    # From the answer on, and in one moment.
    get = session_pb2.GetSessionRequest(session_id="talk")
    past = session_pb2.GetMessageRequest(message_id=first.message_id, as_of_time=before)
    deleted = session_pb2.GetMessageRequest(message_id=second.message_id, as_of_time=before)
    items = states_pb2.ListSessionItemsRequest(session_id="talk")
    state_request = states_pb2.GetAgentStateRequest(agent_id="cook", session_id="talk")
    with refused(*NO_SESSION):
        await house.cook.sessions.GetSession(get)
    with refused(*NO_SESSION):
        await texts(house.cook)
    with refused(*NO_SESSION):
        await house.cook.sessions.ListSessionItems(items)
    for request in (session_pb2.GetMessageRequest(message_id="m"), past, deleted):
        with refused(grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND"):
            await house.cook.sessions.GetMessage(request)
    with refused(grpc.StatusCode.NOT_FOUND, "AGENT_STATE_NOT_FOUND"):
        await house.cook.sessions.GetAgentState(state_request)
    assert not (await house.cook.sessions.ListSessions(session_pb2.ListSessionsRequest())).sessions
    assert await found(house.cook, "red rose") == []
    assert await found(house.cook, "red rose", as_of_time=before) == []
    assert (await house.gardener.sessions.GetSession(get)).session == was
    assert await texts(house.gardener) == ["The red rose is fed"]
    assert (await house.gardener.sessions.GetMessage(past)).message.content == TEXT
    assert (await house.gardener.sessions.GetMessage(deleted)).message.content == "Yes, it does"
    assert [one.key for one in (await house.gardener.sessions.ListSessionItems(items)).items] == ["bed"]
    assert (await house.gardener.sessions.GetAgentState(state_request)).state.session_id == "talk"
    assert await found(house.gardener, "red rose") == [first.message_id]
    assert first.message_id in await found(house.gardener, "red rose manure", as_of_time=before)


async def test_a_moved_session_leaves_its_names_and_takes_them_along(house: House) -> None:
    kitchen, garden = house.at(house.kitchen_id), house.at(house.garden_id)
    await kitchen.append("talk", session_pb2.Message(role=USER, content=TEXT, external_id="m"))
    await house.move_session("talk")

    await kitchen.append("talk", session_pb2.Message(role=USER, content="x", external_id="m"))
    await kitchen.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=["m"]))
    await kitchen.append("talk", "x")

    assert await texts(house.cook) == ["x"]
    assert await texts(house.gardener) == [TEXT]
    with refused(grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS"):
        await garden.create_session("talk")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS"):
        await house.move_session("talk")
    assert await texts(house.cook) == ["x"]
    await kitchen.append("other", "y", session_pb2.Message(role=USER, content="z", external_id="n"))
    await garden.append("third", session_pb2.Message(role=USER, content="w", external_id="n"))
    with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"):
        await house.move_session("other")
    assert await texts(house.cook, "other") == ["y", "z"]


async def test_a_repeated_move_of_a_session_moves_once_and_a_stranger_moves_none(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    await kitchen.append("talk", TEXT)
    _, secret = await new_key(house.cluster, house.tenant, [house.kitchen_id])
    await kitchen.create_block("b", "soup", block_id="soup")
    stranger = house.cluster.with_key(secret, **{SPACE_KEY: house.kitchen_id})
    requests = (
        stranger.sessions.MoveSession(session_pb2.MoveSessionRequest(session_id="talk", space_id=house.garden_id)),
        stranger.blocks.MoveBlock(blocks_pb2.MoveBlockRequest(block_id="soup", space_id=house.garden_id)),
    )
    for request in requests:
        with refused(grpc.StatusCode.NOT_FOUND, "SPACE_NOT_FOUND"):
            await request
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await kitchen.sessions.MoveSession(session_pb2.MoveSessionRequest(session_id="talk", space_id=house.kitchen_id))
    with refused(*NO_SESSION):
        # It acts in the default space.
        await house.everyone.sessions.MoveSession(
            session_pb2.MoveSessionRequest(session_id="talk", space_id=house.garden_id)
        )

    await house.move_session("talk", "r")
    await house.move_session("talk", "r")

    assert await texts(house.gardener) == [TEXT]


async def test_a_session_in_cold_storage_moves_and_comes_back_in_its_new_space(house: House) -> None:
    kitchen, garden = house.at(house.kitchen_id), house.at(house.garden_id)
    await kitchen.append("talk", session_pb2.Message(role=USER, content=TEXT, external_id="m"))
    await kitchen.sessions.HideSession(session_pb2.HideSessionRequest(session_id="talk"))
    await kitchen.sessions.ArchiveSession(archives_pb2.ArchiveSessionRequest(session_id="talk"))

    await house.move_session("talk")

    listed = archives_pb2.ListArchivedSessionsRequest()
    assert not (await house.cook.sessions.ListArchivedSessions(listed)).sessions
    with refused(*NO_SESSION):
        await kitchen.sessions.UnarchiveSession(archives_pb2.UnarchiveSessionRequest(session_id="talk"))
    assert await texts(house.gardener, show_archived=True) == [TEXT]
    await garden.sessions.UnarchiveSession(archives_pb2.UnarchiveSessionRequest(session_id="talk"))
    assert await texts(house.gardener) == [TEXT]
    assert (
        await house.gardener.sessions.GetMessage(session_pb2.GetMessageRequest(message_id="m"))
    ).message.sequence == 1


async def test_a_deleted_session_moves_too_and_is_purged_where_it_lies(house: House) -> None:
    kitchen, garden = house.at(house.kitchen_id), house.at(house.garden_id)
    await kitchen.append("talk", TEXT)
    await kitchen.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id="talk"))

    await house.move_session("talk")

    purge = states_pb2.PurgeSessionRequest(session_id="talk")
    with refused(*NO_SESSION):
        await kitchen.sessions.PurgeSession(purge)
    receipt = (await garden.sessions.PurgeSession(purge)).receipt
    assert (list(receipt.session_ids), len(receipt.message_ids)) == (["talk"], 1)


async def test_a_ledger_with_the_messages_of_a_moved_session_begins_anew(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    await kitchen.append("talk", "Anna drinks green tea.")
    prompt = Prompt(stubs=house.everyone, fields={"session_id": "talk"})
    await prompt.turn()
    listed = ledgers_pb2.ListContextLedgersRequest(in_session_id="talk")
    assert len((await house.everyone.sessions.ListContextLedgers(listed)).ledgers) == 1

    await house.move_session("talk")

    assert not (await house.everyone.sessions.ListContextLedgers(listed)).ledgers
    with refused(grpc.StatusCode.NOT_FOUND, "CONTEXT_LEDGER_NOT_FOUND"):
        await prompt.turn()


async def test_a_moved_block_takes_its_revisions_and_agents_along(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    await kitchen.create_block("persona", "soup", block_id="b", agent_id="helper")
    before = stamp(datetime.now(UTC))
    await kitchen.update_block("b", value="hot soup")
    compiled = blocks_pb2.CompileBlocksRequest(agent_id="helper")
    revisions = blocks_pb2.ListBlockRevisionsRequest(block_id="b")

    await house.move_block("b")

    for request in (
        blocks_pb2.GetBlockRequest(block_id="b"),
        blocks_pb2.GetBlockRequest(block_id="b", as_of_time=before),
    ):
        with refused(grpc.StatusCode.NOT_FOUND, "BLOCK_NOT_FOUND"):
            await house.cook.blocks.GetBlock(request)
    assert "soup" not in str(await house.cook.blocks.CompileBlocks(compiled))
    assert not (await house.cook.blocks.ListBlocks(blocks_pb2.ListBlocksRequest(as_of_time=before))).blocks
    moved = await house.gardener.get_block("b")
    assert (moved.value, moved.revision) == ("hot soup", 2)
    past = blocks_pb2.GetBlockRequest(block_id="b", as_of_time=before)
    assert (await house.gardener.blocks.GetBlock(past)).block.value == "soup"
    listed = await house.gardener.blocks.ListBlockRevisions(revisions)
    assert [one.block.value for one in listed.revisions] == ["soup"]
    assert "hot soup" in str(await house.gardener.blocks.CompileBlocks(compiled))
    changes = (await house.cook.history.ListChanges(history_pb2.ListChangesRequest())).changes
    assert [one.event_type for one in changes if one.entity_id == "b"] == ["block_moved"]


async def test_a_block_whose_names_are_taken_does_not_move(house: House) -> None:
    kitchen, garden = house.at(house.kitchen_id), house.at(house.garden_id)
    await kitchen.create_block("persona", "soup", block_id="b", agent_id="helper")
    await garden.create_block("human", "rose", block_id="b")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "BLOCK_EXISTS"):
        await house.move_block("b")
    await kitchen.create_block("human", "soup", block_id="c", agent_id="helper")
    await garden.create_block("human", "rose", block_id="d", agent_id="helper")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "BLOCK_LABEL_TAKEN"):
        await house.move_block("c")

    assert {
        block.block_id for block in (await house.cook.blocks.ListBlocks(blocks_pb2.ListBlocksRequest())).blocks
    } == {
        "b",
        "c",
    }


async def test_a_stream_of_a_session_ends_when_the_session_moves_away(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    await kitchen.append("talk", "of the kitchen")
    stream: Any = house.cook.sessions.StreamMessages(
        session_pb2.StreamMessagesRequest(session_id="talk", after_sequence=1)
    )
    async with asyncio.timeout(30):
        await stream.read()

        await house.move_session("talk")
        await house.at(house.garden_id).append("talk", TEXT)

        with refused(*NO_SESSION):
            while await stream.read():
                pass


async def test_the_facts_of_a_moved_session_stay_and_end_with_their_message(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    house = await new_house(tenant, cluster)
    kitchen, garden = house.at(house.kitchen_id), house.at(house.garden_id)
    job = extraction_job(cluster)
    deleted, purged = [
        session_pb2.Message(role=USER, content=f"I live in {place}", subject_id=place, external_id=place)
        for place in ("Porto", "Graz")
    ]
    await kitchen.append("talk", deleted)
    await kitchen.append("other", purged)

    async def until(condition: Callable[[list[memory_pb2.Memory]], bool]) -> None:
        async with asyncio.timeout(60):
            # The cluster's own worker may have it.
            while not condition(await house.cook.list_memories()):
                for space_id in (house.kitchen_id, house.garden_id):
                    await job.extract_session(str(tenant.tenant_id), space_id)

    await until(lambda facts: len(facts) == 2)
    await house.move_session("talk")
    await house.move_session("other")
    assert {memory.content for memory in await house.cook.list_memories()} == {deleted.content, purged.content}

    await garden.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=deleted.external_id))
    await garden.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[purged.external_id]))

    ended = [(deleted.content, True)]
    await until(lambda facts: [(one.content, one.HasField("valid_to_time")) for one in facts] == ended)


@pytest.mark.parametrize("way", ["corrected", "deleted", "session"])
async def test_a_fact_that_waits_is_withdrawn_from_the_former_space_of_its_message(cluster: Cluster, way: str) -> None:
    tenant = await learning_tenant(cluster, approval="agents")
    house = await new_house(tenant, cluster)
    job = extraction_job(cluster)
    message = session_pb2.Message(role=USER, content="I live in Porto", subject_id="mira", external_id="m")
    await house.at(house.kitchen_id).append("talk", message)
    _, secret = await new_key(cluster, tenant, [house.kitchen_id], bind=True, permissions=TENANT_PERMISSIONS)
    approver = cluster.with_key(secret)

    async def until_waiting(count: int) -> None:
        listed = approvals_pb2.ListPendingMemoriesRequest()
        async with asyncio.timeout(60):
            # The cluster's own worker may have it.
            while len((await approver.curation.ListPendingMemories(listed)).pending_memories) != count:
                for space_id in (house.kitchen_id, house.garden_id):
                    await job.extract_session(str(tenant.tenant_id), space_id)

    await until_waiting(1)
    await house.move_session("talk")
    garden = house.at(house.garden_id)
    if way == "corrected":
        corrected = session_pb2.Message(message_id="m", content="It rains")
        mask = FieldMask(paths=["content"])
        await garden.sessions.UpdateMessage(session_pb2.UpdateMessageRequest(message=corrected, update_mask=mask))
    elif way == "deleted":
        await garden.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id="m"))
    else:
        await garden.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id="talk"))

    await until_waiting(0)

    changes = (await approver.history.ListChanges(history_pb2.ListChangesRequest())).changes
    assert [change.event_type for change in changes if change.event_type == "memory_refused"] == ["memory_refused"]


async def test_the_file_of_an_interrupted_archive_moves_with_its_session_and_is_purged_there(house: House) -> None:
    kitchen, garden = house.at(house.kitchen_id), house.at(house.garden_id)
    await kitchen.append("talk", TEXT)
    async with house.cluster.superuser() as connection:
        await connection.execute(
            "INSERT INTO session.unreferenced_files (tenant_id, file_id, checksum, session_id, due_time, space_id) "
            "VALUES ($1, gen_random_uuid(), '', 'talk', now() + interval '1 hour', $2)",
            house.tenant.tenant_id,
            house.kitchen_id,
        )
    await house.move_session("talk")

    await garden.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="talk"))

    async with house.cluster.superuser() as connection:
        rows = await connection.fetch(
            "SELECT session_id, space_id::text FROM session.unreferenced_files WHERE tenant_id = $1",
            house.tenant.tenant_id,
        )
    # A file without its session is never linked, and the purge has deleted it.
    assert [tuple(row) for row in rows] == [(None, house.garden_id)]
