"""Learning a secret, or whether a row exists, from what a refusal costs.

Attack: secrets are tried that are right in more and more of their beginning, for rows that exist and for rows that do
not, and the work that each refusal takes is compared.
May be seen: the same words for all of them.
May be spent: the same queries for all of them; every comparison takes the same time wherever two texts differ.
"""

from __future__ import annotations

import ast
import dataclasses
import uuid
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest
from fix_accounts import Account
from fix_cluster import Cluster, Tenant, reason_in
from fix_metrics import counted
from fix_oauth import App
from grpc import aio

import skein_auth
import skein_gateway
import skein_kit
import skein_tenancy
from skein.auth.v1 import accounts_pb2, auth_pb2, auth_pb2_grpc, oauth_pb2
from skein_auth.api_keys.model import ApiKeyToken
from skein_auth.auth_sessions import model as grants
from skein_auth.oauth_clients import model as clients
from skein_kit.database.transactions import NO_TENANT
from skein_kit.identity.bearer_token import BearerToken

# Names of what must not be compared character by character.
SECRETS = frozenset(
    {
        "authorization", "bearer", "challenge", "check_digits", "client_secret", "code_verifier", "csrf",
        "key_session_id", "password", "password_hash", "registration_hash", "secret", "secret_hash", "signature",
        "system_key", "verifier",
    }
)  # fmt: skip


def auth_queries(names: Iterable[str]) -> list[float]:
    """Return how often auth made each named query."""
    return [counted("skein_database_query_duration_seconds_count", service="auth", query=name) for name in names]


async def refusal(call: Callable[[], Awaitable[object]], *names: str) -> tuple[str, str, list[float]]:
    """Return the words of a refusal, its reason, and how often it made some queries."""
    before = auth_queries(names)
    with pytest.raises(aio.AioRpcError) as caught:
        await call()
    spent = [after - already for after, already in zip(auth_queries(names), before, strict=True)]
    return caught.value.details() or "", reason_in(caught.value), spent


def wrong_after(secret: bytes, right: int) -> bytes:
    """Return a secret of which the first bytes are right, and no other."""
    return secret[:right] + bytes(byte ^ 0xFF for byte in secret[right:])


def exchanging(channel: aio.Channel, key: ApiKeyToken) -> Callable[[], Awaitable[object]]:
    request = auth_pb2.ExchangeRequest(bearer=key.encode())
    return lambda: auth_pb2_grpc.AuthInternalServiceStub(channel).Exchange(request)


@pytest.mark.system
async def test_a_key_that_is_nearly_right_is_refused_like_one_of_no_row(cluster: Cluster, direct: aio.Channel) -> None:
    """The operator's, because the keys of tenants are looked up meanwhile by what else goes on in the cluster."""
    real = ApiKeyToken.parse(cluster.operator_key)
    assert real is not None
    # Without check digits, with which none of them gets as far as a query.
    tried = [dataclasses.replace(real, secret=wrong_after(real.secret, right), mac=b"") for right in (0, 16, 31)]
    tried.append(ApiKeyToken.new(NO_TENANT, uuid.uuid4()))

    results = [await refusal(exchanging(direct, key), "find_operator_key") for key in tried]

    assert results == [results[0]] * len(tried)
    assert results[0][1:] == ("CREDENTIAL_INVALID", [1.0])


@pytest.mark.system
async def test_check_digits_that_are_nearly_right_are_refused_without_a_query(
    cluster: Cluster, direct: aio.Channel
) -> None:
    real = ApiKeyToken.parse(cluster.operator_key)
    assert real is not None
    tried = [dataclasses.replace(real, mac=wrong_after(real.mac, right)) for right in (0, 6, 11)]
    tried.append(dataclasses.replace(real, secret=wrong_after(real.secret, 31)))

    results = [await refusal(exchanging(direct, key), "find_operator_key") for key in tried]

    assert results == [results[0]] * len(tried)
    assert results[0][1:] == ("CREDENTIAL_INVALID", [0.0])


async def test_a_tenants_key_is_refused_in_the_same_words_whatever_is_right_of_it(
    tenant: Tenant, direct: aio.Channel
) -> None:
    real = ApiKeyToken.parse(tenant.api_key)
    assert real is not None
    tried = [
        dataclasses.replace(real, secret=wrong_after(real.secret, 31)),
        dataclasses.replace(real, secret=wrong_after(real.secret, 31), mac=b""),
        ApiKeyToken.new(tenant.tenant_id, uuid.uuid4()),
        ApiKeyToken.new(uuid.uuid4(), uuid.uuid4()),
    ]

    results = [(await refusal(exchanging(direct, key)))[:2] for key in tried]

    assert results == [results[0]] * len(tried)


@pytest.mark.system
async def test_a_client_that_is_not_there_is_refused_like_one_with_another_secret(app: App) -> None:
    real = BearerToken.decode(clients.SECRET_PREFIX, app.secret)
    assert real is not None
    names = ("get_client", "reserve_attempts", "record_attempt_outcomes")

    def revoking(client_id: str, secret: str) -> Callable[[], Awaitable[object]]:
        proof = oauth_pb2.ClientAuthentication(
            client_id=client_id, client_secret=secret, method=app.client.token_endpoint_auth_method
        )
        return lambda: app.oauth.RevokeToken(oauth_pb2.RevokeTokenRequest(client=proof, token="x" * 32))

    nearly = dataclasses.replace(real, secret=wrong_after(real.secret, 31)).encode()
    wrong = BearerToken.generate(clients.SECRET_PREFIX, NO_TENANT, real.token_id).encode()
    unknown_client = str(uuid.uuid4())

    results = [
        await refusal(revoking(app.client.client_id, nearly), *names),
        await refusal(revoking(app.client.client_id, wrong), *names),
        await refusal(revoking(unknown_client, wrong), *names),
    ]

    assert results == [results[0]] * 3
    assert results[0][1] == "OAUTH_INVALID_CLIENT"


async def test_a_refresh_token_that_is_nearly_right_ends_nothing_and_says_nothing(
    cluster: Cluster, account: Account
) -> None:
    real = BearerToken.decode(grants.REFRESH_PREFIX, account.refresh_token)
    assert real is not None
    tried = [dataclasses.replace(real, secret=wrong_after(real.secret, right)).encode() for right in (0, 16, 31)]
    tried.append(BearerToken.generate(grants.REFRESH_PREFIX, NO_TENANT, uuid.uuid4()).encode())

    def refreshing(token: str) -> Callable[[], Awaitable[accounts_pb2.RefreshSessionResponse]]:
        request = accounts_pb2.RefreshSessionRequest(refresh_token=token)
        return lambda: cluster.anonymous.auth.RefreshSession(request)

    results = [(await refusal(refreshing(token)))[:2] for token in tried]

    assert results == [results[0]] * len(tried)
    assert (await refreshing(account.refresh_token)()).tokens.access_token


@pytest.mark.system
def test_no_secret_is_compared_character_by_character() -> None:
    """`==` ends at the first byte that differs; hmac.compare_digest does not."""
    results = []
    for package in (skein_auth, skein_gateway, skein_tenancy, skein_kit):
        for path in sorted(Path(package.__file__ or "").parent.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Compare) and any(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops):
                    sides = [node.left, *node.comparators]
                    if SECRETS & {_name(side) for side in sides} and not any(map(_is_public, sides)):
                        results.append(f"{path.name}:{node.lineno}")

    assert not results, results


def _name(side: ast.expr) -> str:
    """Return the last name of an expression such as `row["secret_hash"]`, `self.secret` or `secret.encode()`."""
    if isinstance(side, ast.Call):
        is_same = isinstance(side.func, ast.Attribute) and side.func.attr in {"digest", "encode", "hex", "hexdigest"}
        return _name(side.func.value) if is_same else ""  # type: ignore[attr-defined]
    if isinstance(side, ast.Subscript):
        return str(side.slice.value) if isinstance(side.slice, ast.Constant) else ""
    return side.attr if isinstance(side, ast.Attribute) else side.id if isinstance(side, ast.Name) else ""


def _is_public(side: ast.expr) -> bool:
    """Return whether a side is a literal in the code, so that finding it out reveals nothing."""
    return isinstance(side, ast.Constant)
