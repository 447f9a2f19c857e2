from __future__ import annotations

import asyncio
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fix_catalogue import over
from fix_certificates import certified

from skein_kit.outbound.fetch import OutboundError, OutboundSettings, SafeHttpClient, is_public
from skein_kit.settings import SettingInvalid

NAME = "clients.example"


class Web:
    """A small HTTP server: it answers every request with the same bytes and remembers what it was asked."""

    def __init__(self) -> None:
        self.answer = answer({"a": 1})
        self.requests: list[str] = []
        # Set once the server stops; what dawdles waits for it.
        self.over = asyncio.Event()
        self.port = 0
        self.dawdles = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-le")), 0)
            self.requests.append((head + await reader.readexactly(length)).decode())
            writer.write(self.answer)
            await writer.drain()
            if self.dawdles:
                await self.over.wait()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()


def answer(
    document: object, *headers: str, status: str = "200 OK", kind: str = "application/json", body: bytes | None = None
) -> bytes:
    body = json.dumps(document).encode() if body is None else body
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Web]:
    web = Web()
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0, ssl=tls)
    web.port = server.sockets[0].getsockname()[1]
    try:
        yield web
    finally:
        web.over.set()
        server.close()
        await server.wait_closed()


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with serving() as result:
        yield result


def own(web: Web) -> SafeHttpClient:
    """Let the test's server be fetched from."""
    return SafeHttpClient(allow=[f"http://127.0.0.1:{web.port}"])


class ScriptedResolver:
    """A resolver that gives each answer once, then the last one for ever, and counts."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.lookups: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.lookups.append((host, port))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@over(
    "address",
    [
        "0.0.0.0",  # noqa: S104 - nothing is bound.
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::8.8.8.8",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:0808:0808::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%1",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
    ],
)
def test_an_address_outside_the_open_internet_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@over("address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_an_address_in_the_open_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@over(
    "url",
    [
        "",
        "x",
        "http://clients.example/",
        "ftp://clients.example/",
        "file:///etc/passwd",
        "https://",
        "https:///x",
        "https://user@clients.example/",
        "https://user:pass@clients.example/",
        "https://clients.example/#x",
        "https://cli ents.example/",
        "https://[fe80::1%25eth0]/",
        "https://clients.example:0/",
        "https://clients.example:70000/",
        "https://clients.example:x/",
        "https://clients.example/\r\nHost: x",
        "//clients.example/",
    ],
)
async def test_only_https_addresses_without_userinfo_or_fragment_are_fetched(url: str) -> None:
    names = ScriptedResolver(["93.184.216.34"])

    with pytest.raises(OutboundError, match=r"^url$"):
        await SafeHttpClient(resolve=names).fetch_json(url)

    assert names.lookups == []


@over(
    "url",
    ["https://127.1:9/", "https://2130706433:9/", "https://0x7f000001:9/", "https://[::1]:9/", "https://[FD00::A]:9/"],
)
async def test_other_spellings_of_a_private_address_are_judged_by_what_they_mean(url: str) -> None:
    with pytest.raises(OutboundError, match=r"^address$"):
        await SafeHttpClient().fetch_json(url)


async def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    with pytest.raises(OutboundError, match=r"^address$"):
        await SafeHttpClient(resolve=ScriptedResolver(["93.184.216.34", "10.0.0.1"])).fetch_json(
            "https://clients.example/"
        )


async def test_a_name_without_addresses_is_refused() -> None:
    with pytest.raises(OutboundError, match=r"^name$"):
        await SafeHttpClient(resolve=ScriptedResolver([])).fetch_json("https://clients.example/")
    with pytest.raises(OutboundError, match=r"^name$"):
        await SafeHttpClient().fetch_json("https://nobody.invalid/")


async def test_the_connection_goes_to_the_address_that_was_judged_and_speaks_of_the_name(tmp_path: Path) -> None:
    server, client = certified(tmp_path, NAME)
    async with serving(server) as web:
        # The name would lead elsewhere the second time.
        names = ScriptedResolver(["127.0.0.1"], ["192.0.2.1"])
        outbound = SafeHttpClient(allow=[f"https://{NAME}:{web.port}"], resolve=names, tls=client)

        fetched = await outbound.fetch_json(f"https://{NAME}:{web.port}/x?y=1", headers={"Host": "other", "X-A": "b"})

    assert fetched.document == {"a": 1}
    assert names.lookups == [(NAME, web.port)]
    head = web.requests[0].split("\r\n")
    assert head[0] == "GET /x?y=1 HTTP/1.1"
    assert [line for line in head if line.lower().startswith("host:")] == [f"Host: {NAME}:{web.port}"]
    assert "X-A: b" in head


async def test_the_certificate_must_be_that_of_the_name(tmp_path: Path) -> None:
    server, client = certified(tmp_path, "other.example")
    async with serving(server) as web:
        outbound = SafeHttpClient(
            allow=[f"https://{NAME}:{web.port}"], resolve=ScriptedResolver(["127.0.0.1"]), tls=client
        )

        with pytest.raises(OutboundError, match=r"^connection$"):
            await outbound.fetch_json(f"https://{NAME}:{web.port}/")

    assert web.requests == []


async def test_a_certificate_of_an_unknown_authority_is_refused(tmp_path: Path) -> None:
    server, _ = certified(tmp_path, NAME)
    async with serving(server) as web:
        outbound = SafeHttpClient(allow=[f"https://{NAME}:{web.port}"], resolve=ScriptedResolver(["127.0.0.1"]))

        with pytest.raises(OutboundError, match=r"^connection$"):
            await outbound.fetch_json(f"https://{NAME}:{web.port}/")


async def test_a_dead_address_does_not_keep_the_next_one_from_answering(web: Web) -> None:
    outbound = SafeHttpClient(allow=[f"http://{NAME}:{web.port}"], resolve=ScriptedResolver(["127.0.0.2", "127.0.0.1"]))

    assert (await outbound.fetch_json(f"http://{NAME}:{web.port}/")).document == {"a": 1}


async def test_only_the_allowed_origin_itself_may_be_private(web: Web) -> None:
    outbound = own(web)

    assert (await outbound.fetch_json(f"http://127.0.0.1:{web.port}/any/path")).document == {"a": 1}
    with pytest.raises(OutboundError, match=r"^url$"):
        await outbound.fetch_json(f"http://127.0.0.1:{web.port + 1}/")
    with pytest.raises(OutboundError, match=r"^address$"):
        await outbound.fetch_json(f"https://127.0.0.1:{web.port}/")
    with pytest.raises(OutboundError, match=r"^url$"):
        await outbound.fetch_json(f"http://localhost:{web.port}/")


async def test_redirects_are_not_followed(web: Web) -> None:
    web.answer = answer({}, f"Location: http://127.0.0.1:{web.port}/elsewhere", status="302 Found")

    with pytest.raises(OutboundError, match=r"^redirect 302$"):
        await own(web).fetch_json(f"http://127.0.0.1:{web.port}/")

    assert len(web.requests) == 1


async def test_proxies_of_the_environment_are_not_asked(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert (await own(web).fetch_json(f"http://127.0.0.1:{web.port}/")).document == {"a": 1}


async def test_a_body_beyond_the_limit_is_not_read(web: Web) -> None:
    web.answer = answer({"a": "x" * 500})
    outbound = own(web)

    with pytest.raises(OutboundError, match=r"^size$"):
        await outbound.fetch_json(f"http://127.0.0.1:{web.port}/", limit_bytes=500)
    assert (await outbound.fetch_json(f"http://127.0.0.1:{web.port}/", limit_bytes=600)).document == {"a": "x" * 500}


async def test_a_server_that_goes_on_slowly_is_given_up(web: Web) -> None:
    web.answer, web.dawdles = answer({"a": 1})[:-1], True

    with pytest.raises(OutboundError, match=r"^time$"):
        await own(web).fetch_json(f"http://127.0.0.1:{web.port}/", timeout=0.2)


async def test_a_name_server_that_does_not_answer_is_given_up() -> None:
    async def never(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(OutboundError, match=r"^time$"):
        await SafeHttpClient(resolve=never).fetch_json("https://clients.example/", timeout=0.05)


@pytest.mark.parametrize(
    "refused",
    [
        answer({}, kind="text/html"),
        answer({}, kind="application/jsonp"),
        answer({}, "Content-Encoding: gzip"),
        answer([1]),
        answer(None, body=b"{"),
        answer(None, body=b"[" * 60_000),
        answer(None, body=b"\xff\xfe"),
    ],
)
async def test_only_a_plain_json_object_is_taken(web: Web, refused: bytes) -> None:
    web.answer = refused

    with pytest.raises(OutboundError, match=r"^content$"):
        await own(web).fetch_json(f"http://127.0.0.1:{web.port}/")


async def test_a_reply_that_is_no_http_is_refused(web: Web) -> None:
    web.answer = b"220 mail ESMTP\r\n"

    with pytest.raises(OutboundError, match=r"^connection$"):
        await own(web).fetch_json(f"http://127.0.0.1:{web.port}/")


async def test_a_refusal_says_nothing_of_what_was_said(web: Web) -> None:
    web.answer = answer({"secret": "x"}, status="404 Nothing-of-yours")

    with pytest.raises(OutboundError) as caught:
        await own(web).fetch_json(f"http://127.0.0.1:{web.port}/?token=t")

    assert (caught.value.why, caught.value.status) == ("status", 404)
    assert str(caught.value) == "status 404"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("max-age=60", 60),
        ("public, MAX-AGE = 5, must-revalidate", 5),
        ("no-store, max-age=60", 0),
        ("no-cache", 0),
        ("s-maxage=9", None),
        ("max-age=x", None),
    ],
)
async def test_a_document_may_be_kept_as_long_as_its_server_says(web: Web, header: str, seconds: int | None) -> None:
    web.answer = answer({}, f"Cache-Control: {header}", kind="application/jwk-set+json; charset=utf-8")

    assert (await own(web).fetch_json(f"http://127.0.0.1:{web.port}/")).max_age == seconds


async def test_an_object_is_posted_as_json(web: Web) -> None:
    await own(web).post_json(f"http://127.0.0.1:{web.port}/check", {"q": "ü"}, headers={"Authorization": "Basic x"})

    head, _, body = web.requests[0].partition("\r\n\r\n")
    assert head.startswith("POST /check HTTP/1.1\r\n")
    assert {"Content-Type: application/json", "Authorization: Basic x"} <= set(head.split("\r\n"))
    assert json.loads(body) == {"q": "ü"}


def test_allowed_origins_come_from_the_settings() -> None:
    settings = OutboundSettings.read({"SKEIN_OUTBOUND_ALLOW": "http://127.0.0.1:9999, https://login.internal"})

    assert SafeHttpClient.from_settings(settings)
    with pytest.raises(SettingInvalid, match="SKEIN_OUTBOUND_ALLOW"):
        SafeHttpClient.from_settings(OutboundSettings(outbound_allow="https://login.internal/path"))
    with pytest.raises(SettingInvalid, match="SKEIN_OUTBOUND_ALLOW"):
        SafeHttpClient.from_settings(OutboundSettings(outbound_allow="login.internal"))
