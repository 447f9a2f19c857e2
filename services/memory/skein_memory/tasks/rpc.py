"""Handlers of the RPCs for tasks, objectives and levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from google.protobuf.message import Message

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_kit.rpc.pagination import paginate, read_id, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import read_time
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_memory.memories import convert as memories_convert
from skein_memory.memories import memory_type
from skein_memory.memories.memory_type import DONE, OPEN
from skein_memory.memories.model import Memory, demote, promote
from skein_memory.memories.store import MemoryStore
from skein_memory.paging import PageBuilder
from skein_memory.tasks import model as tasks
from skein_memory.tasks.store import TaskFilter, TaskStore

Response = TypeVar("Response", bound=Message)

# Names as the database has them, by number; an unspecified one has none.
_STATUSES = {number: name.removeprefix("TASK_STATUS_").lower() for name, number in pb.TaskStatus.items() if number}
_DEFAULT_ACTIONS = 10
_MAX_ACTIONS = 100


class TaskHandlers:
    """Tasks and objectives, and the levels of memories."""

    def __init__(
        self, store: TaskStore, idempotency: IdempotencyStore, *, memories: MemoryStore, embeddings: EmbeddingClient
    ) -> None:
        """Documents of changed tasks get embeddings."""
        self._store = store
        self._idempotency = idempotency
        self._memories = memories
        self._embeddings = embeddings

    async def PromoteMemory(self, request: pb.PromoteMemoryRequest, context: Context) -> pb.PromoteMemoryResponse:
        caller, at = caller_of(context), now()

        def change(memory: Memory) -> Memory:
            memory.check_visible(at)
            memory.check_revision(request.revision)
            return promote(memory, at=at, by=caller.principal)

        return await self._change(context, request, change, pb.PromoteMemoryResponse, at=at, event="memory_promoted")

    async def DemoteMemory(self, request: pb.DemoteMemoryRequest, context: Context) -> pb.DemoteMemoryResponse:
        caller, at = caller_of(context), now()

        def change(memory: Memory) -> Memory:
            memory.check_visible(at)
            memory.check_revision(request.revision)
            return demote(memory, at=at, by=caller.principal)

        return await self._change(context, request, change, pb.DemoteMemoryResponse, at=at, event="memory_demoted")

    async def ListTasks(self, request: pb.ListTasksRequest, context: Context) -> pb.ListTasksResponse:
        task_filter = TaskFilter(
            kind=memory_type.TASK,
            statuses=_statuses(request.statuses),
            objective=request.objective_id or None,
            due_before_time=read_time(request, "due_before_time"),
        )
        memories, token = await self._page(caller_of(context).require_tenant(), request, task_filter)
        return pb.ListTasksResponse(memories=memories, next_page_token=token)

    async def ListObjectives(self, request: pb.ListObjectivesRequest, context: Context) -> pb.ListObjectivesResponse:
        task_filter = TaskFilter(kind=memory_type.OBJECTIVE, statuses=_statuses(request.statuses))
        memories, token = await self._page(caller_of(context).require_tenant(), request, task_filter)
        return pb.ListObjectivesResponse(memories=memories, next_page_token=token)

    async def UpdateTaskStatus(
        self, request: pb.UpdateTaskStatusRequest, context: Context
    ) -> pb.UpdateTaskStatusResponse:
        caller, at = caller_of(context), now()

        def change(memory: Memory) -> Memory:
            memory.check_revision(request.revision)
            return tasks.with_status(memory, _STATUSES[request.status], at=at, by=caller.principal)

        return await self._change(context, request, change, pb.UpdateTaskStatusResponse, at=at)

    async def CompleteTask(self, request: pb.CompleteTaskRequest, context: Context) -> pb.CompleteTaskResponse:
        caller, at = caller_of(context), now()

        def change(memory: Memory) -> Memory:
            memory.check_revision(request.revision)
            return tasks.with_status(memory, DONE, at=at, by=caller.principal, result=request.result)

        return await self._change(context, request, change, pb.CompleteTaskResponse, at=at)

    async def ReopenTask(self, request: pb.ReopenTaskRequest, context: Context) -> pb.ReopenTaskResponse:
        caller, at = caller_of(context), now()

        def change(memory: Memory) -> Memory:
            memory.check_revision(request.revision)
            return tasks.with_status(memory, OPEN, at=at, by=caller.principal)

        return await self._change(context, request, change, pb.ReopenTaskResponse, at=at)

    async def SetObjective(self, request: pb.SetObjectiveRequest, context: Context) -> pb.SetObjectiveResponse:
        caller, at = caller_of(context), now()

        async with self._idempotency.begin(caller, request) as write:
            objective_id = await self._store.find_objective(
                write.tx, caller.require_tenant(), request.objective_id, at=at
            )
            before = await self._memories.lock_memory(write.tx, caller.require_tenant(), request.memory_id)
            before.check_revision(request.revision)
            after = tasks.with_objective(before, objective_id, at=at, by=caller.principal)
            memory, _ = await self._memories.update_memory(write.tx, caller.require_tenant(), before, after, at=at)
            return await write.save(pb.SetObjectiveResponse(memory=memories_convert.memory(memory)))

    async def ListNextActions(self, request: pb.ListNextActionsRequest, context: Context) -> pb.ListNextActionsResponse:
        tenant_id = caller_of(context).require_tenant()
        size, limit = request.page_size or request.limit or _DEFAULT_ACTIONS, request.limit or _MAX_ACTIONS
        # One more shows whether there is a next page.
        count = limit if request.page_token else min(limit, size + 1)
        next_tasks = await self._store.list_next(tenant_id, request.objective_id or None, count=count, at=now())
        actions = [pb.NextAction(memory=memories_convert.memory(memory), score=score) for memory, score in next_tasks]
        page, token = paginate(actions, lambda action: action.memory.memory_id, request, tenant_id, size=size)
        return pb.ListNextActionsResponse(next_actions=page, next_page_token=token)

    async def _change(
        self,
        context: Context,
        request: Message,
        change: Callable[[Memory], Memory],
        response: type[Response],
        *,
        at: datetime,
        event: str = "memory_updated",
    ) -> Response:
        """Change the memory that a request names, once, and reply with it."""
        caller = caller_of(context)
        name: str = request.memory_id  # type: ignore[attr-defined]  # Each of these requests has the field.

        async with self._idempotency.begin(caller, request) as write:
            before = await self._memories.lock_memory(write.tx, caller.require_tenant(), name)
            memory, documents = await self._memories.update_memory(
                write.tx, caller.require_tenant(), before, change(before), at=at, event=event
            )
            reply = await write.save(response(memory=memories_convert.memory(memory)))
        await self._embeddings.request_embeddings(documents, remaining=context.time_remaining())
        return reply

    async def _page(
        self, tenant_id: UUID, request: pb.ListTasksRequest | pb.ListObjectivesRequest, task_filter: TaskFilter
    ) -> tuple[list[pb.Memory], str]:
        """Read a page; expired tasks are passed over, so that one may hold fewer than were requested."""
        size, at, last = resolve_page_size(request.page_size), now(), read_id(tenant_id, request)
        builder, has_more = PageBuilder[pb.Memory](), True
        while has_more and len(builder.items) < size and not builder.is_full:
            count = builder.next_batch_size(size - len(builder.items))
            memories = await self._store.list_tasks(tenant_id, task_filter, before=last, count=count + 1, at=at)
            has_more = len(memories) > count
            for memory in memories[:count]:
                if not memory.is_expired(at) and not builder.add([memories_convert.memory(memory)]):
                    has_more = True
                    break
                last = memory.memory_id
        return builder.items, write_token([str(last)], tenant_id, request) if has_more else ""


def _statuses(numbers: Iterable[int]) -> list[str] | None:
    return [_STATUSES[status] for status in numbers] or None
