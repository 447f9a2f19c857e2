"""Arguments of tools as clients send them: what can mean one thing alone is read, the rest is refused by its name."""

from __future__ import annotations

from typing import Any

import pytest
from fix_catalogue import over
from google.protobuf import json_format

from skein_gateway.mcp.toolsets import TOOLS
from skein_kit.errors import FieldInvalid


def request_of(tool: str, **arguments: Any) -> dict[str, Any]:
    fields: dict[str, Any] = json_format.MessageToDict(TOOLS[tool].request(arguments), preserving_proto_field_name=True)
    return fields


@over(
    ("tool", "sent", "meant"),
    [
        ("remember", {"tags": '["tea", "a, b"]'}, {"tags": ["tea", "a, b"]}),
        ("remember", {"data": '{"price": 1.5, "who": ["a"]}'}, {"data": {"price": 1.5, "who": ["a"]}}),
        ("remember", {"tags": ""}, {}),
        ("remember", {"data": ""}, {}),
        ("remember", {"expire_time": ""}, {}),
        ("remember", {"importance": ""}, {}),
        ("remember", {"importance": "0.5"}, {"importance": 0.5}),
        ("remember", {"on_similar": ""}, {}),
        ("remember", {"title": ""}, {"title": ""}),
        ("remember", {"title": '["tea"]'}, {"title": '["tea"]'}),
        ("recall", {"branches": '["memories"]'}, {"branches": ["memories"]}),
        ("recall", {"include_superseded": "true"}, {"include_superseded": True}),
        ("recall", {"include_superseded": "False"}, {}),
        ("recall", {"include_superseded": ""}, {}),
        ("recall", {"since": "", "until": "", "limit": "", "types": ""}, {}),
        ("recall", {"limit": "3"}, {"limit": 3}),
        (
            "append_messages",
            {"session_id": "s", "messages": '[{"role": "user", "content": "Hello", "create_time": ""}]'},
            {"session_id": "s", "messages": [{"role": "user", "content": "Hello"}]},
        ),
        (
            "append_messages",
            {"session_id": "s", "messages": ['{"role": "user", "content": "[1]"}']},
            {"session_id": "s", "messages": [{"role": "user", "content": "[1]"}]},
        ),
        # What is left out of an update stays; null clears it.
        ("update_memory", {"memory_id": "m", "title": "t", "expire_time": ""}, {"memory_id": "m", "title": "t"}),
    ],
)
def test_arguments_as_text_mean_what_the_schema_has(tool: str, sent: dict[str, Any], meant: dict[str, Any]) -> None:
    required = {"remember": {"content": "tea"}, "recall": {"query": "tea"}}.get(tool, {})

    assert request_of(tool, **required, **sent) == request_of(tool, **required, **meant)


@over(
    ("tool", "sent", "named"),
    [
        ("remember", {"tags": "tea, coffee"}, "tags"),
        ("remember", {"tags": '{"a": 1}'}, "tags"),
        ("remember", {"tags": "[" * 100_000}, "tags"),
        ("remember", {"data": "[1]"}, "data"),
        ("remember", {"data": '{"a": NaN}'}, "data"),
        ("recall", {"include_superseded": "yes"}, "include_superseded"),
        ("recall", {"since": "soon"}, "since"),
    ],
)
def test_a_text_that_may_mean_something_else_is_refused(tool: str, sent: dict[str, Any], named: str) -> None:
    required = {"remember": {"content": "tea"}, "recall": {"query": "tea"}}[tool]

    with pytest.raises(FieldInvalid) as caught:
        TOOLS[tool].request({**required, **sent})

    assert caught.value.violations[0][0] == named


def test_a_required_argument_is_not_left_out() -> None:
    with pytest.raises(FieldInvalid) as caught:
        TOOLS["append_messages"].request({"session_id": "s", "messages": ""})

    assert list(caught.value.violations) == [("messages", "is required")]
