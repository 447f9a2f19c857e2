"""Rows of the five source systems: how each kind is created, changed and checked here."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fix_cluster import Stubs
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct

from skein.memory.v1 import blocks_pb2, curation_pb2, memory_pb2, webhooks_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of row: the calls that create a row and change it. Both return the row as the service answers it."""

    create: Callable[[Stubs], Awaitable[Any]]
    update: Callable[[Stubs, Any], Awaitable[Any]]


async def memories(calls: Stubs, *contents: str, **fields: Any) -> list[memory_pb2.Memory]:
    """Store memories with these contents, which have no names of their own."""
    request = memory_pb2.BatchCreateMemoriesRequest(
        memories=[memory_pb2.Memory(content=content, **fields) for content in contents]
    )
    return list((await calls.memory.BatchCreateMemories(request)).memories)


async def _create_memory(calls: Stubs) -> Any:
    return (await memories(calls, "the kettle whistles"))[0]


async def _update_memory(calls: Stubs, row: Any) -> Any:
    change = memory_pb2.Memory(memory_id=row.memory_id, title="Kettle")
    request = memory_pb2.UpdateMemoryRequest(memory=change, update_mask=FieldMask(paths=["title"]))
    return (await calls.memory.UpdateMemory(request)).memory


async def _create_link(calls: Stubs) -> Any:
    start, end = await memories(calls, "water boils", "the kettle whistles")
    link = memory_pb2.Link(from_memory_id=start.memory_id, to_memory_id=end.memory_id)
    return (await calls.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))).link


async def _update_link(calls: Stubs, row: Any) -> Any:
    change = memory_pb2.Link(link_id=row.link_id, label="then")
    request = memory_pb2.UpdateLinkRequest(link=change, update_mask=FieldMask(paths=["label"]))
    return (await calls.links.UpdateLink(request)).link


async def _set_trust(calls: Stubs, trust: float = 0.9) -> Any:
    request = curation_pb2.SetSourceTrustRequest(source="calendar", trust=trust)
    return (await calls.curation.SetSourceTrust(request)).source_trust


async def _create_alias(calls: Stubs) -> Any:
    alias, canonical = await memories(calls, "Robert", "Bob", type="entity")
    return await _set_alias(calls, alias.memory_id, canonical.memory_id)


async def _set_alias(calls: Stubs, alias: str, canonical: str, note: str = "") -> Any:
    request = curation_pb2.ResolveEntityRequest(alias_memory_id=alias, canonical_memory_id=canonical, note=note)
    return (await calls.curation.ResolveEntity(request)).alias


async def _create_resolution(calls: Stubs) -> Any:
    one, other = await memories(calls, "the door is red", "the door is blue", type="fact")
    return await _set_resolution(calls, one.memory_id, other.memory_id)


async def _set_resolution(calls: Stubs, one: str, other: str, note: str = "") -> Any:
    request = curation_pb2.ResolveConflictRequest(
        a_memory_id=one, b_memory_id=other, status=curation_pb2.CONFLICT_STATUS_DISMISSED, note=note
    )
    return (await calls.curation.ResolveConflict(request)).resolution


async def _create_webhook(calls: Stubs) -> Any:
    webhook = webhooks_pb2.Webhook(display_name="w", event_types=["*"], webhook_url="https://example.com/hook")
    return (await calls.history.CreateWebhook(webhooks_pb2.CreateWebhookRequest(webhook=webhook))).webhook


async def _update_webhook(calls: Stubs, row: Any) -> Any:
    change = webhooks_pb2.Webhook(webhook_id=row.webhook_id, display_name="renamed")
    request = webhooks_pb2.UpdateWebhookRequest(webhook=change, update_mask=FieldMask(paths=["display_name"]))
    return (await calls.history.UpdateWebhook(request)).webhook


async def _create_block(calls: Stubs) -> Any:
    block = blocks_pb2.Block(label="human", value="likes tea")
    return (await calls.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))).block


async def _update_block(calls: Stubs, row: Any) -> Any:
    change = blocks_pb2.Block(block_id=row.block_id, value="likes coffee")
    request = blocks_pb2.UpdateBlockRequest(block=change, update_mask=FieldMask(paths=["value"]))
    return (await calls.blocks.UpdateBlock(request)).block


async def _create_session(calls: Stubs) -> Any:
    return (await calls.sessions.CreateSession(session_pb2.CreateSessionRequest())).session


async def _update_session(calls: Stubs, row: Any) -> Any:
    change = session_pb2.Session(session_id=row.session_id, title="Breakfast")
    request = session_pb2.UpdateSessionRequest(session=change, update_mask=FieldMask(paths=["title"]))
    return (await calls.sessions.UpdateSession(request)).session


async def _create_message(calls: Stubs) -> Any:
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="Good morning")
    request = session_pb2.AppendMessagesRequest(session_id="s", messages=[message], create_session=True)
    return (await calls.sessions.AppendMessages(request)).messages[0]


async def _update_message(calls: Stubs, row: Any) -> Any:
    change = session_pb2.Message(message_id=row.message_id, content="Good evening")
    request = session_pb2.UpdateMessageRequest(message=change, update_mask=FieldMask(paths=["content"]))
    return (await calls.sessions.UpdateMessage(request)).message


async def _put_state(calls: Stubs, step: int = 1) -> Any:
    data = Struct()
    data.update({"step": step})
    request = states_pb2.PutAgentStateRequest(state=states_pb2.AgentState(agent_id="planner", state_data=data))
    return (await calls.sessions.PutAgentState(request)).state


async def _create_subject(calls: Stubs) -> Any:
    request = subjects_pb2.CreateSubjectRequest(subject=subjects_pb2.Subject(subject_id="ada"))
    return (await calls.tenancy.CreateSubject(request)).subject


async def _update_subject(calls: Stubs, row: Any) -> Any:
    change = subjects_pb2.Subject(subject_id=row.subject_id, display_name="Ada")
    request = subjects_pb2.UpdateSubjectRequest(subject=change, update_mask=FieldMask(paths=["display_name"]))
    return (await calls.tenancy.UpdateSubject(request)).subject


async def _create_agent(calls: Stubs) -> Any:
    request = tenancy_pb2.CreateAgentRequest(agent=tenancy_pb2.Agent(agent_id="planner"))
    return (await calls.tenancy.CreateAgent(request)).agent


async def _update_agent(calls: Stubs, row: Any) -> Any:
    change = tenancy_pb2.Agent(agent_id=row.agent_id, topic="dinner")
    request = tenancy_pb2.UpdateAgentRequest(agent=change, update_mask=FieldMask(paths=["topic"]))
    return (await calls.tenancy.UpdateAgent(request)).agent


async def _create_tool(calls: Stubs) -> Any:
    request = subjects_pb2.CreateToolRequest(tool=subjects_pb2.Tool(tool_id="timer", name="set_timer"))
    return (await calls.tenancy.CreateTool(request)).tool


async def _update_tool(calls: Stubs, row: Any) -> Any:
    change = subjects_pb2.Tool(tool_id=row.tool_id, description="Sets a timer.")
    request = subjects_pb2.UpdateToolRequest(tool=change, update_mask=FieldMask(paths=["description"]))
    return (await calls.tenancy.UpdateTool(request)).tool


async def _create_organization(operator: Stubs) -> Any:
    organization = tenancy_pb2.Organization(display_name=f"Acme {uuid.uuid4().hex}")
    request = tenancy_pb2.CreateOrganizationRequest(organization=organization)
    return (await operator.tenancy.CreateOrganization(request)).organization


async def _update_organization(operator: Stubs, row: Any) -> Any:
    change = tenancy_pb2.Organization(organization_id=row.organization_id, display_name="Acme again")
    request = tenancy_pb2.UpdateOrganizationRequest(organization=change, update_mask=FieldMask(paths=["display_name"]))
    return (await operator.tenancy.UpdateOrganization(request)).organization


async def _create_tenant(operator: Stubs) -> Any:
    tenant = tenancy_pb2.Tenant(display_name=f"Brain {uuid.uuid4().hex}")
    return (await operator.tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=tenant))).tenant


async def _update_tenant(operator: Stubs, row: Any) -> Any:
    change = tenancy_pb2.Tenant(tenant_id=row.tenant_id, display_name="Brain again")
    request = tenancy_pb2.UpdateTenantRequest(tenant=change, update_mask=FieldMask(paths=["display_name"]))
    return (await operator.tenancy.UpdateTenant(request)).tenant


KINDS = {
    "memory": Kind(create=_create_memory, update=_update_memory),
    "link": Kind(create=_create_link, update=_update_link),
    "source trust": Kind(create=_set_trust, update=lambda calls, _row: _set_trust(calls, 0.1)),
    "alias": Kind(
        create=_create_alias,
        update=lambda calls, row: _set_alias(calls, row.alias_memory_id, row.canonical_memory_id, "same person"),
    ),
    "conflict resolution": Kind(
        create=_create_resolution,
        update=lambda calls, row: _set_resolution(calls, row.a_memory_id, row.b_memory_id, "both are true"),
    ),
    "webhook": Kind(create=_create_webhook, update=_update_webhook),
    "block": Kind(create=_create_block, update=_update_block),
    "session": Kind(create=_create_session, update=_update_session),
    "message": Kind(create=_create_message, update=_update_message),
    "agent state": Kind(create=_put_state, update=lambda calls, _row: _put_state(calls, 2)),
    "subject": Kind(create=_create_subject, update=_update_subject),
    "agent": Kind(create=_create_agent, update=_update_agent),
    "tool": Kind(create=_create_tool, update=_update_tool),
    # Of the operator.
    "organization": Kind(create=_create_organization, update=_update_organization),
    "tenant": Kind(create=_create_tenant, update=_update_tenant),
}


async def audit_faults(kinds: Sequence[str], first: Stubs, second: Stubs) -> list[str]:
    """Return what the times and authors of these kinds' rows say wrongly."""
    faults = await asyncio.gather(*(_audit_faults(kind, first, second) for kind in kinds))
    return [fault for of_kind in faults for fault in of_kind]


async def _audit_faults(kind: str, first: Stubs, second: Stubs) -> list[str]:
    """Create a row as one caller and change it as another; return what its times and authors say wrongly.

    A new row has the time of the call as its creation and its last change. A change moves the second time alone, and
    names the second caller beside the first one where the kind tells its authors.
    """
    begin = datetime.now(UTC)
    created = await KINDS[kind].create(first)
    between = datetime.now(UTC)
    changed = await KINDS[kind].update(second, created)
    end = datetime.now(UTC)
    made_at, changed_at = created.create_time.ToDatetime(UTC), changed.update_time.ToDatetime(UTC)
    checks = {
        "creation is not the time of the call": begin <= made_at <= between,
        "a new row's last change is not its creation": created.update_time == created.create_time,
        "a change moved the creation": changed.create_time == created.create_time,
        "the last change is not the time of the call": between <= changed_at <= end,
    }
    if hasattr(created, "updated_by"):
        authors = {created.created_by, created.updated_by}
        checks["a new row has two authors or none"] = len(authors) == 1 and "" not in authors
        checks["a change moved the creator"] = changed.created_by == created.created_by
        checks["a change does not name its author"] = changed.updated_by not in {"", created.created_by}
    return [f"{kind}: {fault}" for fault, holds in checks.items() if not holds]
