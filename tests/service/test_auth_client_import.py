from __future__ import annotations

import hashlib
import uuid
from typing import Any

import grpc
from fix_accounts import Account
from fix_catalogue import over
from fix_cluster import Cluster, Tenant, refused
from fix_oauth import REDIRECT, App
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from skein.auth.v1 import oauth_pb2 as pb
from skein_auth.accounts.passwords import PASSWORD_OPERATIONS

SECRET = "mcs_a-secret-of-an-earlier-system"


def moving(**fields: Any) -> pb.Client:
    """Return a client as an earlier system describes it."""
    return pb.Client(
        **{
            "client_id": f"mcp_{uuid.uuid4().hex}",
            "client_name": "Claude",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "create_time": Timestamp(seconds=1_700_000_000),
            **fields,
        }
    )


async def take_over(cluster: Cluster, client: pb.Client, secret: str = "", **more: Any) -> pb.ImportClientResponse:
    secret_hash = hashlib.sha256(secret.encode()).digest() if secret else b""
    return await cluster.operator.auth.ImportClient(
        pb.ImportClientRequest(client=client, **{"secret_hash": secret_hash, **more})
    )


async def test_an_application_that_moves_in_keeps_its_id_and_goes_on_working(
    cluster: Cluster, direct: aio.Channel, tenant: Tenant, account: Account
) -> None:
    client = moving()

    kept = await take_over(cluster, client)
    tokens = await App(direct, client, "", "").tokens(account, tenant)

    assert (kept.client.client_id, kept.existed) == (client.client_id, False)
    assert kept.client.create_time == client.create_time
    assert tokens.access_token
    assert tokens.refresh_token


async def test_an_application_proves_itself_with_the_secret_that_it_had(
    cluster: Cluster, direct: aio.Channel, tenant: Tenant, account: Account
) -> None:
    client = moving(token_endpoint_auth_method="client_secret_post")
    await take_over(cluster, client, SECRET)

    tokens = await App(direct, client, SECRET, "").tokens(account, tenant)

    assert tokens.access_token
    with refused(grpc.StatusCode.UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
        await App(direct, client, SECRET + "x", "").refresh(tokens.refresh_token)
    with refused(grpc.StatusCode.UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
        await App(direct, client, hashlib.sha256(SECRET.encode()).hexdigest(), "").refresh(tokens.refresh_token)


async def test_guesses_at_an_imported_secret_become_slow_and_the_right_one_passes(
    cluster: Cluster, direct: aio.Channel
) -> None:
    hashed = PASSWORD_OPERATIONS.labels("argon2")._value  # What the metric counts is the work.
    client = moving(token_endpoint_auth_method="client_secret_post")
    await take_over(cluster, client, SECRET)
    for number in range(10):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
            await App(direct, client, f"guess {number}", "").refresh("x")
    before = hashed.get()

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await App(direct, client, "guess 10", "").refresh("x")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "OAUTH_INVALID_GRANT"):
        await App(direct, client, SECRET, "").refresh("x")

    assert hashed.get() >= before + 2


async def test_a_secret_that_expired_there_is_expired_here(
    cluster: Cluster, direct: aio.Channel, tenant: Tenant, account: Account
) -> None:
    expired = Timestamp(seconds=1_700_000_001)
    client = moving(token_endpoint_auth_method="client_secret_basic", secret_expire_time=expired)
    await take_over(cluster, client, SECRET)

    with refused(grpc.StatusCode.UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
        await App(direct, client, SECRET, "").tokens(account, tenant)


async def test_an_id_that_is_taken_stays_whose_it_is(cluster: Cluster) -> None:
    client = moving()
    await take_over(cluster, client)

    again = await take_over(cluster, moving(client_id=client.client_id, client_name="Another"))

    assert (again.client.client_name, again.existed) == ("Claude", True)


@over(
    ("fields", "secret", "reason"),
    [
        ({"client_id": ""}, "", "OAUTH_INVALID_CLIENT_METADATA"),
        ({"client_id": "x" * 256}, "", "OAUTH_INVALID_CLIENT_METADATA"),
        ({"client_id": "https://app.example/id"}, "", "OAUTH_INVALID_CLIENT_METADATA"),
        ({"client_id": "skein"}, "", "OAUTH_INVALID_CLIENT_METADATA"),
        ({}, SECRET, "OAUTH_INVALID_CLIENT_METADATA"),
        ({"token_endpoint_auth_method": "client_secret_post"}, "", "OAUTH_INVALID_CLIENT_METADATA"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "", "OAUTH_INVALID_CLIENT_METADATA"),
        ({"redirect_uris": ["http://evil.example/cb"]}, "", "OAUTH_INVALID_REDIRECT_URI"),
        ({"redirect_uris": []}, "", "OAUTH_INVALID_REDIRECT_URI"),
    ],
)
async def test_an_impossible_application_is_refused(
    cluster: Cluster, fields: dict[str, Any], secret: str, reason: str
) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, reason):
        await take_over(cluster, moving(**fields), secret)
