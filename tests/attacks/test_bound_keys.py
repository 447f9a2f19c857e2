"""Attack: a key that is bound to one agent reads, changes, links, copies, counts or deletes those of another.
May be seen: what the agent itself sees; of the rest NOT_FOUND, or AGENT_BOUND where a call is about the whole tenant.
May be spent: the refused call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from fix_calls import stamp
from fix_cluster import Cluster, Stubs, Tenant, refused

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import (
    approvals_pb2,
    blocks_pb2,
    curation_pb2,
    history_pb2,
    scores_pb2,
    snapshots_pb2,
    webhooks_pb2,
)
from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein_kit.identity.permissions import TENANT_PERMISSIONS

NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND")
BOUND = (grpc.StatusCode.PERMISSION_DENIED, "AGENT_BOUND")
QUESTION = "Which rose needs manure?"
TEXT = "The red rose needs manure"


@dataclass(frozen=True)
class Garden:
    """A tenant with memories of the agent garden, and a key of the agent kitchen."""

    tenant: Tenant
    kitchen: Stubs
    secret_id: str
    # For all, with a link to the secret.
    shared_id: str
    own_id: str
    link_id: str


@pytest.fixture(params=["key", "service account"])
async def garden(tenant: Tenant, cluster: Cluster, request: pytest.FixtureRequest) -> Garden:
    secret_id = await tenant.remember(
        TEXT, scope=pb.SCOPE_AGENT, agent_id="garden", external_id="rose", tags=["rose"], type="fact", key="rose"
    )
    shared_id = await tenant.remember("The house has a garden", tags=["rose"])
    own_id = await tenant.remember("The oven is hot", scope=pb.SCOPE_AGENT, agent_id="kitchen")
    link = await tenant.create_link(shared_id, secret_id, "supports", label="manure")
    request_of_key = auth_pb2.CreateApiKeyRequest(
        display_name="kitchen", agent_id="kitchen", permissions=sorted(TENANT_PERMISSIONS)
    )
    if request.param == "service account":
        account = accounts_pb2.ServiceAccount(
            display_name="kitchen", agent_id="kitchen", permissions=["memory.read", "memory.write", "recall.read",
                                                                     "session.read", "session.write"],
        )  # fmt: skip
        made = await tenant.auth.CreateServiceAccount(accounts_pb2.CreateServiceAccountRequest(service_account=account))
        request_of_key = auth_pb2.CreateApiKeyRequest(
            display_name="kitchen", service_account_id=made.service_account.service_account_id
        )
    key = await tenant.auth.CreateApiKey(request_of_key)
    return Garden(
        tenant=tenant,
        kitchen=cluster.with_key(key.secret),
        secret_id=secret_id,
        shared_id=shared_id,
        own_id=own_id,
        link_id=link.link_id,
    )


# What finds no memory: by the id, or by the external id.
HIDDEN: dict[str, Callable[[Garden, str], Awaitable[Any]]] = {
    "get": lambda g, name: g.kitchen.get_memory(name),
    "get as of": lambda g, name: g.kitchen.get_memory(name, as_of_time=stamp(datetime.now(UTC))),
    "update": lambda g, name: g.kitchen.update_memory(name, content="x"),
    "update the agent": lambda g, name: g.kitchen.update_memory(name, agent_id="kitchen"),
    "delete": lambda g, name: g.kitchen.delete_memory(name),
    "undelete": lambda g, name: g.kitchen.memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id=name)),
    "versions": lambda g, name: g.kitchen.memory.ListMemoryVersions(pb.ListMemoryVersionsRequest(memory_id=name)),
    "explain": lambda g, name: g.kitchen.memory.ExplainScore(scores_pb2.ExplainScoreRequest(memory_id=name)),
    "reinforce": lambda g, name: g.kitchen.memory.ReinforceMemory(scores_pb2.ReinforceMemoryRequest(memory_id=name)),
    "promote": lambda g, name: g.kitchen.memory.PromoteMemory(pb.PromoteMemoryRequest(memory_id=name)),
    "merge": lambda g, name: g.kitchen.memory.MergeMemories(
        scores_pb2.MergeMemoriesRequest(memory_ids=[g.own_id, name])
    ),
    "link": lambda g, name: g.kitchen.create_link(g.own_id, name),
    "upsert a link": lambda g, name: g.kitchen.links.UpsertLink(
        pb.UpsertLinkRequest(link=pb.Link(from_memory_id=name, to_memory_id=g.own_id, relation="related"))
    ),
    "links": lambda g, name: g.kitchen.list_links(name),
    "traverse": lambda g, name: g.kitchen.links.TraverseLinks(pb.TraverseLinksRequest(memory_id=name)),
    "paths": lambda g, name: g.kitchen.links.FindPaths(
        pb.FindPathsRequest(from_memory_id=g.shared_id, to_memory_id=name)
    ),
    "suggest": lambda g, name: g.kitchen.links.SuggestLinks(pb.SuggestLinksRequest(memory_id=name)),
    "lineage": lambda g, name: g.kitchen.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=[name])),
    "entity": lambda g, name: g.kitchen.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(alias_memory_id=g.own_id, canonical_memory_id=name)
    ),
    "conflict": lambda g, name: g.kitchen.curation.ResolveConflict(
        curation_pb2.ResolveConflictRequest(
            a_memory_id=g.own_id, b_memory_id=name, status=curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW
        )
    ),
}


@pytest.mark.system
@pytest.mark.parametrize("garden", ["key"], indirect=True)
async def test_no_call_finds_a_memory_of_another_agent(garden: Garden) -> None:
    before = await garden.tenant.get_memory(garden.secret_id)

    for call in HIDDEN.values():
        for name in (garden.secret_id, "rose"):
            with refused(*NOT_FOUND):
                await call(garden, name)

    after = await garden.tenant.get_memory(garden.secret_id)
    assert (after.content, after.revision, after.agent_id) == (TEXT, before.revision, "garden")


async def test_lists_and_searches_show_the_agents_own_memories_alone(garden: Garden) -> None:
    kitchen, own = garden.kitchen, {garden.shared_id, garden.own_id}

    listed = await kitchen.list_memories()
    filtered = await kitchen.list_memories(filter=pb.MemoryFilter(agent_id="garden"))
    batch = await kitchen.memory.BatchGetMemories(
        pb.BatchGetMemoriesRequest(memory_ids=[garden.secret_id, garden.own_id])
    )
    exported = await kitchen.memory.ExportMemories(
        pb.ExportMemoriesRequest(selection=pb.MemorySelection(filter=pb.MemoryFilter(tags_any=["rose"])))
    )

    assert {memory.memory_id for memory in listed} == own
    assert filtered == []
    assert ([memory.memory_id for memory in batch.memories], list(batch.not_found_ids)) == (
        [garden.own_id],
        [garden.secret_id],
    )
    assert [one.memory.memory_id for one in exported.memories] == [garden.shared_id]
    assert not exported.memories[0].links
    assert {memory.memory_id for memory in await garden.tenant.list_memories()} == own | {garden.secret_id}


async def test_recall_neither_shows_nor_hints_at_a_memory_of_another_agent(garden: Garden) -> None:
    kitchen = garden.kitchen
    assert (await garden.tenant.search(QUESTION, min_relevance=0)).hits[0].item_id == garden.secret_id

    for fields in ({}, {"mode": recall_pb2.SEARCH_MODE_KEYWORD}, {"mode": recall_pb2.SEARCH_MODE_SEMANTIC}):
        answer = await kitchen.search(QUESTION, min_relevance=0, **fields)
        assert garden.secret_id not in {hit.item_id for hit in answer.hits}
    for filter_ in (pb.MemoryFilter(agent_id="garden"), pb.MemoryFilter(key="rose"), pb.MemoryFilter(types=["fact"])):
        answer = await kitchen.search("manure", mode=recall_pb2.SEARCH_MODE_KEYWORD, filter=filter_)
        assert (list(answer.hits), list(answer.emptied_by)) == ([], [])
    past = await kitchen.search(QUESTION, min_relevance=0, as_of_time=stamp(datetime.now(UTC)))
    assert garden.secret_id not in {hit.item_id for hit in past.hits}
    context = await kitchen.gateway.BuildContext(
        gateway_pb2.BuildContextRequest(recall=gateway_pb2.RecallRequest(query=QUESTION, min_relevance=0))
    )
    assert TEXT not in context.text
    with refused(grpc.StatusCode.NOT_FOUND, "DOCUMENT_NOT_FOUND"):
        await kitchen.recall.FindSimilar(recall_pb2.FindSimilarRequest(item_id=garden.secret_id))
    states = await kitchen.recall.BatchGetIndexStates(
        recall_pb2.BatchGetIndexStatesRequest(item_ids=[garden.secret_id], show_embeddings=True)
    )
    assert not states.states
    with refused(grpc.StatusCode.NOT_FOUND, "DOCUMENT_NOT_FOUND"):
        await kitchen.recall.PutEmbedding(
            recall_pb2.PutEmbeddingRequest(
                item_id=garden.secret_id, model=past.model, embeddings=[recall_pb2.Embedding(values=[1.0] * 384)]
            )
        )
    similar = await kitchen.recall.FindSimilar(recall_pb2.FindSimilarRequest(item_id=garden.shared_id))
    assert garden.secret_id not in {hit.item_id for hit in similar.hits}


async def test_emptied_by_tells_nothing_about_what_a_reader_may_not_see(garden: Garden) -> None:
    reader = pb.ScopeContext(agent_id="kitchen")

    hidden = await garden.tenant.search(
        "manure", mode=recall_pb2.SEARCH_MODE_KEYWORD, filter=pb.MemoryFilter(types=["fact"], visible_to=reader)
    )
    seen = await garden.tenant.search(
        "oven", mode=recall_pb2.SEARCH_MODE_KEYWORD, filter=pb.MemoryFilter(types=["fact"], visible_to=reader)
    )

    assert (list(hidden.hits), list(hidden.emptied_by), hidden.filter_emptied) == ([], [], False)
    assert list(seen.emptied_by) == ["types"]


async def test_a_link_to_a_memory_of_another_agent_is_not_there(garden: Garden) -> None:
    kitchen, hidden = garden.kitchen, (grpc.StatusCode.NOT_FOUND, "LINK_NOT_FOUND")

    graph = await kitchen.links.GetSubgraph(pb.GetSubgraphRequest(memory_ids=[garden.shared_id], infer_links=True))

    assert [node.memory_id for node in graph.nodes] == [garden.shared_id]
    assert not graph.links
    assert await kitchen.list_links(garden.shared_id) == []
    with refused(*hidden):
        await kitchen.links.GetLink(pb.GetLinkRequest(link_id=garden.link_id))
    with refused(*hidden):
        await kitchen.links.DeleteLink(pb.DeleteLinkRequest(link_id=garden.link_id))
    with refused(*hidden):
        await kitchen.links.UpdateLink(
            pb.UpdateLinkRequest(link=pb.Link(link_id=garden.link_id, label="x"), update_mask={"paths": ["label"]})
        )
    assert len(await garden.tenant.list_links(garden.shared_id)) == 1


async def test_deletions_and_purges_leave_memories_of_another_agent(garden: Garden) -> None:
    kitchen = garden.kitchen
    everything = pb.MemorySelection(filter=pb.MemoryFilter(end_time=stamp(datetime(2999, 1, 1, tzinfo=UTC))))

    purged = await kitchen.purge_memories(garden.secret_id)
    deleted = await kitchen.memory.DeleteMemories(pb.DeleteMemoriesRequest(selection=everything))
    await kitchen.memory.PurgeMemories(pb.PurgeMemoriesRequest(selection=everything))

    assert list(purged.not_found_ids) == [garden.secret_id]
    assert sorted(deleted.memory_ids) == sorted([garden.shared_id, garden.own_id])
    assert [memory.memory_id for memory in await garden.tenant.list_memories()] == [garden.secret_id]


# Writes in the name of another agent.
AS_ANOTHER: dict[str, Callable[[Stubs], Awaitable[Any]]] = {
    "create": lambda kitchen: kitchen.create_memory("x", scope=pb.SCOPE_AGENT, agent_id="garden"),
    "create for all": lambda kitchen: kitchen.create_memory("x", agent_id="garden"),
    "batch": lambda kitchen: kitchen.create_memories("x", {"agent_id": "garden"}),
    "session": lambda kitchen: kitchen.create_session("s", agent_id="garden"),
    "message": lambda kitchen: kitchen.append(
        "s", session_pb2.Message(role=session_pb2.MESSAGE_ROLE_ASSISTANT, content="x", agent_id="garden")
    ),
    "put a state": lambda kitchen: kitchen.sessions.PutAgentState(
        states_pb2.PutAgentStateRequest(state=states_pb2.AgentState(agent_id="garden"))
    ),
    "get a state": lambda kitchen: kitchen.sessions.GetAgentState(states_pb2.GetAgentStateRequest(agent_id="garden")),
    "list states": lambda kitchen: kitchen.sessions.ListAgentStates(
        states_pb2.ListAgentStatesRequest(agent_id="garden")
    ),
    "delete a state": lambda kitchen: kitchen.sessions.DeleteAgentState(
        states_pb2.DeleteAgentStateRequest(agent_id="garden")
    ),
    "block": lambda kitchen: kitchen.create_block(agent_id="garden"),
    "blocks": lambda kitchen: kitchen.blocks.ListAgentBlocks(blocks_pb2.ListAgentBlocksRequest(agent_id="garden")),
    "compile": lambda kitchen: kitchen.blocks.CompileBlocks(blocks_pb2.CompileBlocksRequest(agent_id="garden")),
}
# What reads or writes all of a tenant.
WHOLE: dict[str, Callable[[Stubs], Awaitable[Any]]] = {
    "changes": lambda kitchen: kitchen.history.ListChanges(history_pb2.ListChangesRequest()),
    "webhooks": lambda kitchen: kitchen.history.ListWebhooks(webhooks_pb2.ListWebhooksRequest()),
    "snapshot": lambda kitchen: kitchen.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="s")),
    "snapshots": lambda kitchen: kitchen.snapshots.ListSnapshots(snapshots_pb2.ListSnapshotsRequest()),
    "export": lambda kitchen: kitchen.snapshots.ExportData(snapshots_pb2.ExportDataRequest()),
    "import": lambda kitchen: kitchen.snapshots.ImportData(
        snapshots_pb2.ImportDataRequest(lines='{"memory": {"content": "x"}}')
    ),
    "statistics": lambda kitchen: kitchen.curation.GetStatistics(curation_pb2.GetStatisticsRequest()),
    "purge a person": lambda kitchen: kitchen.memory.PurgeMemories(
        pb.PurgeMemoriesRequest(selection=pb.MemorySelection(filter=pb.MemoryFilter(subject_id="alice")))
    ),
    "purge sessions": lambda kitchen: kitchen.sessions.PurgeSubject(states_pb2.PurgeSubjectRequest(subject_id="alice")),
}


@pytest.mark.parametrize("garden", ["key"], indirect=True)
async def test_a_bound_key_acts_as_no_other_agent_and_for_no_whole_tenant(garden: Garden) -> None:
    for call in [*AS_ANOTHER.values(), *WHOLE.values()]:
        with refused(*BOUND):
            await call(garden.kitchen)
    with refused(*BOUND):
        await garden.kitchen.update_memory(garden.own_id, agent_id="garden")

    assert (await garden.kitchen.create_memory("x")).agent_id == "kitchen"


async def test_a_memory_of_a_session_or_person_that_names_another_agent_is_hidden_too(garden: Garden) -> None:
    fields: dict[str, Any] = {"subject_id": "alice", "session_id": "s", "agent_id": "garden"}
    hidden = [await garden.tenant.remember("x", scope=scope, **fields) for scope in (pb.SCOPE_USER, pb.SCOPE_SESSION)]
    del fields["agent_id"]
    shown = [await garden.tenant.remember("x", scope=scope, **fields) for scope in (pb.SCOPE_USER, pb.SCOPE_SESSION)]

    listed = {memory.memory_id for memory in await garden.kitchen.list_memories()}

    assert listed == {garden.shared_id, garden.own_id, *shown}
    assert listed.isdisjoint(hidden)


async def test_a_key_of_an_agent_purges_no_write_of_another_that_waits(tenant: Tenant, cluster: Cluster) -> None:
    await tenant.set_policy(approval="agents")
    kitchen, garden = [
        cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)
        for request in (auth_pb2.CreateApiKeyRequest(display_name=id_, agent_id=id_) for id_ in ("kitchen", "garden"))
    ]
    others = await garden.create_memory(TEXT, session_id="s")
    own = await kitchen.create_memory("The oven is cold", session_id="s")
    by_id = pb.MemorySelection(memory_ids=[others.memory_id, own.memory_id])
    by_session = pb.MemorySelection(filter=pb.MemoryFilter(session_id="s"))

    for selection in (by_session, by_id):
        await kitchen.memory.PurgeMemories(pb.PurgeMemoriesRequest(selection=selection))
    waiting = await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())
    assert [one.pending_id for one in waiting.pending_memories] == [others.memory_id]
