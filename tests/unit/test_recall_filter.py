"""Filters of a search: the kinds of items that can pass, and the tests of their rows."""

from __future__ import annotations

from datetime import UTC, datetime

from fix_catalogue import over
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.filters.expression import Compare, format_expression
from skein_recall.search.convert import memory_filter

THEN = Timestamp(seconds=int(datetime(2020, 6, 1, tzinfo=UTC).timestamp()))
BOTH = ("memory", "message")


@over(
    ("condition", "tests"),
    [
        (pb.MemoryFilter(), {}),
        (pb.MemoryFilter(types=["fact"], session_id="s"), {}),
        # No row is read where the kind decides.
        (pb.MemoryFilter(where="kind IN (memory, message)"), {}),
        (pb.MemoryFilter(where="session_id = s"), {"memory": 'session_id = "s"', "message": 'session_id = "s"'}),
        (pb.MemoryFilter(where="NOT type = fact"), {"memory": 'NOT type = "fact"', "message": None}),
        (pb.MemoryFilter(where="kind = memory OR role = user"), {"memory": None, "message": 'role = "user"'}),
    ],
)
def test_both_kinds_can_pass(condition: pb.MemoryFilter, tests: dict[str, str | None]) -> None:
    item_filter = memory_filter(condition, UTC)

    assert item_filter.kinds == BOTH
    assert {
        kind: None if test is None else format_expression(test) for kind, test in item_filter.row_tests(BOTH).items()
    } == tests


@over(
    ("condition", "kinds", "is_tested"),
    [
        (pb.MemoryFilter(where="kind = memory"), ("memory",), False),
        (pb.MemoryFilter(where="kind = message"), ("message",), False),
        (pb.MemoryFilter(where="type = fact"), ("memory",), True),
        (pb.MemoryFilter(where="role = user"), ("message",), True),
        (pb.MemoryFilter(where="type = fact AND role = user"), (), False),
        (pb.MemoryFilter(max_importance=1), ("memory",), True),
        (pb.MemoryFilter(valid_at_time=THEN), ("memory",), True),
        (pb.MemoryFilter(valid_at_time=THEN, where="NOT type = fact"), ("memory",), True),
        (pb.MemoryFilter(valid_at_time=THEN, where="kind = message"), (), False),
    ],
)
def test_a_kind_that_cannot_pass_is_not_searched(
    condition: pb.MemoryFilter, kinds: tuple[str, ...], *, is_tested: bool
) -> None:
    item_filter = memory_filter(condition, UTC)

    assert item_filter.kinds == kinds
    assert bool(item_filter.row_tests(kinds)) is is_tested


def test_without_a_condition_the_other_kind_can_pass_again() -> None:
    item_filter = memory_filter(pb.MemoryFilter(where="role = user", max_importance=0.5), UTC)

    assert item_filter.kinds == ()
    assert item_filter.without("max_importance").kinds == ("message",)
    assert item_filter.without("where").row_tests(("memory",)) == {"memory": Compare(("importance",), "<=", 0.5)}
