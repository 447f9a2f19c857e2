"""The Memory Orchestrator Service's actions (port 7140), answered by public RPCs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import scores_pb2
from skein_pc2 import fields
from skein_pc2.errors import MEMORY_NOT_FOUND, Rejected
from skein_pc2.memory_service import records, relations, searches
from skein_pc2.memory_service.batches import Batches
from skein_pc2.memory_service.groups import Groups
from skein_pc2.session_agent import create_session
from skein_pc2.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_pc2.api import Api
    from skein_pc2.health import Health
    from skein_pc2.messages import Message
    from skein_pc2.verbs import Ask

_DEFAULT_FACTOR = 1.2
_DEFAULT_LIMIT, _HIGHEST_LIMIT = 100, 200
# A call forgets all of them or none, so a cascade that runs out of time has done the calls before.
_FORGOTTEN_AT_ONCE = 50
_DIRECTIONS = {pb.LINK_DIRECTION_OUTGOING: "outgoing", pb.LINK_DIRECTION_INCOMING: "incoming"}


class MemoryService(Verbs):
    """Answers the actions of port 7140."""

    def __init__(self, api: Api, health: Health, *, at_once: int) -> None:
        groups, batches = Groups(api), Batches(api)
        actions = {
            "add_memory": self._add,
            "get_memory": self._get,
            "get_children": self._children,
            "add_relationship": self._relate,
            "get_related": self._related,
            "search_memory": self._search,
            "update_memory": self._update,
            "delete_memory": self._delete,
            "reinforce_memory": self._reinforce,
            "create_context_group": groups.create,
            "add_to_group": groups.add,
            "get_memories_by_group": groups.memories,
            "semantic_search": self._semantic,
            "batch_add_memories": batches.add,
            "batch_get_memories": batches.get,
            "create_session": self._session,
        }
        super().__init__(health, actions, at_once=at_once)
        self._api = api

    async def _add(self, ask: Ask) -> Message:
        """Store a memory; a message that is sent again with its request id finds the one that it stored before."""
        memory = records.draft(ask.said, f"mem-{ask.made_id()}")
        parent_id = fields.text(ask.said, "parent_id")
        if parent_id:
            await relations.must_be_there(self._api, ask, parent_id)
        request = pb.CreateMemoryRequest(defer_embedding=True, memory=memory, request_id=ask.repeat)
        stored = (await self._api.call(self._api.memories.CreateMemory, request, ask)).memory
        if parent_id:
            await relations.set_parent(self._api, ask, stored.memory_id, parent_id)
        return {"memory_id": records.name(stored)}

    async def _get(self, ask: Ask) -> Message:
        memory = await self._found(fields.needed(ask.said, "memory_id"), ask)
        return {"memory": (await relations.written(self._api, ask, [memory]))[0]}

    async def _children(self, ask: Ask) -> Message:
        links, more = await relations.links_of(
            self._api,
            ask,
            fields.needed(ask.said, "parent_id"),
            direction=pb.LINK_DIRECTION_INCOMING,
            relation=records.PARENT,
            most=_limit(ask),
        )
        memories = await relations.read(self._api, ask, [link.from_memory_id for link in links])
        return relations.listed(
            await relations.written(self._api, ask, memories), more=more or len(memories) < len(links)
        )

    async def _relate(self, ask: Ask) -> Message:
        """Relate two memories; related already, they are so as strongly as is said now."""
        relation, label = records.relation(fields.needed(ask.said, "relationship_type"))
        link = pb.Link(
            from_memory_id=fields.needed(ask.said, "source_id"),
            to_memory_id=fields.needed(ask.said, "target_id"),
            relation=relation,
            label=label,
            weight=records.number(ask.said.get("strength"), "strength", default=1.0, least=0, most=1),
        )
        request = pb.UpsertLinkRequest(link=link, request_id=ask.repeat)
        stored = (await self._api.call(self._api.links.UpsertLink, request, ask)).link
        return {"relationship_id": stored.link_id}

    async def _related(self, ask: Ask) -> Message:
        memory_id, limit = fields.needed(ask.said, "memory_id"), _limit(ask)
        wanted = fields.text(ask.said, "relationship_type")
        relation, label = records.relation(wanted) if wanted else ("", "")
        found: list[tuple[str, pb.Link, str]] = []
        is_more = False
        for direction, told in _DIRECTIONS.items():
            links, more = await relations.links_of(
                self._api, ask, memory_id, direction=direction, relation=relation, most=limit
            )
            is_more |= more
            for link in links:
                other = link.to_memory_id if told == "outgoing" else link.from_memory_id
                found.append((other, link, told))
        if not relation:
            found = [one for one in found if one[1].relation not in records.STRUCTURAL]
        elif not records.is_relation(wanted):
            # It is known by its label alone.
            found = [one for one in found if one[1].label == label]
        found, is_more = found[:limit], is_more or len(found) > limit
        memories = await relations.read(self._api, ask, list(dict.fromkeys(other for other, _, _ in found)))
        written = await relations.written(self._api, ask, memories)
        by_id = {memory.memory_id: record for memory, record in zip(memories, written, strict=True)}
        related = [
            {
                **by_id[other],
                "relationship_type": records.relationship_type(link),
                "strength": link.weight,
                "direction": told,
            }
            for other, link, told in found
            if other in by_id
        ]
        return relations.listed(related, more=is_more or len(related) < len(found))

    async def _search(self, ask: Ask) -> Message:
        """Find memories by their words; without words those of a type, newest first."""
        return relations.listed(await searches.by_words(self._api, ask))

    async def _semantic(self, ask: Ask) -> Message:
        return relations.listed(await searches.by_meaning(self._api, ask))

    async def _update(self, ask: Ask) -> Message:
        memory_id = fields.needed(ask.said, "memory_id")
        update = fields.mapping(ask.said.get("update_data"), "update_data")
        memory, mask = records.change(memory_id, update, datetime.now(UTC))
        if not mask and "parent_id" not in update:
            raise fields.invalid("update_data", "names nothing that can be changed")
        parent_id = fields.text(update, "parent_id", "update_data.parent_id")
        if parent_id:
            await relations.must_be_there(self._api, ask, parent_id)
        if mask:
            # With a ttl it is another request each time, and may be done again.
            repeat = ask.repeat if update.get("ttl") is None else ""
            request = pb.UpdateMemoryRequest(
                defer_embedding=True, memory=memory, update_mask=FieldMask(paths=mask), request_id=repeat
            )
            await self._api.call(self._api.memories.UpdateMemory, request, ask)
        if "parent_id" in update:
            await relations.set_parent(self._api, ask, memory_id, parent_id)
        return {"memory_id": memory_id}

    async def _delete(self, ask: Ask) -> Message:
        """Delete a memory, and with `cascade` all that is under it: the youngest first, so that it can be repeated."""
        memory_id = fields.needed(ask.said, "memory_id")
        cascade = ask.said.get("cascade") or False
        if not isinstance(cascade, bool):
            raise fields.invalid("cascade", "is true or false")
        count = 1
        if cascade:
            memory = await self._api.call(self._api.memories.GetMemory, pb.GetMemoryRequest(memory_id=memory_id), ask)
            generations = await relations.descendants(self._api, ask, memory.memory.memory_id)
            for generation in reversed(generations):
                count += await self._forget(generation, ask)
        request = pb.DeleteMemoryRequest(memory_id=memory_id, request_id=ask.repeat)
        await self._api.call(self._api.memories.DeleteMemory, request, ask)
        return {"memory_id": memory_id, "deleted_count": count}

    async def _forget(self, memory_ids: Sequence[str], ask: Ask) -> int:
        count = 0
        for start in range(0, len(memory_ids), _FORGOTTEN_AT_ONCE):
            portion = memory_ids[start : start + _FORGOTTEN_AT_ONCE]
            request = pb.ForgetMemoriesRequest(
                selection=pb.MemorySelection(memory_ids=portion), page_size=_FORGOTTEN_AT_ONCE
            )
            count += len((await self._api.call(self._api.memories.ForgetMemories, request, ask)).memory_ids)
        return count

    async def _reinforce(self, ask: Ask) -> Message:
        """Multiply a memory's importance, up to 1."""
        memory_id = fields.needed(ask.said, "memory_id")
        factor = records.number(
            ask.said.get("reinforcement_factor"), "reinforcement_factor", default=_DEFAULT_FACTOR, least=1, most=1000
        )
        memory = await self._found(memory_id, ask)
        delta = min(1.0, memory.importance * factor) - memory.importance
        request = scores_pb2.ReinforceRequest(
            memory_id=memory_id,
            importance_delta=max(0.0, delta),
            confidence_delta=0.0,
            spread=0.0,
            request_id=ask.repeat,
        )
        reinforced = await self._api.call(self._api.memories.Reinforce, request, ask)
        return {"memory_id": records.name(memory), "importance": reinforced.memories[0].importance}

    async def _session(self, ask: Ask) -> Message:
        return {"session_id": await create_session(self._api, ask)}

    async def _found(self, memory_id: str, ask: Ask) -> pb.Memory:
        answer = await self._api.call(self._api.memories.GetMemory, pb.GetMemoryRequest(memory_id=memory_id), ask)
        if records.is_expired(answer.memory, datetime.now(UTC)):
            text = "The memory has expired"
            raise Rejected(MEMORY_NOT_FOUND, text)
        return answer.memory


def _limit(ask: Ask) -> int:
    return min(_HIGHEST_LIMIT, fields.whole(ask.said.get("limit"), "limit", default=_DEFAULT_LIMIT, least=1))
