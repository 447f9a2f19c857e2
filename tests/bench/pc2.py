"""How fast the ports of the voice assistants answer: real ZeroMQ clients that wait for each answer, as the deployed do.

    .venv/bin/python tests/bench/pc2.py                           # a cluster of its own, in one process
    .venv/bin/python tests/bench/pc2.py --form many               # one process per service: pc2's own processor time
    .venv/bin/python tests/bench/pc2.py --at 5570=127.0.0.1:5570  # a cluster that runs

Nothing here is asserted. The cluster and the clients share this machine's cores.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/pc2.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import uvloop
import zmq
import zmq.asyncio
from bench import processes, report
from bench.household import settled
from bench.load import Limits, measured
from bench.sentences import Sentences
from bench.subject import FORMS, DidNotStart, data_folder, running
from rich import box
from rich.table import Table

from skein_cluster.processes.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from bench.figures import Figures

    Message = dict[str, Any]

_HOST = "127.0.0.1"
_ANSWER_MILLISECONDS = 5000
_SESSIONS = 8
# Memories that are read again.
_REMEMBERED = 500
# What was promised: 95 of 100 answers come within so many milliseconds.
_ORDINARY, _SEMANTIC = 50, 200
_SEED = 6
# Of a refusal.
_SHOWN_CHARACTERS = 300


@dataclass(kw_only=True, slots=True)
class Talk:
    """What the clients have to say, and the ids that they were told."""

    sentences: Sentences
    memory_ids: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def learn(self, answer: Message) -> None:
        """Remember the id of a memory that was stored."""
        found = (answer.get("data") or answer).get("memory_id")
        if isinstance(found, str):
            self.memory_ids.append(found)

    def session_id(self, number: int) -> str:
        """Return one of some sessions."""
        return f"bench-{number % _SESSIONS}"

    def memory_id(self, number: int) -> str:
        """Return the id of a memory that was stored lately."""
        return self.memory_ids[number % len(self.memory_ids)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """One thing that clients of a port ask for."""

    port: int
    name: str
    # What the clients say at the nth time.
    message: Callable[[Talk, int], Message]
    goal_ms: int = _ORDINARY


def _create(talk: Talk, number: int) -> Message:
    content = {"text": talk.sentences.statement(), "source_agent": "CoordinatorAgent", "metadata": {"turn": number}}
    payload = {"memory_type": "conversation", "content": content, "tags": ["bench"], "ttl": 86_400, "priority": 5}
    return _request("create", payload, session_id=talk.session_id(number), request_id=f"req-{number:08d}")


def _read(talk: Talk, number: int) -> Message:
    return _request("read", {"memory_id": talk.memory_id(number)}, request_id=f"req-{number:08d}")


def _mixed(talk: Talk, number: int) -> Message:
    return _read(talk, number) if number % 2 else _create(talk, number)


def _update(talk: Talk, number: int) -> Message:
    return _request("update", {"memory_id": talk.memory_id(number), "priority": 1 + number % 10})


def _batch_read(talk: Talk, number: int) -> Message:
    payload = {"filter": {"memory_type": "conversation", "limit": 20}}
    return _request("batch_read", payload, session_id=talk.session_id(number))


def _search(kind: str) -> Callable[[Talk, int], Message]:
    def message(talk: Talk, number: int) -> Message:
        payload = {"query": talk.sentences.question(), "search_type": kind}
        return _request("search", payload, session_id=talk.session_id(number))

    return message


def _request(action: str, payload: Message, **envelope: Any) -> Message:
    return {"action": action, "payload": payload, "timestamp": "2023-06-15T08:30:45.123Z", **envelope}


def _interaction(talk: Talk, number: int) -> Message:
    said = {"content": talk.sentences.statement(), "metadata": {"turn": number}}
    return {"action": "add_interaction", "session_id": talk.session_id(number), "type": "user_query", **said}


def _spoken(talk: Talk, number: int) -> Message:
    said = {"role": "user", "content": talk.sentences.statement()}
    return {"action": "add_interaction", "session_id": talk.session_id(number), **said}


def _context(talk: Talk, number: int) -> Message:
    return {"action": "get_context", "session_id": talk.session_id(number), "max_tokens": 500}


def _stored(talk: Talk, _number: int) -> Message:
    return {"command": "STORE_MEMORY", "data": {"content": talk.sentences.statement(), "type": "web_data"}}


def _added(talk: Talk, _number: int) -> Message:
    return {"action": "add_memory", "data": {"content": talk.sentences.statement(), "memory_type": "episodic"}}


def _got(talk: Talk, number: int) -> Message:
    return {"action": "get_memory", "data": {"memory_id": talk.memory_id(number)}}


ACTIONS = (
    Action(port=5570, name="create", message=_create),
    Action(port=5570, name="read", message=_read),
    Action(port=5570, name="create and read", message=_mixed),
    Action(port=5570, name="update", message=_update),
    Action(port=5570, name="batch_read of 20", message=_batch_read),
    Action(port=5570, name="search by keyword", message=_search("keyword")),
    Action(port=5570, name="search by meaning", message=_search("semantic"), goal_ms=_SEMANTIC),
    Action(port=5570, name="hybrid search", message=_search("hybrid"), goal_ms=_SEMANTIC),
    Action(port=5596, name="add_interaction", message=_interaction),
    Action(port=5596, name="get_context", message=_context),
    Action(port=5596, name="STORE_MEMORY", message=_stored),
    Action(port=5574, name="add_interaction", message=_spoken),
    Action(port=5574, name="get_context", message=_context),
    Action(port=7140, name="add_memory", message=_added),
    Action(port=7140, name="get_memory", message=_got),
    Action(port=5617, name="health", message=lambda _talk, _number: {}),
)
PORTS = tuple(dict.fromkeys(action.port for action in ACTIONS))


@dataclass(kw_only=True, slots=True)
class Row:
    """One line of the table."""

    action: Action
    figures: Figures
    refused: int
    # The last refusal; empty when there was none.
    refusal: str
    # Processor time of pc2 for one message, in microseconds; None where it shares its process.
    own_microseconds: float | None

    def as_json(self) -> Message:
        """Return the line for a program."""
        return {
            "port": self.action.port,
            "action": self.action.name,
            "goal_p95_ms": self.action.goal_ms,
            "refused": self.refused,
            "pc2_cpu_microseconds": self.own_microseconds,
            **self.figures.as_json(),
        }


class Clients:
    """So many REQ sockets of one port; a call takes one that is free, and waits for its answer."""

    def __init__(self, sockets: Sequence[zmq.asyncio.Socket], talk: Talk) -> None:
        self._free = deque(sockets)
        self._talk = talk
        self.refused = 0
        self.last_refusal = ""

    async def ask(self, message: Message) -> None:
        """Say something, and count a refusal. Raises zmq.Again when no answer comes."""
        socket = self._free.popleft()
        await socket.send(json.dumps(message).encode())
        answer = json.loads(await socket.recv())
        self._free.append(socket)
        if str(answer["status"]).lower() == "error":
            self.refused += 1
            self.last_refusal = json.dumps(answer)[:_SHOWN_CHARACTERS]
        else:
            self._talk.learn(answer)


@asynccontextmanager
async def connected(address: str, talk: Talk, count: int) -> AsyncIterator[Clients]:
    """Connect so many clients."""
    context = zmq.asyncio.Context()
    try:
        sockets = []
        for _ in range(count):
            socket = context.socket(zmq.REQ)
            socket.setsockopt(zmq.RCVTIMEO, _ANSWER_MILLISECONDS)
            socket.connect(f"tcp://{address}")
            sockets.append(socket)
        yield Clients(sockets, talk)
    finally:
        context.destroy(linger=0)


@click.command()
@click.option("--at", "places", multiple=True, help="5570=127.0.0.1:5570 measures a cluster that runs (repeatable).")
@click.option("--form", type=click.Choice(["one", "many"]), default="one", help="One process, or one per service.")
@click.option("--clients", type=click.IntRange(1, 500), default=8, help="Clients that ask at the same time.")
@click.option("--seconds", type=float, default=4.0, help="For each action.")
@click.option("--only", "ports", multiple=True, type=click.Choice(list(map(str, PORTS))), help="A port; repeatable.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(
    *, places: Sequence[str], form: str, clients: int, seconds: float, ports: Sequence[str], json_file: Path | None
) -> None:
    """Print messages per second, latencies and processor time of the assistants' ports."""
    given = {int(port): address for port, _, address in (place.partition("=") for place in places)}
    chosen = [
        action for action in ACTIONS if (not ports or str(action.port) in ports) and (not given or action.port in given)
    ]
    rows: list[Row] = []
    try:
        uvloop.run(_bench(rows, chosen, given, form=form, clients=clients, seconds=seconds))
    except DidNotStart as error:
        raise click.ClickException(str(error)) from None
    except zmq.Again:
        message = f"A port did not answer within {_ANSWER_MILLISECONDS / 1000:.0f} s."
        raise click.ClickException(message) from None
    finally:
        _print(rows, clients)
        if json_file is not None:
            json_file.write_text(json.dumps([row.as_json() for row in rows], indent=2) + "\n", "utf-8")


async def _bench(
    rows: list[Row], actions: Sequence[Action], given: Mapping[int, str], *, form: str, clients: int, seconds: float
) -> None:
    async with AsyncExitStack() as stack:
        addresses, pid, subject = given, None, None
        if not given:
            ports = stack.enter_context(free_ports([f"SKEIN_PC2_PORT_{port}" for port in PORTS], _HOST))
            folder = stack.enter_context(data_folder())
            name = dict(zip(("one", "many"), FORMS, strict=True))[form]
            subject = await stack.enter_async_context(running(folder, name, **ports))
            addresses, pid = {port: f"{_HOST}:{ports[f'SKEIN_PC2_PORT_{port}']}" for port in PORTS}, subject.pid
        numbers = itertools.count(1)
        talks = {port: Talk(sentences=Sentences(_SEED + port)) for port in PORTS}
        for action in actions:
            # One by one: what was measured before something goes wrong is not lost.
            rows += [
                await _measured(action, addresses[action.port], talks[action.port], numbers, pid, clients, seconds)
            ]
            if subject is not None:
                # The vectors that followed the answers are no part of what comes next.
                await settled(subject)


async def _measured(
    action: Action,
    address: str,
    talk: Talk,
    numbers: itertools.count[int],
    pid: int | None,
    clients: int,
    seconds: float,
) -> Row:
    own = _pc2_of(pid)
    async with connected(address, talk, clients) as voices:

        async def call(number: int) -> None:
            await voices.ask(action.message(talk, number))

        if not talk.memory_ids and action.name in {"read", "update", "create and read", "get_memory"}:
            first = _create if action.port == 5570 else _added
            await voices.ask(first(talk, next(numbers)))
        # The first calls of an action fill caches, and are not counted.
        for _ in range(clients):
            await call(next(numbers))
        voices.refused = 0
        before = processes.cpu_seconds(own) if own else 0.0
        figures = await measured(
            call,
            numbers,
            in_flight=clients,
            limits=Limits(calls=1_000_000, seconds=seconds),
            server_cpu=lambda: processes.cpu_seconds(pid) if pid else 0.0,
        )
        after = processes.cpu_seconds(own) if own else 0.0
        return Row(
            action=action,
            figures=figures,
            refused=voices.refused,
            refusal=voices.last_refusal,
            own_microseconds=round((after - before) / figures.calls * 1e6) if own else None,
        )


def _pc2_of(pid: int | None) -> int | None:
    """Find the process of pc2; None when it shares one."""
    for process in processes.family(pid) if pid else ():
        # One may end while we look.
        with suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            if b"serve" in words and b"pc2" in words:
                return process.pid
    return None


def _print(rows: Sequence[Row], clients: int) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("port")
    table.add_column("action")
    for name in ("messages/s", "p50 ms", "p95 ms", "goal ms", "refused", "cluster CPU ms", "pc2 CPU ms"):
        table.add_column(name, justify="right")
    for row in rows:
        own = "" if row.own_microseconds is None else f"{row.own_microseconds / 1000:.2f}"
        table.add_row(
            str(row.action.port),
            row.action.name,
            f"{row.figures.per_second:,.0f}",
            f"{row.figures.p50:.1f}",
            f"{row.figures.p95:.1f}",
            str(row.action.goal_ms),
            str(row.refused),
            f"{row.figures.server_cpu_per_thousand:.2f}",
            own,
        )
    out = report.console()
    out.print(table)
    for row in rows:
        if row.refusal:
            out.print(f"{row.action.port} {row.action.name} was refused with {row.refusal}")
    out.print(
        f"{clients} clients, each waiting for its answers. CPU is for one message: the cluster's with its Postgres, "
        f"and pc2's own where it has a process. Load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.",
        style="dim",
    )


if __name__ == "__main__":
    main()
