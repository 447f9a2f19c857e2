"""Connections of an HTTP port: deadlines, limits, and which one yields its place to another."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from fix_connections import HALF, WHOLE, Client, limits
from fix_tls import made_in
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from skein_kit.host.admin_port import serve_admin
from skein_kit.http_server.connections import HttpLimits
from skein_kit.http_server.server import serve_http
from skein_kit.settings import ProcessSettings, SettingInvalid
from skein_kit.tls.server_tls import ServerTls

pytestmark = pytest.mark.usefixtures("connections")

# Its body is read before it is answered.
HALF_BODY = b"POST /echo HTTP/1.1\r\nhost: here\r\ncontent-length: 100\r\n\r\nhalf"
MAX_CONNECTIONS = 6


class Server:
    """An application whose answers a test lets go."""

    def __init__(self) -> None:
        self.entered = asyncio.Semaphore(0)
        self.released = asyncio.Event()
        self.stopped = asyncio.Event()
        self.address = ""

    async def health(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def slow(self, _request: Request) -> Response:
        self.entered.release()
        await self.released.wait()
        return PlainTextResponse("ok\n")

    async def echo(self, request: Request) -> Response:
        return Response(await request.body())

    async def endless(self, _request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield bytes(1_000_000)
                    await asyncio.sleep(0)
            finally:
                self.stopped.set()

        return StreamingResponse(parts())

    @classmethod
    @asynccontextmanager
    async def running(cls, limits: HttpLimits, tls: ServerTls | None = None) -> AsyncIterator[Server]:
        server = cls()
        paths = {"/healthz": server.health, "/slow": server.slow, "/endless": server.endless}
        routes = [Route(path, answer) for path, answer in paths.items()]
        app = Starlette(routes=[*routes, Route("/echo", server.echo, methods=["POST"])])
        async with serve_http(app, "127.0.0.1", 0, limits, tls=tls, grace_seconds=1) as server.address:
            yield server


async def clients(server: Server, count: int, first: bytes = b"", *, source: str = "127.0.0.1") -> list[Client]:
    return [await Client.connect(server.address, first, source=source) for _ in range(count)]


async def test_headers_that_do_not_come_in_time_are_answered_with_408() -> None:
    async with Server.running(limits(handshake_seconds=0.5)) as server:
        silent, half = await Client.connect(server.address), await Client.connect(server.address, HALF)

        ends = await silent.end(), await half.end()

    assert [end.split(b"\r\n")[0] for end in ends] == [b"HTTP/1.1 408 Request Timeout"] * 2


async def test_one_byte_after_the_other_does_not_move_the_deadline() -> None:
    async with Server.running(limits(handshake_seconds=0.5)) as server:
        client = await Client.connect(server.address, HALF)

        async def trickle() -> None:
            while True:
                client.writer.write(b"x")
                await asyncio.sleep(0.05)

        trickling = asyncio.create_task(trickle())
        await client.end()
        trickling.cancel()

    # A byte that came too late may cost it the 408.
    assert not client.is_open


async def test_the_headers_of_a_further_request_have_the_same_deadline() -> None:
    async with Server.running(limits(handshake_seconds=0.5)) as server:
        client = await Client.connect(server.address)
        assert await client.ask() == 200

        client.writer.write(HALF)
        end = await client.end()

    assert b" 408 " in end


async def test_a_connection_between_two_requests_is_not_late() -> None:
    async with Server.running(limits(handshake_seconds=0.3)) as server:
        idle, late = await Client.connect(server.address), await Client.connect(server.address)
        assert await idle.ask() == 200

        await late.end()

        assert await idle.ask() == 200


async def test_an_idle_connection_is_closed_after_its_time() -> None:
    async with Server.running(limits(idle_seconds=1)) as server:
        client = await Client.connect(server.address)
        assert await client.ask() == 200

        end = await client.end()

    assert end == b""


async def test_a_body_that_does_not_come_in_time_is_answered_with_408() -> None:
    async with Server.running(limits(transfer_seconds=0.5)) as server:
        end = await (await Client.connect(server.address, HALF_BODY)).end()

    assert b" 408 " in end


async def test_a_body_that_is_not_needed_any_more_has_the_same_deadline() -> None:
    async with Server.running(limits(transfer_seconds=0.5)) as server:
        client = await Client.connect(server.address)
        assert await client.ask(HALF_BODY.replace(b"/echo", b"/nowhere")) == 404

        async def trickle() -> None:
            while True:
                client.writer.write(b"x")
                await asyncio.sleep(0.05)

        trickling = asyncio.create_task(trickle())
        end = await client.end()
        trickling.cancel()

    assert end == b""


async def test_an_answer_may_take_longer_than_any_deadline() -> None:
    short = limits(handshake_seconds=0.2, transfer_seconds=0.2, idle_seconds=0.2)
    async with Server.running(short) as server:
        waiting = await Client.connect(server.address, WHOLE.replace(b"/healthz", b"/slow"))
        await server.entered.acquire()

        assert b" 408 " in await (await Client.connect(server.address)).end()
        server.released.set()

        assert await waiting.status() == 200


async def test_a_client_that_takes_nothing_of_its_answer_is_gone_after_a_while() -> None:
    async with Server.running(limits(transfer_seconds=1)) as server:
        client = await Client.connect(server.address)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # asyncio's transports have it.

        client.writer.write(WHOLE.replace(b"/healthz", b"/endless"))

        await asyncio.wait_for(server.stopped.wait(), 60)
        client.close()


async def test_the_connection_with_the_oldest_half_of_a_request_yields_to_a_new_one() -> None:
    async with Server.running(limits(most=MAX_CONNECTIONS)) as server:
        flood = await clients(server, MAX_CONNECTIONS, HALF)
        more = await Client.connect(server.address)

        assert await more.ask() == 200
        await flood[0].end()

        assert [client.is_open for client in flood] == [False] + [True] * (MAX_CONNECTIONS - 1)


async def test_idle_connections_yield_after_halves_and_before_bodies() -> None:
    async with Server.running(limits(most=3)) as server:
        body, idle = await Client.connect(server.address, HALF_BODY), await Client.connect(server.address)
        assert await idle.ask() == 200
        half = await Client.connect(server.address, HALF)
        ended = []
        for client in (half, idle, body):
            more = await Client.connect(server.address, WHOLE.replace(b"/healthz", b"/slow"))
            await server.entered.acquire()
            await client.end()
            ended.append([each.is_open for each in (half, idle, body)])
            assert more.is_open
        server.released.set()

    assert ended == [[False, True, True], [False, False, True], [False, False, False]]


async def test_those_who_wait_for_an_answer_never_yield() -> None:
    async with Server.running(limits(most=2)) as server:
        served = await clients(server, 2, WHOLE.replace(b"/healthz", b"/slow"))
        for _ in served:
            await server.entered.acquire()

        refused = await (await Client.connect(server.address, WHOLE)).end()
        server.released.set()

        assert refused == b""
        assert [await client.status() for client in served] == [200, 200]


async def test_many_more_halves_than_places_leave_room_for_whole_requests() -> None:
    async with Server.running(limits(most=MAX_CONNECTIONS)) as server:
        flood = await clients(server, 20 * MAX_CONNECTIONS, HALF, source="127.0.0.2")

        assert [await (await Client.connect(server.address)).ask() for _ in range(MAX_CONNECTIONS)] == [
            200
        ] * MAX_CONNECTIONS
        for client in flood:
            client.close()


async def test_an_address_has_a_limit_of_its_own_and_the_others_keep_their_places() -> None:
    async with Server.running(limits(per_address=2)) as server:
        slow = WHOLE.replace(b"/healthz", b"/slow")
        greedy = await clients(server, 2, slow, source="127.0.0.2")
        for _ in greedy:
            await server.entered.acquire()

        refused = await (await Client.connect(server.address, WHOLE, source="127.0.0.2")).end()
        other = await (await Client.connect(server.address, source="127.0.0.3")).ask()
        server.released.set()

        assert (refused, other) == (b"", 200)
        assert [await client.status() for client in greedy] == [200, 200]
        # What it has got back it may use again.
        assert await greedy[0].ask() == 200


async def test_an_address_at_its_limit_gives_up_its_own_halves_first() -> None:
    async with Server.running(limits(per_address=2)) as server:
        other = await Client.connect(server.address, HALF, source="127.0.0.3")
        flood = await clients(server, 2, HALF, source="127.0.0.2")

        assert await (await Client.connect(server.address, source="127.0.0.2")).ask() == 200
        await flood[0].end()

        assert (flood[1].is_open, other.is_open) == (True, True)


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.9"], ids=["this machine", "a trusted proxy"])
async def test_proxies_may_have_as_many_connections_as_there_are(source: str) -> None:
    async with Server.running(limits(per_address=2, proxy="127.0.0.9")) as server:
        slow = WHOLE.replace(b"/healthz", b"/slow")
        many = await clients(server, 10, slow, source=source)
        for _ in many:
            await server.entered.acquire()
        server.released.set()

        assert [await client.status() for client in many] == [200] * 10


async def test_the_reserve_of_open_files_is_left_to_others() -> None:
    async with AsyncExitStack() as stack:
        # Another user of files took all that come before the reserve.
        taken = [stack.enter_context(socket.socket()) for _ in range(50)]
        reserve_from = taken[-1].fileno()
        async with Server.running(limits(reserve_from=reserve_from)) as server:
            refused = await (await Client.connect(server.address, WHOLE)).end()
            for other in taken:
                other.close()

            assert refused == b""
            assert await (await Client.connect(server.address)).ask() == 200


async def test_a_tls_handshake_that_does_not_come_is_late_and_yields(tmp_path: Path) -> None:
    made = made_in(tmp_path)
    tls, trusting = (
        ServerTls(certificate=made.certificate, key=made.key),
        ssl.create_default_context(cafile=made.authority),
    )
    async with Server.running(limits(most=2, handshake_seconds=1.5), tls) as server:
        silent = await clients(server, 2)

        assert await (await Client.connect(server.address, tls=trusting)).ask() == 200
        await silent[0].end()
        is_open = silent[1].is_open
        await silent[1].end()

        assert is_open
        assert await (await Client.connect(server.address, tls=trusting)).ask() == 200
        assert b" 408 " in await (await Client.connect(server.address, HALF, tls=trusting)).end()


async def test_the_end_of_a_server_does_not_wait_for_halves(tmp_path: Path) -> None:
    made = made_in(tmp_path)
    async with asyncio.timeout(30):
        async with Server.running(limits(), ServerTls(certificate=made.certificate, key=made.key)) as server:
            silent = await Client.connect(server.address)
        await silent.end()
        async with Server.running(limits()) as server:
            half = await Client.connect(server.address, HALF)
            assert await (await Client.connect(server.address)).ask() == 200
        await half.end()


async def test_the_admin_port_has_the_same_limits() -> None:
    async with serve_admin("127.0.0.1", 0, {}, limits(most=2, handshake_seconds=1)) as address:
        flood = [await Client.connect(address, HALF) for _ in range(10)]

        admin_client = await Client.connect(address)
        assert await admin_client.ask(WHOLE.replace(b"/healthz", b"/livez")) == 200
        ends = [await client.end() for client in flood]

    assert sum(b" 408 " in end for end in ends) == 1


def test_a_time_out_of_nothing_is_refused() -> None:
    with pytest.raises(SettingInvalid, match=r"^SKEIN_ADVANCED_HANDSHAKE_SECONDS should be above 0\.$"):
        ProcessSettings.read({"SKEIN_ADVANCED_HANDSHAKE_SECONDS": "0"})
