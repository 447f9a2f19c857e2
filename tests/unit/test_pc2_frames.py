"""Frames and the JSON in them."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein_pc2.protocol.frames import MAX_MESSAGE_BYTES, MAX_VALUES, Frames, MalformedMessage, parse_json, timestamp


@over(
    ("frames", "route", "body"),
    [
        ([b"id", b"", b"{}"], (b"id", b""), (b"{}",)),
        ([b"id", b"{}"], (b"id",), (b"{}",)),
        ([b"id", b""], (b"id",), (b"",)),
        ([b"id", b"", b""], (b"id", b""), (b"",)),
        ([b"id", b"proxy", b"", b"{}"], (b"id", b"proxy", b""), (b"{}",)),
        ([b"id", b"{", b"}"], (b"id",), (b"{", b"}")),
        ([b"id"], (b"id",), ()),
    ],
)
def test_frames_are_split_into_route_and_body(
    frames: list[bytes], route: tuple[bytes, ...], body: tuple[bytes, ...]
) -> None:
    split_frames = Frames.of(frames)

    assert (split_frames.route, split_frames.body) == (route, body)


@given(st.lists(st.binary(max_size=3), min_size=1, max_size=5))
def test_all_frames_are_in_route_or_body_and_a_reply_is_one_frame(frames: list[bytes]) -> None:
    split_frames = Frames.of(frames)

    assert [*split_frames.route, *split_frames.body] == frames
    assert split_frames.reply_frames({"a": 1}) == [*split_frames.route, b'{"a": 1}']


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_malformed(body: bytes) -> None:
    with suppress(MalformedMessage):
        assert isinstance(parse_json(body), dict)


@over("text", ['{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', '{"a": ' + "9" * 5000 + "}"])
def test_numbers_that_json_cannot_represent_are_malformed(text: str) -> None:
    with pytest.raises(MalformedMessage):
        parse_json(text.encode())


def test_a_message_may_have_the_maximum_size_and_no_byte_more() -> None:
    body = json.dumps({"a": "x" * (MAX_MESSAGE_BYTES - len('{"a": ""}'))}).encode()

    assert parse_json(body)["a"]
    with pytest.raises(MalformedMessage, match="larger"):
        parse_json(body + b" ")


@over(("levels", "is_accepted"), [(399, True), (400, False)])
def test_a_message_that_is_nested_too_deeply_is_malformed(levels: int, *, is_accepted: bool) -> None:
    body = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
    if is_accepted:
        assert parse_json(body)
    else:
        with pytest.raises(MalformedMessage, match="deep"):
            parse_json(body)


@over("more", [0, 1])
def test_a_message_of_too_many_values_is_malformed(more: int) -> None:
    # The list itself is a value as well.
    body = json.dumps({"a": [0] * (MAX_VALUES - 1 + more)}).encode()
    if more:
        with pytest.raises(MalformedMessage, match="values"):
            parse_json(body)
    else:
        assert len(parse_json(body)["a"]) == MAX_VALUES - 1


def test_times_are_written_in_milliseconds_and_utc() -> None:
    assert timestamp().endswith("Z")
    assert len(timestamp()) == len("2023-06-15T08:30:45.123Z")
