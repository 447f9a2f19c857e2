"""Addresses that callers name: none of their spellings leads the cluster into its own network.

Attack: webhooks, client documents and model endpoints that name a private address in every form that is known.
May be seen: a refusal of the form, or the word "unreachable"; nothing of what listens there.
May be spent: not one connection to a private address, and one lookup for each attempt.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import grpc
import httpx
import pytest
from fix_catalogue import over
from fix_cluster import Cluster, Stubs, Tenant, reason_in
from grpc import aio

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import webhooks_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_kit.outbound.fetch import OutboundError, SafeHttpClient, is_public

# Hosts that are, or would be for a careless reader, this machine or its network.
HOSTS = [
    "127.0.0.1", "127.0.0.1.", "127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "0",
    "0.0.0.0", "localhost", "localhost.", "LOCALHOST", "[::1]", "[::]", "[::ffff:127.0.0.1]",  # noqa: S104
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]",
    "[2002:7f00:1::1]", "[2001:0:7f00:1::1]", "[fe80::1]", "[fe80::1%25lo]", "[fe80::1%lo]", "[fec0::1]", "[fc00::1]",
    "[fd00:ec2::254]", "[ff02::1]", "[2606:4700::5efe:127.0.0.1]", "[2606:4700::200:5efe:7f00:1]", "10.0.0.1",
    "172.16.0.1", "192.168.0.1", "100.64.0.1", "100.100.100.200", "169.254.169.254", "168.63.129.16", "192.0.0.192",
    "192.88.99.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "127。0。0。1",
    "user@127.0.0.1", "example.com@127.0.0.1", "127.0.0.1%00.example.com", "127.0.0.1\\@example.com",
    "127.0.0.1\\.example.com", "127.0.0.1#@example.com", "127.0.0.1\r\nHost: x", "127.0.0.1\t", "①②⑦.0.0.1",
    "%31%32%37.0.0.1",
]  # fmt: skip
PRIVATE = [
    "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "168.63.129.16", "169.254.169.254",  # noqa: S104
    "172.31.0.1", "192.0.0.192",
    "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b::10.0.0.1",
    "64:ff9b:1::10.0.0.1", "100::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:a00:1::1",
    "3fff::1", "5f00::1", "fc00::1", "fd00::1", "fe80::1", "fec0::1", "ff02::1", "2606:4700::5efe:10.0.0.1",
]  # fmt: skip


@asynccontextmanager
async def trap() -> AsyncIterator[tuple[int, list[str]]]:
    """Listen on this machine, where nothing of the cluster may connect."""
    caught: list[str] = []

    async def take(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caught.append(str(writer.get_extra_info("peername")))
        writer.close()

    servers = [await asyncio.start_server(take, "127.0.0.1", 0)]
    port = servers[0].sockets[0].getsockname()[1]
    if socket.has_ipv6:
        servers.append(await asyncio.start_server(take, "::1", port))
    try:
        yield port, caught
    finally:
        for server in servers:
            server.close()


@pytest.mark.system
async def test_no_webhook_reaches_a_private_address(tenant: Tenant) -> None:
    webhook = pb.Webhook(display_name="w", event_types=["*"], webhook_url="https://hooks.example.com/")
    made = (await tenant.history.CreateWebhook(pb.CreateWebhookRequest(webhook=webhook))).webhook
    seen = {}
    async with trap() as (port, caught):
        for host in HOSTS:
            made.webhook_url = f"https://{host}:{port}/hook"
            request = pb.UpdateWebhookRequest(webhook=made, update_mask={"paths": ["webhook_url"]})
            request.webhook.revision = 0
            try:
                await tenant.history.UpdateWebhook(request)
            except aio.AioRpcError as error:
                seen[host] = reason_in(error)
                continue
            tested = await tenant.history.TestWebhook(pb.TestWebhookRequest(webhook_id=made.webhook_id))
            seen[host] = tested.error

    assert caught == []
    assert set(seen.values()) <= {"INVALID_FIELD", "unreachable"}, seen
    assert len(seen) == len(HOSTS)


async def test_a_reader_sees_no_path_of_a_webhook(cluster: Cluster, tenant: Tenant) -> None:
    url = "https://hooks.example.com:8443/services/T000/secret?token=secret"
    webhook = pb.Webhook(display_name="w", event_types=["*"], webhook_url=url)
    made = (await tenant.history.CreateWebhook(pb.CreateWebhookRequest(webhook=webhook))).webhook
    request = auth_pb2.CreateApiKeyRequest(display_name="reader", permissions=["memory.read", "memory.write"])
    reader = cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)

    async def urls(caller: Stubs) -> set[str]:
        listed = (await caller.history.ListWebhooks(pb.ListWebhooksRequest())).webhooks
        one = (await caller.history.GetWebhook(pb.GetWebhookRequest(webhook_id=made.webhook_id))).webhook
        return {each.webhook_url for each in (*listed, one)}

    assert await urls(reader) == {"https://hooks.example.com:8443"}
    assert await urls(tenant) == {url}


async def test_a_webhook_of_another_scheme_is_refused(tenant: Tenant) -> None:
    for url in (
        "http://example.com/",
        "file:///etc/passwd",
        "gopher://x/",
        "ftp://x/",
        "//x/",
        "https:x",
        "javascript:1",
    ):
        webhook = pb.Webhook(display_name="w", event_types=["*"], webhook_url=url)
        with pytest.raises(aio.AioRpcError) as caught:
            await tenant.history.CreateWebhook(pb.CreateWebhookRequest(webhook=webhook))
        assert (caught.value.code(), reason_in(caught.value)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")


async def test_no_client_document_is_fetched_from_a_private_address(cluster: Cluster) -> None:
    async with trap() as (port, caught), httpx.AsyncClient(base_url=f"http://{cluster.addresses['http']}") as web:
        for host in HOSTS[:12]:
            fields = {
                "response_type": "code",
                "client_id": f"https://{host}:{port}/client.json",
                "redirect_uri": "https://app.example.com/back",
                "code_challenge": "x" * 43,
                "code_challenge_method": "S256",
                "state": "s",
            }
            answer = await web.get("/authorize", params=fields)
            assert answer.status_code in {400, 429}, (host, answer.text)

    assert caught == []


async def test_no_model_is_asked_at_a_private_address(cluster: Cluster) -> None:
    async with trap() as (port, caught):
        for host in ("127.0.0.1", "[::1]", "localhost", "2130706433"):
            model = recall_pb2.EmbeddingModel(
                model=f"m-{uuid4().hex[:8]}", provider="openai", dimensions=8, endpoint=f"http://{host}:{port}/v1"
            )
            with pytest.raises(aio.AioRpcError) as refused:
                await cluster.operator.recall.RegisterEmbeddingModel(
                    recall_pb2.RegisterEmbeddingModelRequest(embedding_model=model)
                )
            assert reason_in(refused.value) == "INVALID_FIELD"

    assert caught == []


@over("address", PRIVATE)
def test_an_address_of_no_public_server_is_none(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@over("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::8.8.8.8", "2001:4860::1"])
def test_an_address_of_a_public_server_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


async def test_a_name_that_changes_its_address_is_asked_once_and_judged_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    async with trap() as (port, caught):
        requests = []
        answers = iter([["93.184.216.34", "127.0.0.1"], ["127.0.0.1"], ["::ffff:127.0.0.1"]])

        def rebinding(host: str, at: int, **_: object) -> list[Any]:
            requests.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, at)) for address in next(answers)]

        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        for number in (1, 2, 3):
            with pytest.raises(OutboundError, match=r"^address$"):
                await SafeHttpClient().fetch_json(f"https://rebinding.example:{port}/")
            assert len(requests) == number

    assert caught == []


async def test_a_redirect_into_the_network_is_not_followed() -> None:
    status, place = 0, ""

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} Go\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with trap() as (port, caught), await asyncio.start_server(redirect, "127.0.0.1", 0) as server:
        origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        outbound = SafeHttpClient(allow=[origin])
        for status in (301, 302, 303, 307, 308):
            for place in (f"http://127.0.0.1:{port}/", f"//127.0.0.1:{port}/", f"https://[::1]:{port}/"):  # noqa: B007
                with pytest.raises(OutboundError, match=f"^redirect {status}$"):
                    await outbound.fetch_json(f"{origin}/")
                with pytest.raises(OutboundError, match=f"^redirect {status}$"):
                    await outbound.send(f"{origin}/", json.dumps({}).encode(), headers={})

    assert caught == []
