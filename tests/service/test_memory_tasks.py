"""Tasks and objectives: typed memories with verbs of their own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import grpc
import pytest
from fix_calls import struct
from fix_cluster import Tenant, refused
from fix_expiry import expire
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2

PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
NOT_FOUND = grpc.StatusCode.NOT_FOUND


def soon(**offset: float) -> str:
    return (datetime.now(UTC) + timedelta(**offset)).isoformat()


async def create(tenant: Tenant, content: str, type_name: str = "task", **fields: Any) -> str:
    data = struct(**fields.pop("data")) if "data" in fields else None
    memory = pb.Memory(content=content, type=type_name, data=data, **fields)
    return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))).memory.memory_id


async def tasks(tenant: Tenant, **fields: Any) -> list[str]:
    """Return the contents of all tasks that pass, in small pages."""
    request = pb.ListTasksRequest(page_size=2, **fields)
    results: list[str] = []
    while True:
        page = await tenant.memory.ListTasks(request)
        assert len(page.memories) <= 2
        results += [memory.content for memory in page.memories]
        if not page.next_page_token:
            return results
        request.page_token = page.next_page_token


async def next_actions(tenant: Tenant, **fields: Any) -> list[tuple[str, float]]:
    response = await tenant.memory.ListNextActions(pb.ListNextActionsRequest(**fields))
    return [(action.memory.content, action.score) for action in response.next_actions]


@pytest.mark.system
async def test_tasks_are_listed_by_status_objective_and_due_time(tenant: Tenant) -> None:
    goal = await create(tenant, "launch", "objective", external_id="goal")
    for number in range(5):
        await create(tenant, f"open {number}")
    await create(tenant, "of the goal", data={"objective_id": goal, "due_time": soon(days=1)})
    await create(tenant, "done", data={"status": "done", "due_time": soon(days=9)})
    await create(tenant, "no task", "note")

    assert await tasks(tenant) == ["done", "of the goal", *(f"open {n}" for n in (4, 3, 2, 1, 0))]
    assert await tasks(tenant, statuses=[pb.TASK_STATUS_DONE]) == ["done"]
    assert await tasks(tenant, objective_id=goal) == await tasks(tenant, objective_id="goal") == ["of the goal"]
    assert await tasks(tenant, due_before_time=Timestamp(seconds=int(datetime.now(UTC).timestamp()) + 200_000)) == [
        "of the goal"
    ]
    objectives = await tenant.memory.ListObjectives(pb.ListObjectivesRequest())
    assert [memory.content for memory in objectives.memories] == ["launch"]
    done = pb.ListObjectivesRequest(statuses=[pb.TASK_STATUS_DONE])
    assert not (await tenant.memory.ListObjectives(done)).memories


@pytest.mark.system
async def test_tasks_that_are_deleted_archived_expired_or_retyped_are_not_listed(tenant: Tenant) -> None:
    names = [await create(tenant, f"task {number}") for number in range(4)]
    await expire(tenant.snapshots, pb.Memory(type="task", content="expired"))
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=names[0]))
    archived = pb.Memory(memory_id=names[1], archive_time=Timestamp(seconds=1_700_000_000))
    note = pb.Memory(memory_id=names[2], type="note")
    for changed, path in ((archived, "archive_time"), (note, "type")):
        await tenant.memory.UpdateMemory(pb.UpdateMemoryRequest(memory=changed, update_mask=FieldMask(paths=[path])))

    assert await tasks(tenant) == ["task 3"]
    assert [content for content, _ in await next_actions(tenant)] == ["task 3"]
    await tenant.memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id=names[0]))
    assert await tasks(tenant) == ["task 3", "task 0"]


async def test_a_task_is_done_with_a_result_and_taken_up_again(tenant: Tenant) -> None:
    name = await create(tenant, "boil water", data={"due_time": soon(days=1)})

    done = (await tenant.memory.CompleteTask(pb.CompleteTaskRequest(memory_id=name, result="it whistled"))).memory
    response = await tenant.recall.Recall(recall_pb2.RecallRequest(query="whistled"))
    again = (await tenant.memory.ReopenTask(pb.ReopenTaskRequest(memory_id=name))).memory
    started = (
        await tenant.memory.UpdateTaskStatus(
            pb.UpdateTaskStatusRequest(memory_id=name, status=pb.TASK_STATUS_IN_PROGRESS)
        )
    ).memory

    assert (done.data["status"], done.data["result"]) == ("done", "it whistled")
    completed = datetime.fromisoformat(str(done.data["complete_time"]))
    assert abs(completed - datetime.now(UTC)) < timedelta(minutes=1)
    assert done.data["due_time"]
    assert [hit.item_id for hit in response.hits] == [name]
    assert dict(again.data).keys() == {"status", "due_time"}
    assert [memory.revision for memory in (done, again, started)] == [2, 3, 4]
    assert await tasks(tenant, statuses=[pb.TASK_STATUS_IN_PROGRESS]) == ["boil water"]


async def test_a_verb_repeated_has_one_effect(tenant: Tenant) -> None:
    name = await create(tenant, "once")
    request = pb.CompleteTaskRequest(memory_id=name, result="r", request_id="done")

    first = await tenant.memory.CompleteTask(request)
    await tenant.memory.ReopenTask(pb.ReopenTaskRequest(memory_id=name))
    again = await tenant.memory.CompleteTask(request)
    unchanged = await tenant.memory.ReopenTask(pb.ReopenTaskRequest(memory_id=name))

    assert again == first
    assert unchanged.memory.revision == 3
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED"):
        await tenant.memory.CompleteTask(pb.CompleteTaskRequest(memory_id=name, result="other", request_id="done"))


@pytest.mark.system
async def test_verbs_refuse_what_is_stale_unknown_or_no_task(tenant: Tenant, other_tenant: Tenant) -> None:
    task, note = await create(tenant, "t"), await create(tenant, "n", "note")
    goal = await create(tenant, "g", "objective")
    theirs = await create(other_tenant, "theirs", "objective")
    memory = tenant.memory

    for wrong in (note, goal):
        with refused(PRECONDITION, "NOT_A_TASK"):
            await memory.SetObjective(pb.SetObjectiveRequest(memory_id=wrong, objective_id=goal))
    with refused(PRECONDITION, "NOT_A_TASK"):
        await memory.CompleteTask(pb.CompleteTaskRequest(memory_id=note))
    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await memory.ReopenTask(pb.ReopenTaskRequest(memory_id=task, revision=7))
    for unknown in (str(uuid4()), theirs):
        with refused(NOT_FOUND, "MEMORY_NOT_FOUND"):
            await memory.CompleteTask(pb.CompleteTaskRequest(memory_id=unknown))
    for unknown in (str(uuid4()), theirs, task, note, "nothing"):
        with refused(NOT_FOUND, "OBJECTIVE_NOT_FOUND"):
            await memory.SetObjective(pb.SetObjectiveRequest(memory_id=task, objective_id=unknown))
        with refused(NOT_FOUND, "OBJECTIVE_NOT_FOUND"):
            await memory.ListTasks(pb.ListTasksRequest(objective_id=unknown))
        with refused(NOT_FOUND, "OBJECTIVE_NOT_FOUND"):
            await memory.ListNextActions(pb.ListNextActionsRequest(objective_id=unknown))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await memory.UpdateTaskStatus(pb.UpdateTaskStatusRequest(memory_id=task))


async def test_a_task_is_put_under_an_objective_and_taken_out(tenant: Tenant) -> None:
    task, goal = await create(tenant, "t"), await create(tenant, "g", "objective", external_id="goal")

    under = await tenant.memory.SetObjective(pb.SetObjectiveRequest(memory_id=task, objective_id="goal"))
    listed = await tasks(tenant, objective_id=goal)
    out = await tenant.memory.SetObjective(pb.SetObjectiveRequest(memory_id=task))

    assert under.memory.data["objective_id"] == goal
    assert listed == ["t"]
    assert "objective_id" not in out.memory.data
    assert await tasks(tenant, objective_id=goal) == []


@pytest.mark.parametrize(
    "data",
    [{"status": "later"}, {"due_time": "tomorrow"}, {"objective_id": "a name"}, {"priority": 3}, {"status": None}],
)
async def test_a_task_s_data_is_checked(tenant: Tenant, data: dict[str, Any]) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "MEMORY_DATA_INVALID"):
        await create(tenant, "t", data=data)


@pytest.mark.system
async def test_next_actions_are_scored_by_importance_freshness_and_urgency(tenant: Tenant) -> None:
    goal = await create(tenant, "g", "objective", importance=1.0)
    await create(tenant, "minor", importance=0.1)
    await create(tenant, "major", importance=0.9)
    await create(tenant, "major and due", importance=0.9, data={"due_time": soon(hours=2)})
    await create(tenant, "due this week", importance=0.1, data={"due_time": soon(days=5), "objective_id": goal})
    await create(tenant, "overdue", importance=0.1, data={"due_time": soon(days=-5), "status": "in_progress"})
    await create(tenant, "done", importance=1.0, data={"status": "done"})

    actual_next_actions = await next_actions(tenant)

    assert [content for content, _ in actual_next_actions] == [
        "major and due",
        "major",
        "overdue",
        "due this week",
        "minor",
    ]
    assert [score for _, score in actual_next_actions] == pytest.approx([0.932, 0.832, 0.388, 0.328, 0.288])
    assert [content for content, _ in await next_actions(tenant, limit=2)] == ["major and due", "major"]
    assert [content for content, _ in await next_actions(tenant, objective_id=goal)] == ["due this week"]
    paged: list[str] = []
    request = pb.ListNextActionsRequest(page_size=2)
    while True:
        page = await tenant.memory.ListNextActions(request)
        paged += [action.memory.content for action in page.next_actions]
        if not page.next_page_token:
            break
        assert len(page.next_actions) == 2
        request.page_token = page.next_page_token
    assert paged == [content for content, _ in actual_next_actions]
    # A limit is the most of all pages.
    assert not (await tenant.memory.ListNextActions(pb.ListNextActionsRequest(limit=2))).next_page_token


async def test_two_callers_who_complete_a_task_at_once_leave_it_done(tenant: Tenant) -> None:
    name = await create(tenant, "t")

    answers = await asyncio.gather(
        *(tenant.memory.CompleteTask(pb.CompleteTaskRequest(memory_id=name)) for _ in range(4))
    )

    assert {answer.memory.data["status"] for answer in answers} == {"done"}
    # Later callers found it done, and left it as it was.
    assert {answer.memory.revision for answer in answers} == {2}
