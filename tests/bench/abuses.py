"""Abusive calls of a stranger, a viewer and a member at every port of a cluster."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import zmq
import zmq.asyncio
from fix_cluster import Stubs
from fix_mcp import JSON

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from contextlib import AsyncExitStack

    from fix_fleet import Fleet

    Call = Callable[[int], Awaitable[bool]]

STRANGER, VIEWER, MEMBER = "stranger", "viewer", "member"
GRPC, HTTP, MCP, OAUTH, ZEROMQ = "gRPC", "HTTP/JSON", "MCP", "OAuth", "ZeroMQ"
_HOST = "127.0.0.1"
_CONNECTIONS = 300
_LARGE = 60_000
_WORDS = ("kettle", "teapot", "garden", "harbour", "letter", "violin", "window", "orchard")


@dataclass(frozen=True, kw_only=True, slots=True)
class Attack:
    """One abusive call; it returns whether it was let through."""

    caller: str
    port: str
    name: str
    call: Call
    # What it stores is searched by meaning later, which is work too.
    writes: bool


def text_of(length: int) -> str:
    words = " ".join(secrets.choice(_WORDS) for _ in range(length // 6 + 1))
    return f"{secrets.token_hex(4)} {words}"[:length]


async def attacks_on(fleet: Fleet, stack: AsyncExitStack, keys: Mapping[str, str]) -> AsyncIterator[Attack]:
    """Yield every call, by the key of each role."""
    web = await stack.enter_async_context(
        httpx.AsyncClient(base_url=f"http://{fleet['gateway'].http}", trust_env=False, timeout=30)
    )
    member, viewer = (Stubs.of(fleet.channel, keys[role]) for role in (MEMBER, VIEWER))
    recall = ("tools/call", _tool("recall", query="tea"))
    # What members store comes last: it is more to search for all others.
    for caller, port, calls in (
        (STRANGER, GRPC, _grpc_of_strangers(fleet)),
        (STRANGER, HTTP, _http_of_strangers(web, stack, fleet["gateway"].http)),
        (STRANGER, MCP, _mcp(web, "", ("initialize", {}), recall)),
        (STRANGER, OAUTH, _oauth(web)),
        (STRANGER, ZEROMQ, _zeromq_of_strangers(fleet)),
        (VIEWER, GRPC, _grpc_of_viewers(viewer)),
        (VIEWER, HTTP, _http_of_viewers(web, keys[VIEWER])),
        (VIEWER, MCP, _mcp(web, keys[VIEWER], ("tools/list", {}), recall)),
        (MEMBER, GRPC, _grpc_of_members(member)),
        (MEMBER, HTTP, _http_of_members(web, keys[MEMBER])),
        (MEMBER, MCP, _mcp(web, keys[MEMBER], ("tools/call", _tool("remember", content=text_of(_LARGE))))),
        (MEMBER, ZEROMQ, _zeromq_of_members(fleet, stack)),
    ):
        for name, call in calls.items():
            writes = caller == MEMBER and not name.startswith(f"{_CONNECTIONS} ")
            yield Attack(caller=caller, port=port, name=name, call=call, writes=writes)


def _rpc(method: Callable[[Any], Awaitable[Any]], request: Callable[[int], Any]) -> Call:
    async def call(number: int) -> bool:
        await method(request(number))
        return True

    return call


def _grpc_of_strangers(fleet: Fleet) -> dict[str, Call]:
    anonymous = Stubs.of(fleet.channel, "")
    raw: Any = fleet.channel.unary_unary("/skein.auth.v1.AuthService/GetMe")

    async def forged(_: int) -> bool:
        token = f"sk_{secrets.token_urlsafe(32)}"
        await raw(b"", timeout=30, metadata=(("authorization", f"Bearer {token}"),))
        return True

    async def compressed(_: int) -> bool:
        await raw(bytes(1 << 20), timeout=30, compression=grpc.Compression.Gzip)
        return True

    return {
        "GetMe without a key": _rpc(anonymous.auth.GetMe, lambda _: auth_pb2.GetMeRequest()),
        "GetMe with a forged key": forged,
        "GetMe, compressed": compressed,
        "SignIn to no account": _rpc(
            anonymous.auth.SignIn,
            lambda number: accounts_pb2.SignInRequest(email=f"{number}@x.invalid", password="guessed at random"),
        ),
        "SignUp": _rpc(
            anonymous.auth.SignUp,
            lambda _: accounts_pb2.SignUpRequest(email=f"{uuid.uuid4().hex}@x.invalid", password="a long password"),
        ),
        "CreateMemory of 3 MiB": _rpc(
            anonymous.memory.CreateMemory,
            lambda _: memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="x" * (3 << 20))),
        ),
    }


def _grpc_of_viewers(viewer: Stubs) -> dict[str, Call]:
    def searched(_: int) -> Any:
        where = " OR ".join(f'content:"{text_of(20)}"' for _ in range(50))
        return memory_pb2.ListMemoriesRequest(page_size=100, filter=memory_pb2.MemoryFilter(where=where))

    return {
        "Recall": _rpc(viewer.gateway.Recall, lambda _: gateway_pb2.RecallRequest(query=text_of(2000))),
        "ListMemories, 50 conditions": _rpc(viewer.memory.ListMemories, searched),
        "ListMemories": _rpc(viewer.memory.ListMemories, lambda _: memory_pb2.ListMemoriesRequest(page_size=200)),
    }


def _grpc_of_members(member: Stubs) -> dict[str, Call]:
    def large(_: int) -> Any:
        return memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=text_of(_LARGE)))

    def many(_: int) -> Any:
        memories = [memory_pb2.Memory(content=text_of(40)) for _ in range(100)]
        return memory_pb2.BatchCreateMemoriesRequest(memories=memories)

    def messages(number: int) -> Any:
        turns = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=text_of(200)) for _ in range(100)]
        return session_pb2.AppendMessagesRequest(session_id=f"s-{number}", messages=turns, create_session=True)

    return {
        "CreateMemory of 60 KB": _rpc(member.memory.CreateMemory, large),
        "BatchCreateMemories of 100": _rpc(member.memory.BatchCreateMemories, many),
        "AppendMessages of 100": _rpc(member.sessions.AppendMessages, messages),
    }


def _post(web: httpx.AsyncClient, path: str, body: Callable[[], Any], key: str = "") -> Call:
    headers = {**JSON, **({"authorization": f"Bearer {key}"} if key else {})}

    async def call(_: int) -> bool:
        content = body()
        raw = {"content": content} if isinstance(content, str) else {"json": content}
        return (await web.post(path, headers=headers, **raw)).is_success

    return call


def _get(web: httpx.AsyncClient, path: str) -> Call:
    async def call(_: int) -> bool:
        return (await web.get(path)).is_success

    return call


def _held(stack: AsyncExitStack, address: str, first: bytes) -> Call:
    """Open connections that say little, and keep them until the end."""
    open_ones: list[asyncio.StreamWriter] = []
    host, _, port = address.rpartition(":")

    def close() -> None:
        for writer in open_ones:
            writer.close()

    stack.callback(close)

    async def call(_: int) -> bool:
        if len(open_ones) >= _CONNECTIONS:
            await asyncio.sleep(0.05)
            return False
        writer = (await asyncio.open_connection(host, int(port)))[1]
        open_ones.append(writer)
        writer.write(first)
        await writer.drain()
        return True

    return call


def _http_of_strangers(web: httpx.AsyncClient, stack: AsyncExitStack, address: str) -> dict[str, Call]:
    return {
        "GetMe without a key": _post(web, "/skein.auth.v1.AuthService/GetMe", dict),
        "1 MB of nested JSON": _post(web, "/skein.auth.v1.AuthService/GetMe", lambda: "[" * 1_000_000),
        "GET /openapi.json": _get(web, "/openapi.json"),
        "GET /": _get(web, "/"),
        f"{_CONNECTIONS} half heads": _held(stack, address, b"GET / HTTP/1.1\r\nHost: x\r\n"),
    }


def _http_of_viewers(web: httpx.AsyncClient, key: str) -> dict[str, Call]:
    return {
        "Recall": _post(web, "/skein.gateway.v1.GatewayService/Recall", lambda: {"query": text_of(2000)}, key),
        "ListMemories": _post(web, "/skein.memory.v1.MemoryService/ListMemories", lambda: {"pageSize": 200}, key),
    }


def _http_of_members(web: httpx.AsyncClient, key: str) -> dict[str, Call]:
    path = "/skein.memory.v1.MemoryService/"
    return {
        "CreateMemory of 60 KB": _post(
            web, f"{path}CreateMemory", lambda: {"memory": {"content": text_of(_LARGE)}}, key
        ),
        "BatchCreateMemories of 100": _post(
            web, f"{path}BatchCreateMemories", lambda: {"memories": [{"content": text_of(40)} for _ in range(100)]}, key
        ),
    }


def _tool(name: str, **arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def _mcp(web: httpx.AsyncClient, key: str, *messages: tuple[str, dict[str, Any]]) -> dict[str, Call]:
    def asks(method: str, params: dict[str, Any]) -> Call:
        return _post(web, "/mcp", lambda: {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, key)

    return {f"{method} {params.get('name', '')}".strip(): asks(method, params) for method, params in messages}


def _oauth(web: httpx.AsyncClient) -> dict[str, Call]:
    def form(path: str, **fields: str) -> Call:
        async def call(_: int) -> bool:
            return (await web.post(path, data={**fields, "client_id": str(uuid.uuid4())})).is_success

        return call

    registration = {"redirect_uris": ["https://app.invalid/back"], "client_name": "x" * 200}
    return {
        "/register": _post(web, "/register", lambda: registration),
        "/token": form("/token", grant_type="client_credentials", client_secret=secrets.token_hex(32)),
        "/device_authorization": form("/device_authorization", scope="memory.read"),
        "GET /authorize": _get(web, f"/authorize?response_type=code&client_id={uuid.uuid4()}"),
    }


def _zeromq_of_strangers(fleet: Fleet) -> dict[str, Call]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        address = ""
        with suppress(OSError):
            # Nothing is sent: it is looked up which way a packet would go.
            probe.connect(("192.0.2.1", 9))
            address = str(probe.getsockname()[0])

    async def connects(_: int) -> bool:
        reader, writer = await asyncio.open_connection(address, int(fleet.ports["pc2:5570"]))
        try:
            return bool(await reader.read(1))
        finally:
            writer.close()

    return {"connections": connects} if address else {}


def _zeromq_of_members(fleet: Fleet, stack: AsyncExitStack) -> dict[str, Call]:
    context = zmq.asyncio.Context()
    stack.callback(context.term)
    address = f"{_HOST}:{fleet.ports['pc2:5570']}"

    def says(payload: Callable[[], dict[str, Any]], action: str) -> Call:
        idle: list[zmq.asyncio.Socket] = []

        def close() -> None:
            for peer in idle:
                peer.close(0)

        stack.callback(close)

        async def call(number: int) -> bool:
            peer = idle.pop() if idle else context.socket(zmq.DEALER)
            if not peer.getsockopt(zmq.LAST_ENDPOINT):
                peer.connect(f"tcp://{address}")
            message = {"action": action, "session_id": f"z-{number % 8}", "payload": payload()}
            await peer.send(json.dumps(message).encode())
            answer = json.loads((await peer.recv_multipart())[-1])
            idle.append(peer)
            return bool(answer["status"] != "error")

        return call

    def created() -> dict[str, Any]:
        return {"memory_type": "context", "content": {"text": text_of(_LARGE)}}

    return {
        "search": says(lambda: {"query": text_of(500)}, "search"),
        "create of 60 KB": says(created, "create"),
        f"{_CONNECTIONS} connections": _held(stack, address, b"\xff" + b"\0" * 8 + b"\x7f"),
    }
