"""Messages of a fuzzer of the assistants' ports, and checks of the replies."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio
from fix_messages import examples
from fix_odd_values import FLOATS, JSON_TEXTS, LENGTHS, QUERIES, SECONDS, STRUCTS, TEXTS
from fix_pc2 import HEALTH_PORTS, Assistant, assert_healthy
from hypothesis import strategies as st

from skein_pc2.protocol import errors

CORPUS = Path(__file__).parent / "attacks" / "corpus_pc2"
# A valid request of every action and command, as the tests of the ports send them; "{memory_id}" is one that exists.
REQUESTS: dict[str, list[dict[str, Any]]] = json.loads((CORPUS / "requests.json").read_text("utf-8"))
# Ports that share the dialect of another.
SAME_DIALECT = {5576: 5570, 7240: 7140}
CODES = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)}
# Texts that no reply may contain: signs of a defect, and internal names.
INTERNAL = re.compile(
    r"Skein failed|Traceback|asyncpg|grpc\.|site-packages|File \"|skein_\w+\.|object at 0x|psycopg|SELECT .* FROM"
)
# Stands in a message for a number that Python does not write.
_RAW = re.compile(r'"<raw (.*?)>"')
_NUMBERS = (
    "1e400",
    "-1e400",
    "9" * 4000,
    "9" * 5000,
    "1e-400",
    "0.1" + "0" * 2000 + "1",
    "-0",
    "1E+2",
    "NaN",
    "-Infinity",
)
_ENCODINGS = ("utf-8", "utf-16", "utf-32-be", "utf-7", "utf-8-sig", "cp037")
_DEEP = (29, 31, 100, 399, 401, 1500, 50_000)
_SCALARS = st.sampled_from(
    (
        None,
        True,
        False,
        0,
        1,
        -1,
        2**31,
        -(2**63),
        2**63,
        2**64,
        10**30,
        "",
        *FLOATS,
        *SECONDS,
        *LENGTHS,
        *TEXTS,
        *QUERIES,
    )
) | st.sampled_from([f"<raw {number}>" for number in _NUMBERS])
_VALUES = st.one_of(
    _SCALARS,
    _SCALARS,
    st.sampled_from(("\ud800", "a\udfffb", "x" * 70_000, "\0", "é" * 5000)),
    st.sampled_from([*STRUCTS, *JSON_TEXTS[:12]]).map(lambda text: f"<raw {text}>" if '"<' not in text else text),
    st.sampled_from(_DEEP).map(lambda depth: f"<raw {'[' * depth}{']' * depth}>"),
    st.lists(_SCALARS, max_size=4),
    st.sampled_from((100, 5000, 25_000)).map(lambda count: [0] * count),
    st.dictionaries(st.sampled_from(TEXTS) | st.text(max_size=4), _SCALARS, max_size=4),
)
# The frames before the body: an empty one, none, or those of proxies.
_ROUTES = st.sampled_from(((b"",), (b"",), (b"",), (), (b"p", b""), (b"\0" * 300, b"q", b"")))


@dataclass(frozen=True, slots=True)
class FuzzedMessage:
    """One message of the fuzzer."""

    port: int
    frames: tuple[bytes, ...]

    def __str__(self) -> str:
        """Show it in the form that the corpus takes."""
        shown = [frame[:3000].hex() for frame in self.frames[:20]]
        return f"{json.dumps({'port': self.port, 'frames': shown})} {self.frames[-1][:300]!r}"


@st.composite
def mutated_body(draw: st.DrawFn, origin: dict[str, Any], names: list[str]) -> bytes:
    """Make a message in which one to four places have other values, as bytes that may be damaged as well."""
    message: Any = json.loads(json.dumps(origin))
    for _ in range(draw(st.sampled_from((1, 1, 2, 3, 4)))):
        message = draw(_mutated_value(message, names))
    # Twice: a raw value may be within a text that is not read as JSON.
    text = _RAW.sub(lambda result: json.loads(f'"{result[1]}"'), json.dumps(message))
    body = text.encode(draw(st.sampled_from(_ENCODINGS)) if draw(st.integers(0, 9)) == 0 else "utf-8", "replace")
    if draw(st.integers(0, 11)) == 0:
        position = draw(st.integers(0, len(body)))
        body = draw(
            st.sampled_from(
                (body[:position], body[:position] + b"\xff\0" + body[position:], body + body, body[position:], b"")
            )
        )
    return body


@st.composite
def _mutated_value(draw: st.DrawFn, value: Any, names: list[str], depth: int = 0) -> Any:
    """Change one place of a JSON value, at any depth."""
    if isinstance(value, dict | list) and value and (depth == 0 or draw(st.integers(0, 3)) > 0):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        # The action itself seldom changes, so that most messages reach a handler.
        key = draw(st.sampled_from([one for one in keys if one not in {"action", "command"}] or keys))
        match draw(st.integers(0, 9)):
            case 0:
                copied = value.copy()
                del copied[key]
                return copied
            case 1 if isinstance(value, dict):
                return {**value, draw(st.sampled_from(_NAMES)): draw(_VALUES | st.sampled_from(names))}
            case 2 if isinstance(value, dict):
                return {**value, "action" if "action" in value else "command": draw(_VALUES)} if depth == 0 else value
            case _:
                copied = value.copy()
                copied[key] = draw(_mutated_value(value[key], names, depth + 1))
                return copied
    return draw(st.one_of(_VALUES, st.sampled_from(names), st.just([value]), st.just({"a": value})))


def _keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_keys_of, value.values()))
    return set().union(*map(_keys_of, value)) if isinstance(value, list) else set()


_NAMES = sorted(_keys_of(list(REQUESTS.values())))


def requests_of(port: int, existing_ids: dict[str, str]) -> list[dict[str, Any]]:
    """Return the valid requests of a port, with existing ids."""
    text = json.dumps(REQUESTS.get(str(SAME_DIALECT.get(port, port)), [{"action": "ping"}]))
    for name, value in existing_ids.items():
        text = text.replace(f"{{{name}}}", value)
    result: list[dict[str, Any]] = json.loads(text)
    return result


def messages(
    port: int, existing_ids: dict[str, str], others: list[str], count: int, number: int
) -> list[FuzzedMessage]:
    """Make so many messages for each valid request of a port: the same ones for the same `number`, but for the ids."""
    result = []
    for position, origin in enumerate(requests_of(port, existing_ids)):
        names = [*existing_ids.values(), *others]

        @st.composite
        def draw_message(draw: st.DrawFn, origin: dict[str, Any] = origin, names: list[str] = names) -> FuzzedMessage:
            body, route = draw(mutated_body(origin, names)), draw(_ROUTES)
            match draw(st.integers(0, 19)):
                case 0:
                    return FuzzedMessage(port, tuple(draw(st.lists(st.binary(max_size=9), min_size=1, max_size=20))))
                case 1:
                    return FuzzedMessage(port, (*route, body, *[b"x"] * draw(st.integers(1, 30))))
                case _:
                    return FuzzedMessage(port, (*route, body))

        result += examples(draw_message(), count, number + position)
    return result


def find_error(message: FuzzedMessage, frames: list[bytes], foreign: str) -> str:
    """Return the error of a reply; "" for none. `foreign` is a text that no reply to this sender contains."""
    try:
        reply = json.loads(frames[-1])
    except ValueError:
        return f"no JSON: {frames[-1][:200]!r}"
    text = json.dumps(reply, ensure_ascii=False)
    if foreign in text:
        return "shows what another tenant has"
    if (result := INTERNAL.search(text)) is not None and result[0].encode() not in message.frames[-1]:
        return f"tells of the inside: {result[0]}: {text[:500]}"
    return _format_error(message.port, reply)


def _format_error(port: int, reply: Any) -> str:
    """Return how a reply differs from the form of its port's dialect; "" for not at all."""
    if not isinstance(reply, dict) or not isinstance(reply.get("status"), str):
        return f"no object with a status: {str(reply)[:200]}"
    if port in HEALTH_PORTS:
        return "" if reply.get("agent") else f"no health document: {str(reply)[:200]}"
    if reply["status"].lower() != "error":
        return ""
    if SAME_DIALECT.get(port, port) == 5570:
        error: Any = reply.get("error")
        is_valid = isinstance(error, dict) and error.get("code") in CODES and error["message"] and "request_id" in reply
        is_valid = is_valid and error["code"] != errors.INTERNAL_ERROR
    elif port in {5596, 5598}:
        is_valid = bool(reply.get("message")) and reply.get("reason") == reply.get("error") == reply["message"]
    else:
        is_valid = isinstance(reply.get("message"), str) and bool(reply["message"])
    return "" if is_valid else f"a refusal of another form: {str(reply)[:300]}"


async def collect_errors(
    assistant: Assistant, sent_messages: list[FuzzedMessage], foreign: str, *, peers: int = 8
) -> list[str]:
    """Send messages to one port, several at once; return the errors of their replies."""
    queue = sent_messages[::-1]
    result: list[str] = []

    async def run_peer() -> None:
        async with assistant.socket(zmq.DEALER, sent_messages[0].port) as peer:
            while queue:
                one = queue.pop()
                await peer.send_multipart(one.frames)
                if error_text := await _receive_error(peer, one, foreign):
                    result.append(f"{error_text}\n    {one}")
                    if error_text == "silence":
                        return

    await asyncio.gather(*(run_peer() for _ in range(peers)))
    return result


async def _receive_error(peer: zmq.asyncio.Socket, message: FuzzedMessage, foreign: str) -> str:
    try:
        frames = await peer.recv_multipart()
    except zmq.Again:
        return "silence"
    return find_error(message, frames, foreign)


async def assert_answered(assistant: Assistant, port: int) -> None:
    """Assert that an honest peer gets a reply."""
    reply = await assistant.send(port, b'{"action": "ping"}')
    assert_healthy(reply, status=reply["status"])
