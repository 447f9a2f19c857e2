"""Conditions in words: what reads as what, and what is refused by its name and place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_catalogue import over
from fix_filtering import EXPRESSIONS, ITEM_EXPRESSIONS, MEMORIES, MESSAGES
from hypothesis import given
from hypothesis import strategies as st

from skein_kit.errors import FilterFieldUnknown, FilterInvalid
from skein_kit.filters.evaluator import matches
from skein_kit.filters.expression import And, Compare, Contains, Expression, Has, In, Not, Or, Tags, format_expression
from skein_kit.filters.fields import (
    FIELDS,
    ITEM_FIELDS,
    ITEM_KINDS,
    OVERFLOW,
    Kind,
    importance_of,
    priority_of,
    properties_of,
    property_text,
)
from skein_kit.filters.item_kinds import for_kind
from skein_kit.filters.parser import parse

READ: list[tuple[str, Expression]] = [
    ("type = fact", Compare(("type",), "=", "fact")),
    ('  type="fact"  ', Compare(("type",), "=", "fact")),
    ("type != 'it\\'s \"x\"'", Compare(("type",), "!=", 'it\'s "x"')),
    ('title:"tea"', Contains(("title",), "tea")),
    ("key IN (a, 'b')", In(("key",), ("a", "b"))),
    ("priority >= 5", Compare(("priority",), ">=", 5.0)),
    ("is_active = false", Compare(("is_active",), "=", False)),  # noqa: FBT003 - the value.
    ("create_time > 2026-01-01T01:00:00+01:00", Compare(("create_time",), ">", datetime(2026, 1, 1, tzinfo=UTC))),
    ('tags:"a b"', Tags("any", ("a b",))),
    ("tags:any", Tags("any", ("any",))),
    ("tags:none(a, b)", Tags("none", ("a", "b"))),
    ("has(archive_time)", Has(("archive_time",))),
    ("metadata.x:*", Has(("metadata", "x"))),
    ("metadata.x = 1", Compare(("metadata", "x"), "=", 1.0)),
    ('metadata.x = "1"', Compare(("metadata", "x"), "=", "1")),
    ('data."a b".2 = true', Compare(("data", "a b", "2"), "=", True)),  # noqa: FBT003 - the value.
    ("metadata.x:1", Compare(("metadata", "x"), "=", 1.0)),
    ("NOT type = a AND key = b", And((Not(Compare(("type",), "=", "a")), Compare(("key",), "=", "b")))),
    (
        "(type = a OR type = b) AND key = c",
        And((Or((Compare(("type",), "=", "a"), Compare(("type",), "=", "b"))), Compare(("key",), "=", "c"))),
    ),
]

REFUSED: list[tuple[str, type[Exception], str]] = [
    ("colour = red", FilterFieldUnknown, "at 0: no field is called 'colour'"),
    ("type = a AND title.x = b", FilterFieldUnknown, "at 13: no field is called 'title.x'"),
    ("type = a OR key = b AND key = c", FilterInvalid, "at 20: AND and OR beside each other need parentheses"),
    ("type =", FilterInvalid, "at 6: expected a value"),
    ("type", FilterInvalid, "at 4: expected one of"),
    ("(type = a", FilterInvalid, "at 9: expected ')'"),
    ("type = a key = b", FilterInvalid, "at 9: expected AND, OR or the end"),
    ("type < b", FilterInvalid, "at 0: type has no order"),
    ("metadata.x > true", FilterInvalid, "at 0: metadata.x has no order"),
    ("importance = high", FilterInvalid, "at 13: importance is compared with a number"),
    ('importance = "1"', FilterInvalid, "importance is compared with a number"),
    ("importance = 1e999", FilterInvalid, "importance is compared with a number"),
    ("create_time > yesterday", FilterInvalid, "at 14: create_time is compared with a time"),
    ("create_time > 2026-01-01T00:00:00", FilterInvalid, "with its zone"),
    ("scope = everybody", FilterInvalid, "scope is compared with global, agent, user, session"),
    ("content_hash = 12", FilterInvalid, "64 hexadecimal digits"),
    ("tags = a", FilterInvalid, "tags cannot be compared with ="),
    ("metadata = a", FilterInvalid, "metadata cannot be compared with ="),
    ("importance:1", FilterInvalid, "importance cannot be compared with :"),
    ('title:""', FilterInvalid, "at least one character"),
    ('title = "a\\q"', FilterInvalid, "at 8: the text in quotes"),
    ('title = "\\u0000"', FilterInvalid, "NUL"),
    ("title = a\0", FilterInvalid, "at 9: holds a NUL character"),
    ('title = "\\ud800"', FilterInvalid, "the text in quotes"),
    (f"{'(' * 20}type = a{')' * 20}", FilterInvalid, "deeper than 10 levels"),
    (f"{'NOT ' * 20}type = a", FilterInvalid, "deeper than 10 levels"),
    (" OR ".join(["type = a"] * 51), FilterInvalid, "more than 50 conditions"),
    (f"key IN ({', '.join('a' * 101)})", FilterInvalid, "more than 100 values"),
    (f"metadata{'.a' * 10} = 1", FilterInvalid, "deeper than 10 names"),
    ("title = " + "a" * 4000, FilterInvalid, "longer than 4000 characters"),
]


DAY = datetime(2026, 3, 5, tzinfo=UTC)
# A moment before the day, its first and its last one, and the one after it.
AROUND = (DAY - timedelta.resolution, DAY, DAY + timedelta(days=1) - timedelta.resolution, DAY + timedelta(days=1))


@over("field", [name for name, field in ITEM_FIELDS.items() if field.kind is Kind.TIME])
@over(
    ("condition", "passing"),
    [
        ("= 2026-03-05", (False, True, True, False)),
        ('= "2026-03-05"', (False, True, True, False)),
        ("!= 2026-03-05", (True, False, False, True)),
        ("< 2026-03-05", (True, False, False, False)),
        ("<= 2026-03-05", (True, True, True, False)),
        ("> 2026-03-05", (False, False, False, True)),
        (">= 2026-03-05", (False, True, True, True)),
        ("IN (2026-03-05)", (False, True, True, False)),
        ("IN (2026-03-05, 2026-03-06T00:00:00Z)", (False, True, True, True)),
        ("IN (2026-03-06, 2026-03-04)", (True, False, False, True)),
    ],
)
def test_a_date_is_its_whole_day(field: str, condition: str, passing: tuple[bool, ...]) -> None:
    expression = parse(f"{field} {condition}", known_fields=ITEM_FIELDS)

    assert expression is not None
    assert tuple(matches(expression, {field: moment}) for moment in AROUND) == passing
    assert matches(expression, {}) is condition.startswith("!=")
    assert parse(format_expression(expression), known_fields=ITEM_FIELDS) == expression


def test_the_last_date_has_an_end() -> None:
    expression = parse("expire_time <= 9999-12-31")

    assert expression == Compare(("expire_time",), "<=", datetime.max.replace(tzinfo=UTC))


@over("root", ["metadata", "data"])
@over(
    ("condition", "passing"),
    [
        ('.x = ""', (True, True, True, False)),
        ('.x != ""', (False, False, False, True)),
        ('.x IN ("", "b")', (True, True, True, False)),
        ('.x:""', (True, True, True, False)),
        ('.x.y = ""', (True, True, True, True)),
    ],
)
def test_an_unset_property_equals_the_empty_text(root: str, condition: str, passing: tuple[bool, ...]) -> None:
    expression = parse(f"{root}{condition}")

    assert expression is not None
    objects: list[Any] = [None, {"x": None}, {"x": ""}, {"x": "a"}]
    assert tuple(matches(expression, {root: value}) for value in objects) == passing


@over(("text", "expression"), READ)
def test_it_reads_what_is_meant(text: str, expression: Expression) -> None:
    assert parse(text) == expression


def test_no_text_is_no_condition() -> None:
    assert parse(" \n") is None


@over(("text", "refusal", "what"), REFUSED)
def test_an_unreadable_filter_is_refused_by_its_position(text: str, refusal: type[Exception], what: str) -> None:
    with pytest.raises(refusal) as caught:
        parse(text, "filter.where")

    ((place, message),) = caught.value.violations  # type: ignore[attr-defined]  # Both are refusals.
    assert place == "filter.where"
    assert what in message


@pytest.mark.system
@given(EXPRESSIONS)
def test_a_written_filter_reads_as_the_same(expression: Expression) -> None:
    assert parse(format_expression(expression)) == expression


@pytest.mark.system
@given(ITEM_EXPRESSIONS)
def test_a_filter_on_both_kinds_reads_as_the_same(expression: Expression) -> None:
    assert parse(format_expression(expression), known_fields=ITEM_FIELDS) == expression


@over("name", sorted(ITEM_FIELDS.keys() - FIELDS.keys()))
def test_fields_of_messages_are_unknown_where_memories_alone_are_filtered(name: str) -> None:
    with pytest.raises(FilterFieldUnknown):
        parse(f"has({name})")


@over(
    ("text", "of_memories", "of_messages"),
    [
        ("kind = memory", True, False),
        ("kind != memory", False, True),
        ("kind IN (memory, message)", True, True),
        ("has(kind)", True, True),
        ("role = user", False, "role = user"),
        ("role != user", True, "role != user"),
        ("NOT role = user", True, "NOT role = user"),
        ("has(name)", False, "has(name)"),
        ("name:ann", False, "name:ann"),
        ('name = ""', True, 'name = ""'),
        ("sequence > 3", False, "sequence > 3"),
        ("type = fact", "type = fact", False),
        ("type IN (fact, note)", "type IN (fact, note)", False),
        ("NOT type = fact", "NOT type = fact", True),
        ("tags:any(a)", "tags:any(a)", False),
        ("tags:none(a)", "tags:none(a)", True),
        ("priority > 3", "priority > 3", False),
        ("data.x = 1", "data.x = 1", False),
        ("has(data)", "has(data)", False),
        (f"content_hash != {'a' * 64}", f"content_hash != {'a' * 64}", True),
        ("session_id = s", "session_id = s", "session_id = s"),
        ("metadata.x = 1", "metadata.x = 1", "metadata.x = 1"),
        ("kind = memory OR role != assistant", True, "role != assistant"),
        ("type = fact OR role = user", "type = fact", "role = user"),
        ("type = fact AND role = user", False, False),
        ("type = fact AND content:x", "type = fact AND content:x", False),
        ("NOT (type = fact AND role = user)", True, True),
        ("(type = fact OR content:x) AND NOT has(role)", "type = fact OR content:x", "content:x AND NOT has(role)"),
    ],
)
def test_a_field_that_a_kind_of_items_lacks_is_unset(
    text: str, *, of_memories: str | bool, of_messages: str | bool
) -> None:
    expression = parse(text, known_fields=ITEM_FIELDS)

    assert expression is not None
    for kind, remaining in zip(ITEM_KINDS, (of_memories, of_messages), strict=True):
        expected = parse(remaining, known_fields=ITEM_FIELDS) if isinstance(remaining, str) else remaining
        assert for_kind(expression, kind) == expected


@pytest.mark.system
@given(ITEM_EXPRESSIONS, MEMORIES, MESSAGES)
def test_what_remains_for_a_kind_holds_for_the_same_items(
    expression: Expression, memory: dict[str, Any], message: dict[str, Any]
) -> None:
    for kind, item in zip(ITEM_KINDS, (memory, message), strict=True):
        remaining = for_kind(expression, kind)
        passes = remaining if isinstance(remaining, bool) else matches(remaining, item)

        assert passes is matches(expression, {**item, "kind": kind})


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except (FilterInvalid, FilterFieldUnknown):
        return


@over(
    ("text", "passes"),
    [
        ('title = ""', True),
        ("title != tea", True),
        ("NOT title = tea", True),
        ("has(title)", False),
        ("expire_time < 2030-01-01", False),
        ("NOT expire_time < 2030-01-01", True),
        ("metadata.x != 1", True),
        ("content:TEA", True),
        ("priority = 10", True),
        ("metadata.customer.plans = pro", True),
        ("metadata.customer.plans:trial", True),
        ("has(metadata.customer)", True),
        ("has(metadata.nothing)", False),
        ("metadata.count < 3", True),
        ('metadata.count = "2"', False),
        ("metadata.count = true", False),
    ],
)
def test_a_missing_value_is_empty_and_never_unknown(text: str, *, passes: bool) -> None:
    memory: dict[str, Any] = {
        "content": "green tea",
        "importance": 1.0,
        "metadata": {"customer": {"plans": ["trial", "pro"]}, "nothing": None, "count": 2},
    }
    condition = parse(text)

    assert condition is not None
    assert matches(condition, memory) is passes


def test_properties_are_scalars_by_their_names_in_order() -> None:
    metadata = '{"b": {"c": [1, 2.50, [true]], "n": null}, "a": "x", "empty": {}, "list": []}'

    assert properties_of(metadata, '{"a": -0.0}') == [
        ("data.a", "0"),
        ("metadata.a", "x"),
        ("metadata.b.c", "1"),
        ("metadata.b.c", "2.5"),
        ("metadata.b.c", "true"),
    ]


def test_a_long_value_is_known_by_its_digest_and_too_many_by_none() -> None:
    assert property_text("x" * 255) == "x" * 255
    assert property_text("x" * 256).startswith("sha256:")
    assert properties_of(str({f"k{n}": n for n in range(101)}).replace("'", '"'), None) == [OVERFLOW]
    assert properties_of(f'{{"{"k" * 260}": 1}}', None) == [OVERFLOW]


@over("priority", range(1, 11))
def test_every_priority_comes_back_from_the_importance_that_it_is(priority: int) -> None:
    assert priority_of(importance_of(priority)) == priority


def test_the_default_importance_is_the_default_priority() -> None:
    assert (priority_of(0.5), importance_of(5)) == (5, 0.5)
    assert (priority_of(0.0), priority_of(1.0)) == (1, 10)
