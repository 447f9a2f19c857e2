"""Exports records related to memories and sessions: subjects, agents with tools and blocks, curation, policies.

Each record is the request that stores it again. Memory ids are those of the export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from google.protobuf.message import Message

from skein.memory.v1 import blocks_pb2, curation_pb2, pages_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import states_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_client.client import Client
from skein_client.pagination import iterate_pages
from skein_importers.records import Kind

_PAGE = 500
# Items of one call for vectors.
_VECTORS = 100
# The revision of an unchanged policy, and the fields that callers cannot set.
_FIRST_REVISION = 1
_READ_ONLY_FIELDS = frozenset({"revision", "update_time", "updated_by"})


def clear_revision(item: Message) -> None:
    """Clear a message's revision, which another cluster would refuse as stale."""
    for field, value in item.ListFields():
        if field.name == "revision":
            item.ClearField("revision")
        elif field.name == "policy":
            clear_revision(value)


async def export_agents_and_subjects(api: Client, put: Callable[[Kind, Message], None]) -> None:
    """Export subjects, agents, tools and blocks, to which sessions and memories refer."""
    async for subject in iterate_pages(
        api.tenancy.ListSubjects, subjects_pb2.ListSubjectsRequest(page_size=_PAGE), "subjects"
    ):
        put(Kind.SUBJECT, subject)
    agents: list[str] = []
    async for agent in iterate_pages(api.tenancy.ListAgents, tenancy_pb2.ListAgentsRequest(page_size=_PAGE), "agents"):
        agents.append(agent.agent_id)
        put(Kind.AGENT, agent)
    async for tool in iterate_pages(api.tenancy.ListTools, subjects_pb2.ListToolsRequest(page_size=_PAGE), "tools"):
        put(Kind.TOOL, tool)
    for agent_id in agents:
        of_agent = subjects_pb2.ListToolsRequest(agent_id=agent_id, page_size=_PAGE)
        async for tool in iterate_pages(api.tenancy.ListTools, of_agent, "tools"):
            put(Kind.TOOL_ATTACHMENT, subjects_pb2.AttachToolRequest(agent_id=agent_id, tool_id=tool.tool_id))
    blocks: list[str] = []
    async for block in iterate_pages(api.blocks.ListBlocks, blocks_pb2.ListBlocksRequest(page_size=_PAGE), "blocks"):
        blocks.append(block.block_id)
        put(Kind.BLOCK, block)
    for block_id in blocks:
        of_block = blocks_pb2.ListBlockAgentsRequest(block_id=block_id, page_size=_PAGE)
        async for agent in iterate_pages(api.blocks.ListBlockAgents, of_block, "agents"):
            put(Kind.BLOCK_ATTACHMENT, blocks_pb2.AttachBlockRequest(block_id=block_id, agent_id=agent.agent_id))


async def export_session_items(api: Client, session_ids: Iterable[str], put: Callable[[Kind, Message], None]) -> None:
    """Export the items and agent states of sessions."""
    for session_id in session_ids:
        request = states_pb2.ListSessionItemsRequest(session_id=session_id, page_size=_PAGE)
        async for item in iterate_pages(api.sessions.ListSessionItems, request, "items"):
            request_item = states_pb2.PutSessionItemRequest(
                session_id=session_id,
                key=item.key,
                value=item.value,
                create_time=item.create_time,
                update_time=item.update_time,
                expire_time=item.expire_time,
            )
            put(Kind.ITEM, request_item)
    states = states_pb2.ListAgentStatesRequest(page_size=_PAGE)
    async for state in iterate_pages(api.sessions.ListAgentStates, states, "states"):
        put(Kind.AGENT_STATE, state)


async def export_vectors(api: Client, names: Mapping[str, str], put: Callable[[Kind, Message], None]) -> None:
    """Export caller vectors of memories with their provider; other vectors are computed again."""
    remaining = list(names)
    while remaining:
        item_ids, remaining = remaining[:_VECTORS], remaining[_VECTORS:]
        request = recall_pb2.BatchGetIndexStatesRequest(item_ids=item_ids, show_embeddings=True)
        response = await api.index.BatchGetIndexStates(request)
        for state in response.states:
            for vector in state.vectors:
                if vector.from_caller:
                    embedding = recall_pb2.PutEmbeddingRequest(
                        external_id=names[state.item_id],
                        model=vector.model,
                        provider=vector.provider,
                        embeddings=vector.embeddings,
                    )
                    put(Kind.EMBEDDING, embedding)
        remaining = [*response.unread_ids, *remaining]


async def export_curation(api: Client, names: Mapping[str, str], put: Callable[[Kind, Message], None]) -> None:
    """Export conflicts, aliases, source trust, the questions of pages, and the tenant's policies and webhooks."""
    trust = curation_pb2.ListSourceTrustRequest(page_size=_PAGE)
    async for source in iterate_pages(api.curation.ListSourceTrust, trust, "source_trust"):
        trust_request = curation_pb2.SetSourceTrustRequest(
            source=source.source_key,
            trust=source.trust,
            notes=source.notes,
            create_time=source.create_time,
            update_time=source.update_time,
        )
        put(Kind.TRUST, trust_request)
    async for alias in iterate_pages(
        api.curation.ListAliases, curation_pb2.ListAliasesRequest(page_size=_PAGE), "aliases"
    ):
        if alias.alias_memory_id in names and alias.canonical_memory_id in names:
            alias_request = curation_pb2.ResolveEntityRequest(
                alias_memory_id=names[alias.alias_memory_id],
                canonical_memory_id=names[alias.canonical_memory_id],
                confidence=alias.confidence,
                note=alias.note,
                create_time=alias.create_time,
                update_time=alias.update_time,
            )
            put(Kind.ALIAS, alias_request)
    conflicts = curation_pb2.ListConflictResolutionsRequest(page_size=_PAGE)
    async for resolution in iterate_pages(api.curation.ListConflictResolutions, conflicts, "resolutions"):
        if resolution.a_memory_id in names and resolution.b_memory_id in names:
            conflict_request = curation_pb2.ResolveConflictRequest(
                a_memory_id=names[resolution.a_memory_id],
                b_memory_id=names[resolution.b_memory_id],
                status=resolution.status,
                canonical_memory_id=names.get(resolution.canonical_memory_id, ""),
                note=resolution.note,
                create_time=resolution.create_time,
                update_time=resolution.update_time,
            )
            put(Kind.CONFLICT, conflict_request)
    async for page in iterate_pages(api.curation.ListPages, pages_pb2.ListPagesRequest(page_size=_PAGE), "pages"):
        # The profile of a subject has no question of its own, and an entity that is not exported has no page.
        if page.revision and (not page.entity_memory_id or page.entity_memory_id in names):
            question = pages_pb2.Page(
                page_id=page.page_id,
                title=page.title,
                subject_id=page.subject_id,
                entity_memory_id=names.get(page.entity_memory_id, ""),
                filter=page.filter if page.HasField("filter") else None,
                sections=page.sections,
                pinned=page.pinned,
            )
            put(Kind.PAGE, question)
    policy = (await api.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())).policy
    if policy.revision > _FIRST_REVISION:
        rules = subjects_pb2.UpdatePolicyRequest(policy=policy)
        rules.update_mask.paths.extend(
            field.name for field, _ in policy.ListFields() if field.name not in _READ_ONLY_FIELDS
        )
        put(Kind.POLICY, rules)
