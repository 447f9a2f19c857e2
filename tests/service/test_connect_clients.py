"""Clients of the Connect protocol at the gateway: buf, and what a client is told about forms that are not read."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from fix_cluster import Cluster, Tenant
from fix_http import TLS
from google.protobuf import json_format
from google.protobuf.message import Message
from grpc import aio
from grpc_status import rpc_status

from skein.memory.v1 import memory_pb2
from skein_gateway.errors import StreamNotSupported

ROOT = Path(__file__).parents[2]
BUF = Path(sys.executable).parent / "buf"
MEMORIES = "skein.memory.v1.MemoryService"
WATCH = "/skein.memory.v1.HistoryService/StreamChanges"


@pytest.fixture
def origin(cluster: Cluster) -> str:
    return f"http://{cluster.addresses['http']}"


async def buf(origin: str, path: str, request: dict[str, Any], *headers: str) -> tuple[int, Any]:
    """Make a call as buf does, with messages as bytes; return its exit code and the answer, or the error, as JSON."""
    header_options = [part for header in headers for part in ("-H", header)]
    process = await asyncio.create_subprocess_exec(
        *(str(BUF), "curl", "--protocol", "connect", "--schema", "."),
        *(*header_options, "-d", json.dumps(request), f"{origin}/{path}"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, json.loads(err if process.returncode else out)


@pytest.mark.system
async def test_buf_stores_and_reads(origin: str, tenant: Tenant) -> None:
    bearer = f"authorization: Bearer {tenant.api_key}"

    status, created = await buf(origin, f"{MEMORIES}/CreateMemory", {"memory": {"content": "Grüße"}}, bearer)
    _, result = await buf(origin, f"{MEMORIES}/GetMemory", {"memory_id": created["memory"]["memoryId"]}, bearer)

    assert status == 0
    assert result["memory"]["content"] == "Grüße"


@pytest.mark.system
async def test_buf_gets_the_same_errors_as_grpc(origin: str, tenant: Tenant) -> None:
    request = memory_pb2.GetMemoryRequest(memory_id="nobody")
    bearer = f"authorization: Bearer {tenant.api_key}"

    status, refused = await buf(origin, f"{MEMORIES}/GetMemory", json_format.MessageToDict(request), bearer)
    _, stranger = await buf(origin, f"{MEMORIES}/GetMemory", {"memory_id": "nobody"})

    assert (status != 0, refused["code"]) == (True, "not_found")
    assert refused["details"][0]["debug"]["reason"] == "MEMORY_NOT_FOUND"
    assert (stranger["code"], stranger["details"][0]["debug"]["reason"]) == ("unauthenticated", "CREDENTIAL_MISSING")


@pytest.mark.system
async def test_buf_learns_that_a_stream_needs_grpc(origin: str, tenant: Tenant) -> None:
    _, refused = await buf(origin, WATCH.strip("/"), {}, f"authorization: Bearer {tenant.api_key}")

    assert refused["code"] == "unimplemented"
    assert refused["message"] == StreamNotSupported().message
    assert refused["details"][0]["debug"]["reason"] == "STREAM_NOT_SUPPORTED"


@pytest.mark.parametrize("form", ["json", "proto"])
async def test_a_stream_ends_with_the_refusal_before_it_begins(origin: str, form: str) -> None:
    async with httpx.AsyncClient(base_url=origin, trust_env=False, verify=TLS, timeout=60) as http:
        answer = await http.post(WATCH, content=b"", headers={"content-type": f"application/connect+{form}"})

    assert (answer.status_code, answer.headers["content-type"]) == (200, f"application/connect+{form}")
    flags, length, end = answer.content[0], int.from_bytes(answer.content[1:5], "big"), answer.content[5:]
    assert (flags, length) == (2, len(end))
    assert json.loads(end)["error"]["code"] == "unimplemented"


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"content-type": "application/x-www-form-urlencoded"}, "content-type: application/json or application/proto"),
        ({"content-type": "application/json", "content-encoding": "gzip"}, "without a content-encoding"),
    ],
)
async def test_a_form_that_is_not_read_is_named(
    origin: str, tenant: Tenant, headers: dict[str, str], message: str
) -> None:
    bearer = {"authorization": f"Bearer {tenant.api_key}"}
    async with httpx.AsyncClient(base_url=origin, trust_env=False, verify=TLS, timeout=60) as http:
        answer = await http.post(
            f"/{MEMORIES}/ListMemories", content=gzip.compress(b"{}"), headers={**bearer, **headers}
        )

    assert answer.status_code == 415
    assert answer.json()["code"] == "unimplemented"
    assert message in answer.json()["message"]


REFUSED: list[tuple[str, Message, dict[str, str]]] = [
    ("GetMemory", memory_pb2.GetMemoryRequest(memory_id="nobody"), {}),
    ("GetMemory", memory_pb2.GetMemoryRequest(), {}),
    ("GetMemory", memory_pb2.GetMemoryRequest(memory_id="nobody"), {"authorization": "Bearer nonsense"}),
    ("GetMemory", memory_pb2.GetMemoryRequest(memory_id="nobody"), {"authorization": ""}),
    ("RevealSecret", memory_pb2.RevealSecretRequest(memory_id="nobody"), {}),
    ("ListMemories", memory_pb2.ListMemoriesRequest(page_token="damaged"), {}),
    ("ListMemories", memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(where="nothing = 1")), {}),
    ("DeleteMemory", memory_pb2.DeleteMemoryRequest(memory_id="nobody", revision=-1), {}),
]


@pytest.mark.parametrize("form", ["application/json", "application/proto"])
@pytest.mark.parametrize(("method", "request_", "headers"), REFUSED, ids=range(len(REFUSED)))
async def test_both_ports_refuse_in_the_same_words(
    cluster: Cluster, origin: str, tenant: Tenant, method: str, request_: Message, headers: dict[str, str], form: str
) -> None:
    path = f"/{MEMORIES}/{method}"
    brought = {"authorization": f"Bearer {tenant.api_key}", **headers}
    brought = {name: value for name, value in brought.items() if value}
    call: Any = cluster.channel.unary_unary(path)

    with pytest.raises(aio.AioRpcError) as caught:
        await call(request_.SerializeToString(), metadata=tuple(brought.items()))
    body = json_format.MessageToJson(request_).encode() if form.endswith("json") else request_.SerializeToString()
    async with httpx.AsyncClient(base_url=origin, trust_env=False, verify=TLS, timeout=60) as http:
        answer = await http.post(path, content=body, headers={"content-type": form, **brought})

    status: Any = rpc_status.from_call(caught.value)  # type: ignore[arg-type]  # It reads three methods that both have.
    payload = answer.json()
    assert payload["code"] == caught.value.code().name.lower()
    assert payload["message"] == status.message
    values = [base64.b64decode(detail["value"] + "==") for detail in payload["details"]]
    assert values == [detail.value for detail in status.details]
