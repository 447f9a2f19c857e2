from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_catalogue import over
from langgraph.store.base import SearchOp

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_client import AlreadyExists, NotFound, Unavailable
from skein_langgraph import items, namespaces, search_filters
from skein_langgraph.batch_plan import BatchPlanner, RpcStep, run_together
from skein_langgraph.items import ItemDraft

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ROOT = namespaces.StoreRoot("langgraph")
PLANNER = BatchPlanner(root=ROOT, kind="langgraph")


def draft(key: str, namespace: tuple[str, ...] = ("many",), **options: Any) -> ItemDraft:
    return ItemDraft(namespace=namespace, key=key, value={"n": 1}, index=False, **options)


def nothing_there() -> list[Any]:
    return [memory_pb2.BatchGetMemoriesResponse()]


def result_of(plan: Any, *answers: list[Any]) -> Any:
    """Run a plan to its end on these answers."""
    try:
        next(plan)
        for answer in answers:
            plan.send(answer)
    except StopIteration as done:
        return done.value
    raise AssertionError("the plan asks for more")


def test_many_new_items_take_one_question_and_one_step_of_writes() -> None:
    plan = PLANNER.put([draft(str(n)) for n in range(600)], NOW)

    step = next(plan)
    written = plan.send(nothing_there())

    assert [call.method for call in step] == ["memories.BatchGetMemories"]
    assert [len(call.request.memories) for call in written] == [500, 101]  # type: ignore[attr-defined]
    with pytest.raises(StopIteration):
        plan.send([memory_pb2.BatchCreateMemoriesResponse()] * 2)


def test_large_items_are_sent_in_portions_that_an_answer_can_hold() -> None:
    drafts = [ItemDraft(namespace=("a",), key=str(n), value={"t": "x" * 200_000}, index=False) for n in range(25)]
    plan = PLANNER.put(drafts, NOW)
    next(plan)

    written = plan.send(nothing_there())

    assert len(written) > 2
    assert all(call.request.ByteSize() < 3 * 1024 * 1024 for call in written)


def test_many_reads_are_one_call() -> None:
    plan = PLANNER.get([(("a",), str(n % 300), True) for n in range(900)], NOW)

    (call,) = next(plan)

    assert len(call.request.memory_ids) == 300  # type: ignore[attr-defined]


def test_items_without_room_in_an_answer_are_requested_again() -> None:
    plan = PLANNER.get([(("a",), "k", False), (("a",), "l", False)], NOW)
    next(plan)
    first = memory_pb2.BatchGetMemoriesResponse(
        memories=[draft("k", ("a",)).memory(ROOT, "langgraph", NOW)], unread_ids=["langgraph:a..l"]
    )

    (again,) = plan.send([first])

    assert list(again.request.memory_ids) == ["langgraph:a..l"]  # type: ignore[attr-defined]
    assert [item and item.key for item in result_of_sent(plan, nothing_there())] == ["k", None]


def result_of_sent(plan: Any, answer: list[Any]) -> Any:
    with pytest.raises(StopIteration) as done:
        plan.send(answer)
    return done.value.value


def test_plans_side_by_side_ask_at_once() -> None:
    plan = run_together([PLANNER.get([((name,), "k", False)], NOW) for name in ("a", "b", "c")])

    step = next(plan)

    assert len(step) == 3
    assert result_of_sent(plan, nothing_there() * 3) == [[None], [None], [None]]


def test_no_plans_ask_nothing() -> None:
    assert result_of(run_together([])) == []


def test_an_item_that_came_meanwhile_is_changed_instead() -> None:
    plan = PLANNER.put([draft("k")], NOW)
    next(plan)
    plan.send(nothing_there())
    theirs = draft("k").memory(ROOT, "langgraph", NOW)
    theirs.memory_id = "theirs"

    (reply,) = plan.send([AlreadyExists("taken", metadata={"index": "0"})])
    calls = plan.send([memory_pb2.BatchGetMemoriesResponse(memories=[theirs])])

    assert reply.method == "memories.BatchGetMemories"
    assert [call.method for call in calls] == ["memories.BatchCreateMemories", "memories.UpdateMemory"]
    assert calls[1].request.memory.memory_id == "theirs"  # type: ignore[attr-defined]


def test_an_id_that_is_taken_and_unreadable_is_freed_and_no_other() -> None:
    plan = PLANNER.put([draft("k"), draft("l")], NOW)
    next(plan)
    plan.send(nothing_there())
    plan.send([AlreadyExists("taken", metadata={"index": "1"})])

    (freed,) = plan.send(nothing_there())

    assert freed.method == "memories.DeleteMemories"
    assert list(freed.request.selection.memory_ids) == ["langgraph:many..l"]  # type: ignore[attr-defined]


def test_others_who_always_come_first_end_in_their_refusal() -> None:
    def answer(call: RpcStep) -> Any:
        if call.method == "memories.BatchCreateMemories":
            return AlreadyExists("taken")
        return memory_pb2.BatchGetMemoriesResponse() if "Get" in call.method else memory_pb2.DeleteMemoriesResponse()

    def go_on() -> None:
        plan = PLANNER.put([draft("k")], NOW)
        calls = next(plan)
        for _ in range(100):
            calls = plan.send([answer(call) for call in calls])

    with pytest.raises(AlreadyExists):
        go_on()


@over("ttl", [0, -1, float("nan"), float("inf"), 1e9])
def test_a_time_to_live_that_is_none_is_refused(ttl: float) -> None:
    with pytest.raises(ValueError, match="minutes"):
        draft("k", ttl=ttl)


def test_other_errors_are_raised() -> None:
    plan = PLANNER.put([draft("k")], NOW)
    next(plan)
    plan.send(nothing_there())

    with pytest.raises(Unavailable):
        plan.send([Unavailable("down")])


def test_a_time_to_live_is_set_anew_when_some_of_it_is_over() -> None:
    memory = draft("k", ttl=10).memory(ROOT, "langgraph", NOW)
    memory.memory_id, memory.revision = "m", 3
    memory.update_time.FromDatetime(NOW)

    soon = items.ttl_update(memory, ROOT, NOW + timedelta(seconds=59))
    later = items.ttl_update(memory, ROOT, NOW + timedelta(minutes=5))

    assert soon is None
    assert later is not None
    assert later.expire_time.ToDatetime(tzinfo=UTC) == NOW + timedelta(minutes=15)
    assert later.revision == 3
    assert items.ttl_update(draft("k").memory(ROOT, "langgraph", NOW), ROOT, NOW) is None


def test_a_refresh_that_comes_too_late_does_no_harm() -> None:
    memory = draft("k", ttl=10).memory(ROOT, "langgraph", NOW)
    memory.update_time.FromDatetime(NOW)
    plan = PLANNER.get([(("many",), "k", True)], NOW + timedelta(minutes=5))
    next(plan)

    (refresh,) = plan.send([memory_pb2.BatchGetMemoriesResponse(memories=[memory])])

    assert list(refresh.request.update_mask.paths) == ["expire_time", "metadata"]  # type: ignore[attr-defined]
    assert result_of_sent(plan, [NotFound("gone")])[0].key == "k"


def test_a_search_asks_for_no_more_than_it_needs() -> None:
    listing = next(PLANNER.search(SearchOp(("a",), limit=7, offset=3), NOW))
    filtered = next(PLANNER.search(SearchOp(("a",), filter={"n": {"$gt": 1}}, limit=7), NOW))
    recall = next(PLANNER.search(SearchOp(("a",), query="tea", limit=7, offset=3), NOW))

    assert listing[0].request.page_size == 10  # type: ignore[attr-defined]
    assert filtered[0].request.page_size == 1000  # type: ignore[attr-defined]
    request = recall[0].request
    assert isinstance(request, gateway_pb2.RecallRequest)
    assert (request.limit, list(request.filter.tags_all)) == (10, ["langgraph:a"])
    assert list(request.branches) == [gateway_pb2.BRANCH_MEMORIES]


@over(
    ("filter_", "condition"),
    [
        (None, ""),
        ({"color": "red"}, 'data.color = "red"'),
        ({"color": {"$eq": 'r"ed'}}, 'data.color = "r\\"ed"'),
        ({"maker": {"name": "Ada"}}, 'data.maker.name = "Ada"'),
        ({"a": "x", "b": "y"}, 'data.a = "x" AND data.b = "y"'),
        # What Skein would not answer as Python does is left to Python.
        ({"n": 1}, ""),
        ({"yes": True}, ""),
        ({"none": None}, ""),
        ({"empty": ""}, ""),
        ({"color": {"$ne": "red"}}, ""),
        ({"color": {"$gt": "red"}}, ""),
        ({"list": ["a"]}, ""),
        ({"o p": "x"}, ""),
        ({"o.p": "x"}, ""),
        ({"long": "x" * 201}, ""),
        ({"line": "a\nb"}, ""),
    ],
)
def test_conditions_that_indexes_can_answer_are_sent_to_them(filter_: dict[str, Any] | None, condition: str) -> None:
    assert search_filters.to_filter(filter_) == condition


def test_conditions_end_where_there_is_no_more_room_for_them() -> None:
    many = search_filters.to_filter({f"name{n}": "x" * 190 for n in range(100)})

    assert len(many) <= 1500
    assert 5 < many.count(" = ") <= 50


def test_no_two_places_have_one_id_or_tag() -> None:
    long, longer = ("l" * 300,), ("l" * 301,)
    ids = [
        ROOT.item_id(namespace, key)
        for namespace, key in [
            (("a", "b"), "c"), (("a",), "b..c"), (("a",), ".c"), (("a",), "c"), (long, "c"), (longer, "c"),
            (("a",), "c" * 300),
        ]
    ]  # fmt: skip
    tags = [ROOT.prefix_tag(path) for path in [(), ("a",), ("a", "b"), long, longer]]

    assert len(set(ids)) == len(ids)
    assert len(set(tags)) == len(tags)
    assert all(len(text) <= 255 for text in (*ids, *tags))


@over(
    ("value", "index", "text"),
    [
        ({"likes": "tea", "cups": 3, "not": None}, ["$"], "likes: tea\ncups: 3"),
        ({"a": {"b": ["x", {"c": "y"}]}}, ["$"], "a b: x\na b c: y"),
        ({"a": {"b": ["x", {"c": "y"}]}}, ["a.b[1].c", "a.none"], "y"),
        ({"a": "x"}, False, ""),
        ({"a": "x"}, [], ""),
        ({"a": "x" * 200_000}, ["a"], "x" * 100_000),
    ],
)
def test_the_texts_of_a_value_are_what_is_searched(value: dict[str, Any], index: Any, text: str) -> None:
    assert items.search_text(value, index) == text
