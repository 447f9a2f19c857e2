"""The Memory Orchestrator Service's actions (port 7140), answered by public RPCs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import scores_pb2
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.memory_service import convert as records
from skein_pc2.memory_service import links as relations
from skein_pc2.memory_service import parents, search
from skein_pc2.memory_service.batches import Batches
from skein_pc2.memory_service.groups import Groups
from skein_pc2.memory_service.lifecycle import Lifecycle
from skein_pc2.protocol import fields
from skein_pc2.protocol.actions import Action, ActionPort, ActionRequest
from skein_pc2.protocol.errors import MEMORY_NOT_FOUND, RequestError
from skein_pc2.protocol.frames import Message
from skein_pc2.protocol.health import Health
from skein_pc2.sessions import create_session

_DEFAULT_FACTOR = 1.2
_DEFAULT_LIMIT, _MAX_LIMIT = 100, 200
# Memories whose reads are counted ahead of the service.
_MAX_COUNTED_MEMORIES = 10_000
# Attempts of an update with concurrent changes.
_MAX_ATTEMPTS = 5
_NOT_FOUND, _UPDATED = "There is no memory of this id", "Memory updated"
_RELATED_FIELDS = ("memory_id", "content", "memory_type", "memory_tier", "importance")
_DIRECTIONS = {pb.LINK_DIRECTION_OUTGOING: "outgoing", pb.LINK_DIRECTION_INCOMING: "incoming"}


class MemoryService(ActionPort):
    """Answers the actions of port 7140."""

    def __init__(self, api: GatewayApi, health: Health, *, max_concurrency: int) -> None:
        groups, batches, lifecycle = Groups(api), Batches(api), Lifecycle(api)
        actions: dict[str, Action] = {
            "add_memory": self._add,
            "get_memory": self._get,
            "get_children": partial(parents.list_children, api),
            "add_relationship": self._add_relationship,
            "get_related": self._get_related,
            "search_memory": partial(search.search_by_words, api),
            "update_memory": self._update,
            "delete_memory": self._delete,
            "reinforce_memory": self._reinforce,
            "create_context_group": groups.create,
            "add_to_group": groups.add,
            "get_memories_by_group": groups.list_memories,
            "semantic_search": partial(search.search_by_meaning, api),
            "batch_add_memories": batches.add,
            "batch_get_memories": batches.get,
            "create_session": self._create_session,
            "get_all_memories_for_lifecycle": lifecycle.list_decaying,
            "get_memories_for_consolidation": lifecycle.list_for_consolidation,
            "get_memories_for_cleanup": lifecycle.list_for_cleanup,
            "get_memory_system_status": lifecycle.status,
            "apply_decay": lifecycle.decay,
            "consolidate_memory": lifecycle.consolidate,
            "archive_memory": lifecycle.archive,
        }
        super().__init__(health, actions, max_concurrency=max_concurrency)
        self._api = api
        self._access_counts = _AccessCounts()

    async def _add(self, request: ActionRequest) -> Message:
        """Store a memory. A repeat with the same request_id returns the first memory."""
        memory = records.parse_draft(request.fields, f"mem-{request.new_id()}")
        parent_id = fields.text(request.fields, "parent_id")
        parent = await parents.parent_of(self._api, request, parent_id) if parent_id else None
        if parent is not None and parent.session is not None:
            memory.session_id = parent_id
        call = pb.CreateMemoryRequest(defer_embedding=True, memory=memory, request_id=request.repeat_id)
        stored = (await self._api.call(self._api.memories.CreateMemory, call, request)).memory
        if parent is not None and parent.session is None:
            await relations.set_parent(self._api, request, stored.memory_id, parent_id)
        return {"memory_id": records.name(stored)}

    async def _get(self, request: ActionRequest) -> Message:
        """Read a memory, or a session in the form of a memory; the reply's access count includes this read."""
        memory_id = fields.required_text(request.fields, "memory_id")
        try:
            memory = await self._get_memory(memory_id, request)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            session = await parents.session_of(self._api, request, memory_id)
            if session is None:
                raise
            return {"memory": parents.session_record(session)}
        record = (await relations.to_records(self._api, request, [memory]))[0]
        record["access_count"] = self._access_counts.count(memory.memory_id, memory.access_count)
        record["last_accessed_at"] = datetime.now(UTC).timestamp()
        return {"memory": record}

    async def _add_relationship(self, request: ActionRequest) -> Message:
        """Relate two memories, or change the strength of their relationship."""
        relation, label = records.parse_relation(fields.required_text(request.fields, "relationship_type"))
        link = pb.Link(
            from_memory_id=fields.required_text(request.fields, "source_id"),
            to_memory_id=fields.required_text(request.fields, "target_id"),
            relation=relation,
            label=label,
            weight=records.parse_number(request.fields.get("strength"), "strength", default=1.0, minimum=0, maximum=1),
        )
        call = pb.UpsertLinkRequest(link=link, request_id=request.repeat_id)
        stored = (await self._api.call(self._api.links.UpsertLink, call, request)).link
        return {"relationship_id": stored.link_id}

    async def _get_related(self, request: ActionRequest) -> Message:
        memory_id, limit = fields.required_text(request.fields, "memory_id"), _parse_limit(request)
        relationship_type = fields.text(request.fields, "relationship_type")
        relation, label = records.parse_relation(relationship_type) if relationship_type else ("", "")
        result: list[tuple[str, pb.Link, str]] = []
        has_more = False
        for direction, direction_name in _DIRECTIONS.items():
            links, has_more_links = await relations.links_of(
                self._api, request, memory_id, direction=direction, relation=relation, limit=limit
            )
            has_more |= has_more_links
            for link in links:
                other_id = link.to_memory_id if direction_name == "outgoing" else link.from_memory_id
                result.append((other_id, link, direction_name))
        if not relation:
            result = [entry for entry in result if entry[1].relation not in records.STRUCTURAL_RELATIONS]
        elif not records.is_relation(relationship_type):
            # Only the label has this name.
            result = [entry for entry in result if entry[1].label == label]
        result, has_more = result[:limit], has_more or len(result) > limit
        memories = await relations.read_memories(
            self._api, request, list(dict.fromkeys(other_id for other_id, _, _ in result))
        )
        memory_records = await relations.to_records(self._api, request, memories)
        records_by_id = {memory.memory_id: record for memory, record in zip(memories, memory_records, strict=True)}
        related_records = [
            {
                **records_by_id[other_id],
                "relationship_type": records.relationship_type(link),
                "strength": link.weight,
                "direction": direction_name,
            }
            for other_id, link, direction_name in result
            if other_id in records_by_id
        ]
        # The original service returned outgoing relationships alone, each beside its memory.
        outgoing = [
            {
                "relationship": {
                    "type": records.relationship_type(link),
                    "strength": link.weight,
                    "created_at": records.epoch_seconds(link, "create_time"),
                },
                "memory": {name: records_by_id[other_id][name] for name in _RELATED_FIELDS},
            }
            for link, other_id in (
                (link, other_id) for other_id, link, direction_name in result if direction_name == "outgoing"
            )
            if other_id in records_by_id
        ]
        has_more |= len(related_records) < len(result)
        return {**relations.list_reply(related_records, is_truncated=has_more), "related_memories": outgoing}

    async def _update(self, request: ActionRequest) -> Message:
        """Change the named fields of a memory, or the metadata of a session."""
        memory_id, update = fields.required_text(request.fields, "memory_id"), _update_data(request)
        changes, mask = records.parse_update(memory_id, update, datetime.now(UTC))
        is_moved = "parent_id" in update
        if not mask and not is_moved:
            raise fields.invalid("update_data", "names nothing that can be changed")
        parent_id = fields.text(update, "parent_id", "update_data.parent_id")
        stored = await relations.read_memory(self._api, request, memory_id)
        if stored is None:
            await parents.update_session(self._api, request, memory_id, update)
            return {"memory_id": memory_id, "message": _UPDATED}
        parent = await parents.parent_of(self._api, request, parent_id) if parent_id else None
        is_under_session = parent is not None and parent.session is not None
        if is_under_session or (is_moved and not parent_id):
            changes.session_id = parent_id
            mask.append("session_id")
        if mask:
            # With a ttl each repeat is another request, which is harmless.
            await self._update_with_retry(
                request, stored, changes, mask, request_id=request.repeat_id if update.get("ttl") is None else ""
            )
        if is_moved:
            await relations.set_parent(self._api, request, memory_id, "" if is_under_session else parent_id)
        return {"memory_id": memory_id, "message": _UPDATED}

    async def _update_with_retry(
        self, request: ActionRequest, stored: pb.Memory, changes: pb.Memory, mask: Sequence[str], *, request_id: str
    ) -> None:
        """Update a memory; an update that depends on its state is retried after concurrent changes."""
        if not records.depends_on_stored(mask):
            await self._write_update(request, changes, mask, request_id)
            return
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            memory, names = records.merge_into(stored, changes, mask)
            try:
                # A repeated merge gives the same result, so no request_id is needed.
                await self._write_update(request, memory, names, "")
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.ABORTED or attempt == _MAX_ATTEMPTS:
                    raise
                latest = await relations.read_memory(self._api, request, stored.memory_id)
                if latest is None:
                    raise
                stored = latest
            else:
                return

    async def _write_update(
        self, request: ActionRequest, memory: pb.Memory, mask: Sequence[str], request_id: str
    ) -> None:
        call = pb.UpdateMemoryRequest(
            defer_embedding=True, memory=memory, update_mask=FieldMask(paths=mask), request_id=request_id
        )
        await self._api.call(self._api.memories.UpdateMemory, call, request)

    async def _delete(self, request: ActionRequest) -> Message:
        """Delete a memory or session; `cascade` deletes descendants first, so that a repeat continues."""
        memory_id = fields.required_text(request.fields, "memory_id")
        cascade = request.fields.get("cascade") or False
        if not isinstance(cascade, bool):
            raise fields.invalid("cascade", "is true or false")
        count = 1
        if cascade:
            memory = await relations.read_memory(self._api, request, memory_id)
            generations = await relations.descendants(self._api, request, memory.memory_id) if memory else []
            for generation in reversed(generations):
                count += await parents.delete_memories(self._api, request, generation)
        call = pb.DeleteMemoryRequest(memory_id=memory_id, request_id=request.repeat_id)
        if await self._api.find(self._api.memories.DeleteMemory, call, request) is None:
            count = await parents.delete_session(self._api, request, memory_id, cascade=cascade)
        return {"memory_id": memory_id, "deleted_count": count, "message": "Memory deleted"}

    async def _reinforce(self, request: ActionRequest) -> Message:
        """Multiply a memory's importance, up to 1."""
        memory_id = fields.required_text(request.fields, "memory_id")
        factor = records.parse_number(
            request.fields.get("reinforcement_factor"),
            "reinforcement_factor",
            default=_DEFAULT_FACTOR,
            minimum=1,
            maximum=1000,
        )
        memory = await relations.read_memory(self._api, request, memory_id)
        if memory is None:
            raise RequestError(MEMORY_NOT_FOUND, _NOT_FOUND)
        delta = min(1.0, memory.importance * factor) - memory.importance
        call = scores_pb2.ReinforceMemoryRequest(
            memory_id=memory_id,
            importance_delta=max(0.0, delta),
            confidence_delta=0.0,
            spread=0.0,
            request_id=request.repeat_id,
        )
        response = await self._api.call(self._api.memories.ReinforceMemory, call, request)
        importance = response.memories[0].importance
        return {"memory_id": records.name(memory), "importance": importance, "new_importance": importance}

    async def _create_session(self, request: ActionRequest) -> Message:
        return {"session_id": await create_session(self._api, request)}

    async def _get_memory(self, memory_id: str, request: ActionRequest) -> pb.Memory:
        response = await self._api.call(self._api.memories.GetMemory, pb.GetMemoryRequest(memory_id=memory_id), request)
        return response.memory


class _AccessCounts:
    """Access counts of the latest replies: the stored counts are seconds late, and clients count every read."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def count(self, memory_id: str, stored_count: int) -> int:
        """Count one read; return one more than the stored count and the last reply."""
        count = max(stored_count, self._counts.pop(memory_id, 0)) + 1
        self._counts[memory_id] = count
        if len(self._counts) > _MAX_COUNTED_MEMORIES:
            self._counts.popitem(last=False)
        return count


def _parse_limit(request: ActionRequest) -> int:
    return min(_MAX_LIMIT, fields.integer(request.fields.get("limit"), "limit", default=_DEFAULT_LIMIT, minimum=1))


def _update_data(request: ActionRequest) -> dict[str, Any]:
    """Return an update's values: `update_data`, an inner `payload`, or the message's own fields."""
    for name in ("update_data", "payload"):
        if request.fields.get(name) is not None:
            return fields.mapping(request.fields[name], name)
    return dict(request.fields)
