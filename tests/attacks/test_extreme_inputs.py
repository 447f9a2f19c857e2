"""Attack: JSON as deep as a message is long, endless numbers, filters inside of filters, names that are paths.
May be seen: a documented refusal that names the field; never INTERNAL, never a file of the machine.
May be spent: what any request of the same size costs.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant
from grpc import aio

from skein.memory.v1 import memory_pb2, snapshots_pb2
from skein.session.v1 import archives_pb2, session_pb2
from skein_kit.filters.evaluator import matches
from skein_kit.filters.fields import fold_case
from skein_kit.filters.parser import MAX_CHARACTERS, parse

INVALID = grpc.StatusCode.INVALID_ARGUMENT
DEPTH = attack_size(60_000, 1_000_000)
CREATE = "/skein.memory.v1.MemoryService/CreateMemory"
DEEP = [
    "[" * DEPTH + "]" * DEPTH,
    '{"a":' * DEPTH + "1" + "}" * DEPTH,
    "[" * DEPTH,
    '{"memory":{"data":' + '{"a":' * 5_000 + "1" + "}" * 5_000 + "}}",
]
NUMBERS = ["9" * 60_000, "1e999999999", "-1e-999999999", "1." + "0" * 60_000 + "1", "NaN", "Infinity", "1e400", "--1"]
TRAVERSALS = [
    "../../../../../../etc/passwd",
    "..%2f..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "....//....//etc/passwd",
    "..\\..\\..\\etc\\passwd",
    "/etc/passwd",
    "static/../../../../../etc/passwd",
]


async def posted(cluster: Cluster, path: str, body: str, *headers: str) -> tuple[int, str]:
    """Send raw bytes, as no client of HTTP would spell them, and return the status and all that comes back."""
    host, _, port = cluster.addresses["http"].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"POST {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}", "connection: close", *headers]
    writer.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
    try:
        async with asyncio.timeout(60):
            answer = (await reader.read()).decode(errors="replace")
    except ConnectionResetError:
        # A body beyond the limit is not read to its end, and the rest of it meets a closed connection.
        return 413, ""
    writer.close()
    return int(answer.split(" ")[1]), answer


async def refusal_of(call: Any) -> grpc.StatusCode:
    try:
        await call
    except aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("kind", ["rpc", "mcp", "registration"])
async def test_json_that_is_too_deep_or_whose_numbers_never_end_is_refused(
    cluster: Cluster, tenant: Tenant, kind: str
) -> None:
    key, plain = f"authorization: Bearer {tenant.api_key}", "content-type: application/json"
    path = {"rpc": CREATE, "mcp": "/mcp", "registration": "/register"}[kind]
    headers = [plain, key, "accept: application/json, text/event-stream"]
    numbers = [f'{{"memory":{{"content":"x","importance":{number},"data":{{"n":{number}}}}}}}' for number in NUMBERS]

    for body in (*DEEP, *numbers):
        status, answer = await posted(cluster, path, body, *headers)
        assert 400 <= status < 500, (status, body[:40], answer[:300])
    assert not (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories


async def test_json_text_beside_a_struct_is_bounded_in_depth_and_digits(tenant: Tenant) -> None:
    texts = ['{"a":' * 2_000 + "1" + "}" * 2_000, *(f'{{"n":{number}}}' for number in NUMBERS)]

    for text in texts:
        memory = memory_pb2.Memory(content="x", data_json=text)
        assert await refusal_of(tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))) is INVALID


async def test_an_import_of_hostile_lines_is_reported_line_by_line_or_refused(tenant: Tenant) -> None:
    lines = [*DEEP[:2], *(f'{{"type":"memory","importance":{number}}}' for number in NUMBERS)]

    for line in lines:
        call = tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=line[: 512 * 1024]))
        assert await refusal_of(call) in {grpc.StatusCode.OK, INVALID}
    assert not (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories


async def test_filters_inside_of_filters_are_refused_by_their_depth(tenant: Tenant) -> None:
    hostile = [
        "(" * (MAX_CHARACTERS - 1),
        "NOT " * 900 + "type = a",
        '"' + "\\" * (MAX_CHARACTERS - 2),
        "content:" + "'\\" * 1_900,
        " OR ".join(["type = a"] * 300),
        "metadata" + ".a" * 1_900 + " = 1",
        "importance = " + "9" * 3_900,
        f"type IN ({', '.join('a' * 1 for _ in range(1_000))})",
    ]

    for where in hostile:
        request = memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(where=where))
        assert await refusal_of(tenant.memory.ListMemories(request)) is INVALID, where[:40]


@pytest.mark.system
def test_a_watch_takes_no_step_for_each_letter_of_a_long_text() -> None:
    condition = parse(" OR ".join(f'content:"needle {number}"' for number in range(50)))
    assert condition is not None
    steps = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal steps
        steps += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        result = matches(condition, {"content": "İΣ" * 50_000})
    finally:
        sys.setprofile(None)

    assert not result
    assert steps < 50 * 100


@pytest.mark.system
def test_letters_become_small_each_by_itself() -> None:
    letters = "".join(chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000)

    one_by_one = "".join(small if len(small := letter.lower()) == 1 else letter for letter in letters)

    assert fold_case(letters) == one_by_one
    assert fold_case("ΟΔΟΣ İ") == "οδοσ İ"


async def test_no_path_of_http_leads_out_of_the_gateways_own_files(cluster: Cluster) -> None:
    host, _, port = cluster.addresses["http"].partition(":")
    for prefix in ("", "console/", "console/static/", "static/", "oauth/"):
        for name in TRAVERSALS:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"GET /{prefix}{name} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode())
            async with asyncio.timeout(30):
                answer = await reader.read()
            writer.close()
            assert b"root:" not in answer, (prefix, name)
            assert answer.split(b" ")[1] in {b"400", b"401", b"404", b"405", b"303"}, (prefix, name, answer[:100])


@pytest.mark.system
async def test_names_that_callers_choose_never_become_paths(cluster: Cluster, tenant: Tenant) -> None:
    stored = 0
    for name in TRAVERSALS:
        code = await refusal_of(tenant.sessions.CreateSession(session_request(name)))
        assert code in {grpc.StatusCode.OK, INVALID}
        if code is grpc.StatusCode.OK:
            message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="kettle")
            request = session_pb2.AppendMessagesRequest(session_id=name, messages=[message])
            await tenant.sessions.AppendMessages(request)
            await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id=name))
            await tenant.sessions.ArchiveSession(archives_pb2.ArchiveSessionRequest(session_id=name))
            stored += 1

    # Files are named by ids and checksums, in the folder of the tenant's id.
    files = list(Path(cluster.environment["SKEIN_DATA_DIR"]).rglob(f"{tenant.tenant_id}/*"))
    assert len(files) == stored
    assert all(re.fullmatch(r"[0-9a-f-]{36}-[0-9a-f]{16}\.jsonl\.gz", file.name) for file in files)


def session_request(name: str) -> session_pb2.CreateSessionRequest:
    return session_pb2.CreateSessionRequest(session=session_pb2.Session(session_id=name))
