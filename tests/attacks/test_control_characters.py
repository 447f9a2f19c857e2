"""Characters that act instead of showing: line ends, terminal codes, NUL, separators and turns of direction.

Attack: names, contents, ids, user agents, addresses and states that hold such characters.
May be seen: the text itself, escaped where a reader would act on it; no further header, line or record.
May be spent: one line of a log, of an export or of a header for each event, record or value.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein
from fix_database import all_told
from fix_memory import MemoryServer
from fix_web import Pkce, Web, authorize_url, new_person

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import history_pb2_grpc, memory_pb2, memory_pb2_grpc
from skein.memory.v1 import webhooks_pb2 as pb
from skein_kit.telemetry import logs

# Clears a terminal, renames its window, starts a header, a line of a log and of CSV, and turns what follows around.
HOSTILE = (
    'kettle\x1b[2J\x1b]0;owned\x07\r\nSet-Cookie: evil=1\r\n\r\n{"event":"forged"}\n=cmd()\x9b31m\x85next\u2028line'
    "\u2029par\u202egnp\u2066\x7f\x08\x0b\x0c\ufeffend"
)
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@pytest.fixture
def environment(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}


@pytest.fixture
def log_stream() -> Iterator[io.StringIO]:
    before = structlog.get_config()
    stream = io.StringIO()
    logs.configure(stream=stream)
    yield stream
    structlog.configure(**before)


def test_a_log_has_one_line_of_plain_ascii_for_each_event(log_stream: io.StringIO) -> None:
    logs.get(HOSTILE).warning(HOSTILE, name=HOSTILE, **{HOSTILE: [HOSTILE]})

    text = log_stream.getvalue()
    (line,) = text.splitlines()
    assert json.loads(line)["name"] == HOSTILE
    assert text.isascii()
    assert not re.search("[\x00-\x09\x0b-\x1f]", text)


@pytest.mark.system
async def test_the_command_shows_what_was_written_and_a_terminal_does_nothing(
    tenant: Tenant, environment: dict[str, str]
) -> None:
    made = await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=HOSTILE, source=HOSTILE[:100]))
    )
    await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name=HOSTILE[:60]))
    commands = [
        ("memories", "show", made.memory.memory_id),
        ("keys", "list"),
        ("memories", "show", made.memory.memory_id, "--json"),
    ]

    shown = await asyncio.gather(*(skein(*command, environment=environment) for command in commands))

    for command, ended in zip(commands, shown, strict=True):
        assert ended.code == 0, (command, ended.err)
        assert not UNSAFE.search(ended.out + ended.err), (command, ended.out)
        assert "owned" in ended.out, (command, ended.out)
    assert shown[-1].json["memory"]["content"] == made.memory.content


async def test_a_refusal_that_names_what_the_caller_sent_shows_it(environment: dict[str, str]) -> None:
    ended = await skein("memories", "show", HOSTILE, environment=environment)

    assert ended.code != 0
    assert not UNSAFE.search(ended.out + ended.err), ended.err


@pytest.mark.system
async def test_an_export_has_one_line_for_each_record(
    tenant: Tenant, environment: dict[str, str], tmp_path: Path
) -> None:
    made = await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=HOSTILE, tags=["one"]))
    )
    file = tmp_path / "tenant.jsonl"

    ended = await skein("export", "-o", str(file), environment=environment)

    assert ended.code == 0, ended.err
    text = file.read_text("utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    assert [one["content"] for one in records if one.get("record") == "memory"] == [made.memory.content]
    assert not UNSAFE.search(text)


async def test_a_redirect_has_no_header_that_its_state_names(cluster: Cluster, tenant: Tenant) -> None:
    person = await new_person(cluster, tenant)
    async with Web.of(cluster.addresses["http"]) as web:
        client_id = str((await web.register(client_name="Kettle"))["client_id"])
        # An error redirects only the browser of a person who has signed in.
        await web.consent(authorize_url(client_id, Pkce()), person)
        answer = await web.get(authorize_url(client_id, Pkce(), state=HOSTILE, response_type="token"))

    assert answer.status_code == 302
    assert "set-cookie" not in answer.headers
    assert answer.headers["location"].isascii()
    assert answer.headers["location"].isprintable()


async def test_ids_and_agents_that_act_reach_no_answer_and_no_service(cluster: Cluster, tenant: Tenant) -> None:
    host, _, port = cluster.addresses["http"].rpartition(":")
    hostile = b"evil\x1b[31m\x9b\x85\xe2\x80\xa8\tend"
    for path, body in (
        (b"/skein.memory.v1.MemoryService/ListMemories", b"{}"),
        (b"/mcp", b"{}"),
        (b"/token", b"grant_type=x"),
        (b"/authorize?client_id=x", b""),
    ):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            (b"POST " if body else b"GET ") + path + b" HTTP/1.1\r\nhost: skein\r\nconnection: close\r\n"
            b"authorization: Bearer " + tenant.api_key.encode() + b"\r\nskein-request-id: " + hostile + b"\r\n"
            b"user-agent: " + hostile + b"\r\nx-forwarded-for: " + hostile + b"\r\n"
            b"content-type: " + (b"application/x-www-form-urlencoded" if path == b"/token" else b"application/json")
            + b"\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )  # fmt: skip
        answer = await reader.read()
        writer.close()
        head = answer.partition(b"\r\n\r\n")[0]

        assert int(head.split(b" ")[1]) < 500, (path, answer)
        assert b"evil" not in head
        assert head.isascii()


async def test_a_webhook_has_the_headers_of_a_webhook_and_no_others(memory_server: MemoryServer) -> None:
    heads: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with (
            memory_server.serving(SKEIN_MASTER_KEY="11" * 32, SKEIN_OUTBOUND_ALLOW=origin),
            memory_server.channel() as channel,
            memory_server.channel(system=True) as worker,
        ):
            webhook = pb.Webhook(
                display_name=HOSTILE[:200],
                event_types=["memory_created"],
                webhook_url=f"{origin}/hook%0d%0aX-Evil:%201?a=%0AX-Evil:1&b=\u2028é",
            )
            await history_pb2_grpc.HistoryServiceStub(channel).CreateWebhook(pb.CreateWebhookRequest(webhook=webhook))
            memory = memory_pb2.Memory(content=HOSTILE, source=HOSTILE[:100])
            await memory_pb2_grpc.MemoryServiceStub(channel).CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
            await all_told(memory_server.database.server)
            await memory_pb2_grpc.MemoryInternalServiceStub(worker).DeliverWebhooks(memory_pb2.DeliverWebhooksRequest())

    (head,) = heads
    lines = head.decode("ascii").rstrip("\r\n").split("\r\n")
    assert {line.partition(":")[0].lower() for line in lines[1:]} == {
        "host", "accept", "accept-encoding", "connection", "user-agent", "content-type", "content-length", "webhook-id",
        "webhook-timestamp", "webhook-signature",
    }  # fmt: skip
    assert not re.search(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]", head.decode("ascii"))
