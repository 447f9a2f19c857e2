"""Where one HTTP request ends and the next begins, as a socket sees it: nothing gets in between two readings."""

from __future__ import annotations

import asyncio

import grpc
from fix_catalogue import over
from fix_cluster import Cluster, Tenant, refused

from skein.memory.v1 import memory_pb2

SMUGGLED = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def request(*lines: bytes, version: bytes = b"1.1", body: bytes = b"0\r\n\r\n") -> bytes:
    start = b"POST /skein.memory.v1.MemoryService/ListMemories HTTP/" + version + b"\r\nHost: x\r\n"
    return start + b"Content-Type: application/json\r\n" + b"".join(lines) + b"\r\n" + body


async def everything_after(address: str, sent: bytes) -> bytes:
    """Send bytes and read until the other side closes."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(sent)
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.close()


@over("port", ["http", "admin"])
@over(
    "lines",
    [
        (b"Content-Length: 4\r\n", CHUNKED),
        (CHUNKED, b"Content-Length: 4\r\n"),
        (CHUNKED, b"Content-Length: 0\r\n"),
        (b"content-length: 5\r\n", b"TRANSFER-ENCODING: Chunked\r\n"),
        (b"Content-Length: 5\r\n", b"Transfer-Encoding:\r\n chunked\r\n"),
    ],
)
async def test_a_request_with_two_lengths_ends_its_connection(
    cluster: Cluster, lines: tuple[bytes, ...], port: str
) -> None:
    address = cluster.admin if port == "admin" else cluster.addresses[port]

    answer = await everything_after(address, request(*lines) + SMUGGLED)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"\r\nconnection: close\r\n" in answer.lower()


@over(
    "sent",
    [
        request(b"Content-Length: 4\r\n", b"Content-Length: 5\r\n", body=b"abcde"),
        request(b"Content-Length: 4, 5\r\n", body=b"abcde"),
        request(b"Content-Length: -1\r\n", body=b""),
        request(b"Content-Length: +4\r\n", body=b"abcd"),
        request(b"Content-Length: 0x4\r\n", body=b"abcd"),
        request(b"Content-Length: 2 2\r\n", body=b"{}"),
        request(CHUNKED, CHUNKED),
        request(b"Transfer-Encoding: gzip, chunked\r\n"),
        request(b"Transfer-Encoding: xchunked\r\n"),
        request(b"Transfer-Encoding: identity\r\n", b"Content-Length: 2\r\n", body=b"{}"),
        request(b"Transfer-Encoding : chunked\r\n", b"Content-Length: 2\r\n", body=b"{}"),
        request(b"Transfer-Encoding:\x0bchunked\r\n", b"Content-Length: 2\r\n", body=b"{}"),
        request(CHUNKED, version=b"1.0"),
    ],
)
async def test_a_request_whose_length_is_not_plain_ends_its_connection(cluster: Cluster, sent: bytes) -> None:
    answer = await everything_after(cluster.addresses["http"], sent + SMUGGLED)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


KEY = b"Authorization: Bearer x\r\n"


@over(
    "sent",
    [
        request(KEY, KEY, b"Content-Length: 2\r\n", body=b"{}"),
        request(KEY, b"authorization: Bearer y\r\n", b"Content-Length: 2\r\n", body=b"{}"),
        request(b"Content-Length: 2\n", body=b"{}"),
        request(b"X: y\nAuthorization: Bearer x\r\n", b"Content-Length: 2\r\n", body=b"{}"),
        SMUGGLED.replace(b"\r\n", b"\n"),
        SMUGGLED.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\n"),
    ],
)
async def test_headers_that_can_be_read_in_two_ways_end_their_connection(cluster: Cluster, sent: bytes) -> None:
    answer = await everything_after(cluster.addresses["http"], sent + SMUGGLED)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


async def test_the_header_of_a_later_request_is_read_as_strictly(cluster: Cluster) -> None:
    sent = request(b"Content-Length: 2\r\n", body=b"{}") + SMUGGLED.replace(b"\r\n", b"\n") + SMUGGLED

    answer = await everything_after(cluster.addresses["http"], sent)

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"HTTP/1.1 200 " not in answer


async def test_a_call_with_two_credentials_has_none(tenant: Tenant) -> None:
    get = memory_pb2.ListMemoriesRequest()

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_MISSING"):
        await tenant.memory.ListMemories(get, metadata=(("authorization", "Bearer another"),))


async def test_one_length_leaves_the_connection_open(cluster: Cluster) -> None:
    last = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    sent = request(CHUNKED, body=b"2\r\n{}\r\n0\r\n\r\n") + request(b"Content-Length: 2\r\n", body=b"{}") + last

    answer = await everything_after(cluster.addresses["http"], sent)

    assert answer.count(b"HTTP/1.1 401 ") == 2
    assert answer.count(b"HTTP/1.1 200 ") == 1
