"""HTTP requests to untrusted URLs that cannot reach the internal network (SSRF).

It resolves a name once, checks every address, and connects to a checked address, so that a second DNS answer has no
effect. Certificate, SNI and Host use the name. It follows no redirects, uses no proxies, and limits every response.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import ipaddress
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, TypeVar

import httpx

from skein_kit.admission.fair_slots import FairSlots
from skein_kit.settings import SettingInvalid, Settings

LIMIT_BYTES = 65_536
TIMEOUT_SECONDS = 5.0
# Addresses of one name that are tried at most.
_MAX_TRIES = 3
# The only public IPv6 addresses, and the prefix that embeds IPv4 addresses (RFC 6052).
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# Addresses that the registries call global, but that are not public: Azure's service for its own machines, relays of
# 6to4 (RFC 7526), protocol assignments (RFC 2928) and documentation (RFC 9637).
_NOT_PUBLIC = (
    IPv4Network("168.63.129.16/32"),
    IPv4Network("192.88.99.0/24"),
    IPv6Network("2001::/23"),
    IPv6Network("3fff::/20"),
)
# Interface ids that contain the IPv4 address of a tunnel (ISATAP, RFC 5214), without the "unique" bit.
_ISATAP, _UNIQUE = 0x0000_5EFE, 0x0200_0000
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json\s*(?:;|$)", re.IGNORECASE)
_MAX_AGE = re.compile(r"(?:^|,)\s*max-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_NO_CACHE = re.compile(r"(?:^|,)\s*no-(?:store|cache)\s*(?:=|,|$)", re.IGNORECASE)
_DIGITS = re.compile(r"[0-9]{1,9}")
_PORTS = {"http": 80, "https": 443}
_MAX_PORT = 65_536

Address = IPv4Address | IPv6Address
Result = TypeVar("Result")
# Lookups at a time: of one process, and of one owner.
_TOTAL = 256
_PER_OWNER = 4


class OutboundError(Exception):
    """A request failed; `why` is one of these words, never text of the other side.

    "url", "name" (does not resolve), "address" (not public), "connection", "time", "redirect", "status",
    "size" or "content".
    """

    def __init__(self, why: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        """`status` is the HTTP status, if there is one; `retry_after` is in seconds."""
        super().__init__(why if status is None else f"{why} {status}")
        self.why = why
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, kw_only=True)
class OutboundSettings(Settings):
    """Settings of requests to untrusted URLs."""

    # Origins such as "http://127.0.0.1:9999 https://login.internal", separated by spaces or commas. Requests to them
    # may use http and private addresses. For tests and private installations: each origin exposes every document of
    # that server to requests of Skein.
    outbound_allow: str = ""


@dataclass(frozen=True, slots=True)
class JsonResponse:
    """A JSON object, and the seconds for which it may be cached; None when the server does not say."""

    document: dict[str, Any]
    max_age: int | None


class SafeHttpClient:
    """An HTTP client for untrusted URLs that exchange JSON objects."""

    def __init__(
        self,
        *,
        allow: Sequence[str] = (),
        resolve: Callable[[str, int], Awaitable[Sequence[str]]] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Use `tls` instead of public_tls_context(). Raises SettingInvalid for an invalid allowed origin."""
        self._allowed = frozenset(_allowed(text) for text in allow)
        self._resolve = Resolver().resolve if resolve is None else lambda host, port, _owner: resolve(host, port)
        self._tls = tls or public_tls_context()

    @classmethod
    def from_settings(cls, settings: OutboundSettings) -> SafeHttpClient:
        """Create a client. Raises SettingInvalid for an invalid allowed origin."""
        return cls(allow=settings.outbound_allow.replace(",", " ").split())

    async def fetch_json(
        self,
        url: str,
        *,
        limit_bytes: int = LIMIT_BYTES,
        timeout: float = TIMEOUT_SECONDS,
        headers: Mapping[str, str] | None = None,
        owner: str = "",
    ) -> JsonResponse:
        """Get one JSON object. Raises OutboundError. Slow name servers delay only requests of the same `owner`."""
        read = functools.partial(_read_json, limit_bytes=limit_bytes)
        return await self._request("GET", url, timeout=timeout, headers=headers, read=read, owner=owner)

    async def post_json(
        self,
        url: str,
        body: Mapping[str, object],
        *,
        limit_bytes: int = LIMIT_BYTES,
        timeout: float = TIMEOUT_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> JsonResponse:
        """Post a JSON object and return the one in the response. Raises OutboundError. It is sent at most once."""
        content = json.dumps(body).encode()
        read = functools.partial(_read_json, limit_bytes=limit_bytes)
        return await self._request("POST", url, timeout=timeout, headers=headers, content=content, read=read)

    async def send(
        self, url: str, body: bytes, *, headers: Mapping[str, str], timeout: float = TIMEOUT_SECONDS, owner: str = ""
    ) -> None:
        """Post JSON text. Raises OutboundError unless the status is 2xx; the body of the response is ignored."""
        await self._request(
            "POST", url, timeout=timeout, headers=headers, content=body, read=_require_acceptable, owner=owner
        )

    async def _request(
        self,
        method: str,
        url: str,
        *,
        timeout: float,
        headers: Mapping[str, str] | None,
        read: Callable[[httpx.Response], Awaitable[Result]],
        content: bytes | None = None,
        owner: str = "",
    ) -> Result:
        target = _target(url)
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._addresses(target, owner)
                for number, address in enumerate(addresses, 1):
                    request = _request(method, target, address, headers or {}, content)
                    try:
                        # The time is divided among the addresses, so that a dead one does not use it all.
                        return await self._send(request, read, timeout / len(addresses))
                    except (httpx.ConnectError, httpx.ConnectTimeout):
                        if number == len(addresses):
                            raise
        except (TimeoutError, httpx.TimeoutException):
            raise OutboundError("time") from None
        except httpx.HTTPError:
            raise OutboundError("connection") from None
        raise OutboundError("name")

    def require_allowed_url(self, url: str) -> None:
        """Raise OutboundError for a URL that is malformed or not https; do not resolve its name."""
        target = _target(url)
        if target.scheme != "https" and _origin(target) not in self._allowed:
            raise OutboundError("url")

    async def _addresses(self, target: httpx.URL, owner: str) -> Sequence[Address]:
        """Resolve the target's name once and check every address; return at least one. Raises OutboundError."""
        origin = _origin(target)
        if target.scheme != "https" and origin not in self._allowed:
            raise OutboundError("url")
        try:
            names = await self._resolve(target.raw_host.decode("ascii"), origin[2], owner)
            addresses = [_address(text) for text in names]
        except (OSError, ValueError):
            raise OutboundError("name") from None
        if origin not in self._allowed and not all(is_public(address) for address in addresses):
            raise OutboundError("address")
        return addresses[:_MAX_TRIES]

    async def _send(
        self, request: httpx.Request, read: Callable[[httpx.Response], Awaitable[Result]], connect_seconds: float
    ) -> Result:
        # One client per request: it pools connections by address, and one address may serve many names.
        limits = httpx.Timeout(None, connect=connect_seconds)
        async with httpx.AsyncClient(verify=self._tls, trust_env=False, timeout=limits) as client:
            request.extensions["timeout"] = limits.as_dict()
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                return await read(response)
            finally:
                await response.aclose()


def public_tls_context() -> ssl.SSLContext:
    """Return TLS that trusts the public authorities, or those in SSL_CERT_FILE or SSL_CERT_DIR."""
    return _public_tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.cache
def _public_tls_context(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    """Return one context for all clients of these authorities: reading the public ones takes some 30 ms."""
    return httpx.create_ssl_context()


def is_public(address: Address | None) -> bool:
    """Return whether an address is public; one that embeds an IPv4 address is public if that is.

    6to4, Teredo and ISATAP are never public: no server has such an address, and the end of their tunnels is unknown.
    """
    if address is None:
        return False
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
        is_isatap = (int(address) >> 32) & 0xFFFF_FFFF & ~_UNIQUE == _ISATAP
        if address not in _GLOBAL_UNICAST or address.sixtofour or address.teredo or is_isatap:
            return False
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _address(text: str) -> Address:
    """Parse an address of a resolver; one with a zone (fe80::1%eth0) is link-local and keeps its zone."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise OutboundError("address") from None


def _target(url: str) -> httpx.URL:
    try:
        target = httpx.URL(url)
        is_complete = target.scheme in _PORTS and 0 < _origin(target)[2] < _MAX_PORT
    except (httpx.InvalidURL, ValueError):
        raise OutboundError("url") from None
    # A name needs no escaping, and an address with a zone is not public.
    if (
        not is_complete
        or not _HOST.fullmatch(target.raw_host.decode("ascii").lower())
        or target.userinfo
        or target.fragment
    ):
        raise OutboundError("url")
    return target


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, _PORTS[url.scheme] if url.port is None else url.port


def _allowed(text: str) -> tuple[str, str, int]:
    try:
        url = _target(text)
    except OutboundError:
        url = None
    if url is None or url.raw_path != b"/":
        message = "SKEIN_OUTBOUND_ALLOW names something that is no origin, such as https://login.internal:8443."
        raise SettingInvalid(message)
    return _origin(url)


def _request(
    method: str, target: httpx.URL, address: Address, headers: Mapping[str, str], content: bytes | None
) -> httpx.Request:
    """Return a request that is sent to the address, with the name in Host and SNI."""
    host = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
    request_headers = {
        **headers,
        "Host": target.netloc.decode("ascii"),
        "User-Agent": "skein",
        # A few compressed bytes could expand without limit.
        "Accept-Encoding": "identity",
        "Connection": "close",
    }
    request_headers.setdefault("Accept", "application/json")
    if content is not None:
        request_headers["Content-Type"] = "application/json"
    name = target.raw_host.decode("ascii")
    return httpx.Request(
        method, target.copy_with(host=host), headers=request_headers, content=content, extensions={"sni_hostname": name}
    )


async def _require_acceptable(response: httpx.Response) -> None:
    if response.is_redirect:
        raise OutboundError("redirect", status=response.status_code)
    if not response.is_success:
        raise OutboundError("status", status=response.status_code)


async def _read_json(response: httpx.Response, limit_bytes: int) -> JsonResponse:
    if response.is_redirect:
        raise OutboundError("redirect", status=response.status_code)
    if response.status_code != httpx.codes.OK:
        retry_after = _seconds(response.headers.get("retry-after", ""))
        raise OutboundError("status", status=response.status_code, retry_after=retry_after)
    if not _JSON.match(response.headers.get("content-type", "")):
        raise OutboundError("content")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise OutboundError("content")
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > limit_bytes:
            raise OutboundError("size")
    try:
        document = json.loads(bytes(body))
    except (ValueError, RecursionError):
        raise OutboundError("content") from None
    if not isinstance(document, dict):
        raise OutboundError("content")
    return JsonResponse(document, _max_age(response.headers.get("cache-control", "")))


def _max_age(cache_control: str) -> int | None:
    if _NO_CACHE.search(cache_control):
        return 0
    match = _MAX_AGE.search(cache_control)
    return None if match is None else int(match.group(1))


def _seconds(retry_after: str) -> float | None:
    """Return the seconds of a Retry-After header, which may be a time; None for others."""
    if _DIGITS.fullmatch(retry_after.strip()):
        return float(retry_after)
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    # An HTTP date always has a zone.
    return None if at.tzinfo is None else max(0.0, at.timestamp() - time.time())


class Resolver:
    """Looks up at most 256 names at a time, at most four of them for one owner.

    The system's resolver blocks, for a minute or more when name servers do not answer, and cannot be cancelled. So each
    lookup has a thread, and keeps its slot until that thread returns, whether or not the caller still waits.
    """

    def __init__(self) -> None:
        """Start without lookups."""
        self._slots = FairSlots(_TOTAL, per_owner=_PER_OWNER)
        self._slot_releases: set[asyncio.Future[None]] = set()

    async def resolve(self, host: str, port: int, owner: str) -> list[str]:
        """Return the addresses of a name, once the owner has a slot. The caller sets the deadline. Raises OSError."""
        loop = asyncio.get_running_loop()
        while not self._slots.free_for(owner):
            slot_release = loop.create_future()
            self._slot_releases.add(slot_release)
            try:
                await slot_release
            finally:
                self._slot_releases.discard(slot_release)
        self._slots.take(owner)
        result: asyncio.Future[Sequence[Any]] = loop.create_future()

        def end(addresses: Sequence[Any], error: Exception | None) -> None:
            self._release(owner)
            if result.done():
                return
            if error is None:
                result.set_result(addresses)
            else:
                result.set_exception(error)

        def look_up() -> None:
            addresses: Sequence[Any] = ()
            error: Exception | None = None
            try:
                addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except Exception as exception:  # noqa: BLE001 - it belongs to the caller.
                error = exception
            # The loop is closed: the process stops, and no caller waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(end, addresses, error)

        # A daemon thread does not keep the process alive.
        thread = threading.Thread(target=look_up, name="resolver", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._release(owner)
            raise OSError(errno.EAGAIN, "no thread") from None
        return list(dict.fromkeys(str(entry[4][0]) for entry in await result))

    def _release(self, owner: str) -> None:
        self._slots.release(owner)
        for slot_release in self._slot_releases:
            if not slot_release.done():
                slot_release.set_result(None)
