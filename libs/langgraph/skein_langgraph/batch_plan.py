"""Plans of a batch of operations: steps of calls that can run at once. Makes no call itself."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from langgraph.store.base import Item, ListNamespacesOp, SearchItem, SearchOp

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_client.errors import AlreadyExists, NotFound, SkeinError
from skein_langgraph import items, search_filters
from skein_langgraph.items import ItemDraft
from skein_langgraph.namespaces import Namespace, StoreRoot
from skein_langgraph.search_filters import MAX_LOOKED_AT, SearchLimitExceeded


@dataclass(frozen=True, slots=True)
class RpcStep:
    """One call: "memories.GetMemory" and its request."""

    method: str
    request: Message


Answer = Any
Result = TypeVar("Result")
# A plan yields calls that may run at once, receives their responses or SkeinErrors, and returns its result.
Plan = Generator["list[RpcStep]", "list[Answer]", Result]

_MAX_GOT = 1000
_MAX_CREATED = 500
_MAX_CREATED_BYTES = 2 * 1024 * 1024
_MAX_FORGOTTEN = 200
_MAX_PAGE = 1000
MAX_HITS = 100
# Attempts of a write with concurrent writes of the same items.
_ATTEMPTS = 6


def run_together(plans: Sequence[Plan[Any]]) -> Plan[list[Any]]:
    """Run plans in parallel: the next step of each is one step of all."""
    results: list[Any] = [None] * len(plans)
    waiting: dict[int, list[RpcStep]] = {}

    def advance(at: int, answers: list[Answer] | None) -> None:
        try:
            waiting[at] = next(plans[at]) if answers is None else plans[at].send(answers)
        except StopIteration as done:
            waiting.pop(at, None)
            results[at] = done.value

    for at in range(len(plans)):
        advance(at, None)
    while waiting:
        step = dict(waiting)
        answers = iter((yield [call for calls in step.values() for call in calls]))
        for at, calls in step.items():
            advance(at, [next(answers) for _ in calls])
    return results


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchPlanner:
    """The plans of one store."""

    root: StoreRoot
    # The type of its memories.
    kind: str

    def get(self, wanted: Sequence[tuple[Namespace, str, bool]], now: datetime) -> Plan[list[Item | None]]:
        """Read items by namespace, key, and whether to refresh their time to live."""
        ids = [self.root.item_id(namespace, key) for namespace, key, _ in wanted]
        stored = yield from self._read(ids)
        alive = {
            name: memory
            for name, memory in stored.items()
            if not items.is_expired(memory, now) and items.is_item(memory, self.root)
        }
        anew = {name for name, (_, _, refresh) in zip(ids, wanted, strict=True) if refresh}
        yield from self._refresh([memory for name, memory in alive.items() if name in anew], now)
        return [items.to_item(alive[name], self.root) if name in alive else None for name in ids]

    def search(self, op: SearchOp, now: datetime) -> Plan[list[SearchItem]]:
        """Find items by meaning, or newest first. Raises SearchLimitExceeded."""
        if op.limit <= 0:
            return []
        filter_ = memory_pb2.MemoryFilter(
            tags_all=[self.root.prefix_tag(op.namespace_prefix)], where=search_filters.to_filter(op.filter)
        )
        if op.query:
            found = yield from self._recall(op, filter_)
        else:
            found = yield from self._list(op, filter_)
        if op.refresh_ttl:
            yield from self._refresh([memory for memory, _ in found], now)
        return [items.search_item(memory, self.root, score) for memory, score in found]

    def namespaces(self, op: ListNamespacesOp) -> Plan[list[Namespace]]:
        """List namespaces in order. Raises SearchLimitExceeded."""
        conditions = op.match_conditions or ()
        tag = self.root.registry_tag(search_filters.common_prefix(conditions))
        found: set[Namespace] = set()
        looked_at = 0
        pages = self._pages(memory_pb2.MemoryFilter(tags_all=[tag]), _MAX_PAGE)
        memories = yield from _next(pages)
        while memories is not None:
            looked_at += len(memories)
            if looked_at > MAX_LOOKED_AT:
                raise SearchLimitExceeded(f"There are more than {MAX_LOOKED_AT} namespaces here: name a longer prefix.")
            there = (items.namespace_of(memory, self.root) for memory in memories)
            found |= {
                one[: op.max_depth]
                for one in there
                if one is not None and search_filters.namespace_matches(one, conditions)
            }
            memories = yield from _next(pages)
        return sorted(found)[op.offset : op.offset + op.limit]

    def put(self, drafts: Sequence[ItemDraft], now: datetime) -> Plan[None]:
        """Write items, new ones in one call, and register their namespaces."""
        remaining = {
            memory.external_id: memory for memory in (draft.memory(self.root, self.kind, now) for draft in drafts)
        }
        for namespace in dict.fromkeys(draft.namespace for draft in drafts):
            memory = items.namespace_memory(self.root, self.kind, namespace)
            remaining[memory.external_id] = memory
        spaces = {self.root.namespace_id(draft.namespace) for draft in drafts}
        taken: set[str] = set()
        last_error: SkeinError | None = None
        for _ in range(_ATTEMPTS):
            stored = yield from self._read(list(remaining))
            over = [name for name, memory in stored.items() if items.is_expired(memory, now)]
            # A taken id that cannot be read belongs to a memory that another client deleted.
            yield from self._purge([*over, *(taken - set(stored))])
            taken = set()
            changes = {name: memory for name, memory in stored.items() if name not in over}
            remaining = {
                name: memory for name, memory in remaining.items() if name not in spaces or name not in changes
            }
            batches = list(_batches([memory for name, memory in remaining.items() if name not in changes]))
            updates = [name for name in remaining if name in changes]
            calls = [
                RpcStep("memories.BatchCreateMemories", memory_pb2.BatchCreateMemoriesRequest(memories=batch))
                for batch in batches
            ] + [
                _update(remaining[name], changes[name].memory_id, self._updated_fields(changes[name], remaining[name]))
                for name in updates
            ]
            answers = (yield calls) if calls else []
            retried: dict[str, memory_pb2.Memory] = {}
            groups = [*batches, *([remaining[name]] for name in updates)]
            for memories, answer in zip(groups, answers, strict=True):
                if not isinstance(answer, SkeinError):
                    continue
                if not isinstance(answer, AlreadyExists | NotFound):
                    raise answer
                last_error = answer
                retried |= {memory.external_id: memory for memory in memories}
                if isinstance(answer, AlreadyExists):
                    taken.add(memories[int(answer.metadata.get("index", 0))].external_id)
            if not retried:
                return
            remaining = retried
        if last_error is not None:
            raise last_error

    def _updated_fields(self, stored: memory_pb2.Memory, new: memory_pb2.Memory) -> Sequence[str]:
        """Return the paths of an update; a memory of another client with the item's id also needs the tags.

        A store that names no person leaves the one that another store named.
        """
        fields = (*items.FIELDS, "subject_id") if new.subject_id else items.FIELDS
        return fields if items.is_item(stored, self.root) else (*fields, "tags")

    def delete(self, places: Sequence[tuple[Namespace, str]]) -> Plan[None]:
        """Purge items, and the registration of namespaces that are empty then."""
        yield from self._purge([self.root.item_id(namespace, key) for namespace, key in places])
        namespaces = list(dict.fromkeys(namespace for namespace, _ in places))
        empty = yield from self._empty(namespaces)
        if not empty:
            return
        yield from self._purge([self.root.namespace_id(namespace) for namespace in empty])
        # Another client may have put an item there meanwhile.
        still_empty = yield from self._empty(empty)
        back = [
            items.namespace_memory(self.root, self.kind, namespace)
            for namespace in empty
            if namespace not in still_empty
        ]
        for memory in back:
            (answer,) = yield [RpcStep("memories.CreateMemory", memory_pb2.CreateMemoryRequest(memory=memory))]
            if not isinstance(answer, AlreadyExists):
                _id_conflict(answer)

    def _empty(self, namespaces: Sequence[Namespace]) -> Plan[list[Namespace]]:
        """Return the namespaces without items."""
        filters = [memory_pb2.MemoryFilter(tags_all=[self.root.own_tag(namespace)]) for namespace in namespaces]
        plans = [_next(self._pages(filter_, 1)) for filter_ in filters]
        pages = yield from run_together(plans)
        return [namespace for namespace, page in zip(namespaces, pages, strict=True) if not page]

    def _read(self, ids: Sequence[str]) -> Plan[dict[str, memory_pb2.Memory]]:
        """Read memories by external id; missing ones are left out."""
        remaining = list(dict.fromkeys(ids))
        result: dict[str, memory_pb2.Memory] = {}
        while remaining:
            parts = [remaining[at : at + _MAX_GOT] for at in range(0, len(remaining), _MAX_GOT)]
            answers = yield [
                RpcStep("memories.BatchGetMemories", memory_pb2.BatchGetMemoriesRequest(memory_ids=part))
                for part in parts
            ]
            remaining = []
            for answer in map(_id_conflict, answers):
                result.update((memory.external_id, memory) for memory in answer.memories)
                remaining.extend(answer.unread_ids)
        return result

    def _refresh(self, memories: Iterable[memory_pb2.Memory], now: datetime) -> Plan[None]:
        changed = [made for memory in memories if (made := items.ttl_update(memory, self.root, now)) is not None]
        if changed:
            # A concurrent write has refreshed the time as well.
            yield [_update(memory, memory.memory_id, ("expire_time", "metadata")) for memory in changed]

    def _purge(self, ids: Iterable[str]) -> Plan[None]:
        names = list(dict.fromkeys(ids))
        requests = [
            memory_pb2.DeleteMemoriesRequest(
                selection=memory_pb2.MemorySelection(memory_ids=names[at : at + _MAX_FORGOTTEN]),
                purge=True,
                page_size=_MAX_FORGOTTEN,
            )
            for at in range(0, len(names), _MAX_FORGOTTEN)
        ]
        while requests:
            answers = yield [RpcStep("memories.DeleteMemories", request) for request in requests]
            more = []
            for request, answer in zip(requests, map(_id_conflict, answers), strict=True):
                if answer.next_page_token:
                    request.page_token, request.request_id = answer.next_page_token, ""
                    more.append(request)
            requests = more

    def _recall(
        self, op: SearchOp, filter_: memory_pb2.MemoryFilter
    ) -> Plan[list[tuple[memory_pb2.Memory, float | None]]]:
        wanted = op.offset + op.limit
        if wanted > MAX_HITS:
            raise SearchLimitExceeded(
                f"A search by meaning finds up to {MAX_HITS} items: offset and limit ask for {wanted}."
            )
        request = gateway_pb2.RecallRequest(
            query=op.query,
            limit=MAX_HITS if op.filter else wanted,
            branches=[gateway_pb2.BRANCH_MEMORIES],
            filter=filter_,
            show_superseded=True,
            show_duplicates=True,
            min_relevance=0,
        )
        (answer,) = yield [RpcStep("gateway.Recall", request)]
        hits = [hit for hit in _id_conflict(answer).hits if self._passes(hit.memory, op)]
        return [(hit.memory, hit.score) for hit in hits[op.offset : wanted]]

    def _list(
        self, op: SearchOp, filter_: memory_pb2.MemoryFilter
    ) -> Plan[list[tuple[memory_pb2.Memory, float | None]]]:
        wanted = op.offset + op.limit
        found: list[memory_pb2.Memory] = []
        looked_at = 0
        pages = self._pages(filter_, _MAX_PAGE if op.filter else min(wanted, _MAX_PAGE))
        memories = yield from _next(pages)
        while memories is not None and len(found) < wanted:
            looked_at += len(memories)
            if looked_at > MAX_LOOKED_AT:
                raise SearchLimitExceeded(
                    f"This search would look at more than {MAX_LOOKED_AT} items: name a longer prefix."
                )
            found.extend(memory for memory in memories if self._passes(memory, op))
            memories = (yield from _next(pages)) if len(found) < wanted else None
        return [(memory, None) for memory in found[op.offset : wanted]]

    def _passes(self, memory: memory_pb2.Memory, op: SearchOp) -> bool:
        if not items.is_item(memory, self.root):
            return False
        return not op.filter or search_filters.matches(items.to_item(memory, self.root).value, op.filter)

    def _pages(self, filter_: memory_pb2.MemoryFilter, size: int) -> Iterator[Plan[list[memory_pb2.Memory]]]:
        """Yield a plan for each page, newest first; run each before the next."""
        request = memory_pb2.ListMemoriesRequest(filter=filter_, page_size=size)
        ended = False

        def page() -> Plan[list[memory_pb2.Memory]]:
            nonlocal ended
            while True:
                (answer,) = yield [RpcStep("memories.ListMemories", request)]
                listed = _id_conflict(answer)
                request.page_token = listed.next_page_token
                ended = not listed.next_page_token
                # An empty page may not be the last.
                if listed.memories or ended:
                    return list(listed.memories)

        while not ended:
            yield page()


def _next(pages: Iterator[Plan[Result]]) -> Plan[Result | None]:
    page = next(pages, None)
    return None if page is None else (yield from page)


def _id_conflict(answer: Answer) -> Any:
    if isinstance(answer, SkeinError):
        raise answer
    return answer


def _update(memory: memory_pb2.Memory, memory_id: str, fields: Sequence[str]) -> RpcStep:
    changed = memory_pb2.Memory()
    changed.CopyFrom(memory)
    changed.memory_id = memory_id
    request = memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=FieldMask(paths=fields))
    return RpcStep("memories.UpdateMemory", request)


def _batches(memories: Sequence[memory_pb2.Memory]) -> Iterator[list[memory_pb2.Memory]]:
    """Yield batches within the limits of one call and its reply."""
    batch: list[memory_pb2.Memory] = []
    size = 0
    for memory in memories:
        size += memory.ByteSize()
        if batch and (len(batch) == _MAX_CREATED or size > _MAX_CREATED_BYTES):
            yield batch
            batch, size = [], memory.ByteSize()
        batch.append(memory)
    if batch:
        yield batch
