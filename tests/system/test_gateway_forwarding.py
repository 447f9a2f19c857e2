"""What the gateway does about a proxy that SKEIN_TRUSTED_PROXIES does not name."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fix_cluster import Cluster
from fix_http import TLS, get

from skein.auth.v1 import auth_pb2

METRIC = "skein_gateway_untrusted_forwarded_calls_total"


async def counted(cluster: Cluster) -> float:
    _, text = await get(cluster.admins["gateway"], "/metrics")
    (line,) = [line for line in text.splitlines() if line.startswith(f"{METRIC} ")]
    return float(line.rpartition(" ")[2])


async def over_grpc(cluster: Cluster, header: str, value: str) -> None:
    await cluster.anonymous.auth.ListSigningKeys(auth_pb2.ListSigningKeysRequest(), metadata=((header, value),))


async def over_http(cluster: Cluster, path: str, header: str, value: str, **request: Any) -> None:
    async with httpx.AsyncClient(trust_env=False, verify=TLS, timeout=30) as client:
        await client.post(f"http://{cluster.addresses['http']}{path}", headers={header: value}, **request)


@pytest.mark.parametrize(("header", "value"), [("x-forwarded-for", "203.0.113.7"), ("forwarded", "for=203.0.113.7")])
async def test_calls_of_a_proxy_that_is_not_trusted_are_counted(cluster: Cluster, header: str, value: str) -> None:
    before = await counted(cluster)

    await over_grpc(cluster, header, value)
    await over_http(cluster, "/skein.auth.v1.AuthService/ListSigningKeys", header, value, json={})
    await over_http(cluster, "/token", header, value, data={"grant_type": "refresh_token"})

    assert await counted(cluster) == before + 3
