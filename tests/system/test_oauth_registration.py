from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest
from fix_auth import run_auth_server
from fix_certificates import certified
from fix_cluster import refused
from fix_database import TestDatabase
from fix_oauth import App
from joserfc import jwt
from joserfc.jwk import ECKey

from skein.auth.v1 import oauth_pb2, oauth_pb2_grpc
from skein_auth.accounts.passwords import Passwords
from skein_auth.assertions.client_assertions import ClientAssertions
from skein_auth.attempts import limiter
from skein_auth.attempts.limiter import AttemptLimiter, limits
from skein_auth.attempts.store import AttemptStore
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.audit.store import AuditStore
from skein_auth.errors import ClientUnknown, InvalidClient
from skein_auth.oauth_clients.model import ClientCredentials
from skein_auth.oauth_clients.registry import ClientRegistry
from skein_auth.oauth_clients.store import ClientStore
from skein_auth.settings import AuthSettings
from skein_kit.database.transactions import Database
from skein_kit.ids import now
from skein_kit.outbound.fetch import SafeHttpClient

INVALID = grpc.StatusCode.INVALID_ARGUMENT
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
INITIAL = "an initial access token of many characters"
BACK = "https://app.test/back"
ISSUER = "https://skein.example"
KEY = ECKey.generate_key("P-256", {"kid": "first"})
OTHER_KEY = ECKey.generate_key("P-256", {"kid": "second"})


def request(token: str = "", **fields: Any) -> oauth_pb2.RegisterClientRequest:
    client = oauth_pb2.Client(**{"redirect_uris": [BACK], "client_name": "An app", **fields})
    return oauth_pb2.RegisterClientRequest(client=client, initial_access_token=token)


async def test_anybody_registers_an_application(database: TestDatabase) -> None:
    async with run_auth_server(database) as auth:
        oauth = oauth_pb2_grpc.OAuthServiceStub(auth.channel)
        secret = await oauth.RegisterClient(request())
        public = await oauth.RegisterClient(request(token_endpoint_auth_method="none"))
        server = await oauth.GetServerMetadata(oauth_pb2.GetServerMetadataRequest())

    assert secret.client.client_id != public.client.client_id
    assert secret.client.token_endpoint_auth_method == "client_secret_basic"
    assert secret.client_secret.startswith("skein_cs_")
    assert public.client_secret == ""
    assert public.registration_access_token.startswith("skein_reg_")
    assert server.registration_open
    assert list(server.resources) == ["https://skein.test", "https://skein.test/mcp"]
    kept = await auth.rows("SELECT client_id, secret_hash FROM auth.clients WHERE secret_hash IS NOT NULL")
    assert [row["client_id"] for row in kept] == [secret.client.client_id]


async def test_a_client_that_describes_itself_badly_is_not_registered(database: TestDatabase) -> None:
    async with run_auth_server(database) as auth:
        oauth = oauth_pb2_grpc.OAuthServiceStub(auth.channel)
        with refused(INVALID, "OAUTH_INVALID_REDIRECT_URI"):
            await oauth.RegisterClient(request(redirect_uris=["http://app.test/back"]))
        with refused(INVALID, "OAUTH_INVALID_CLIENT_METADATA"):
            await oauth.RegisterClient(request(grant_types=["password"]))
        assert not await auth.rows("SELECT FROM auth.clients")


async def test_registration_may_need_a_token(database: TestDatabase) -> None:
    async with run_auth_server(database, SKEIN_REGISTRATION="token", SKEIN_INITIAL_ACCESS_TOKEN=INITIAL) as auth:
        oauth = oauth_pb2_grpc.OAuthServiceStub(auth.channel)
        for token in ("", "x", INITIAL + "x"):
            with refused(UNAUTHENTICATED, "OAUTH_INVALID_TOKEN"):
                await oauth.RegisterClient(request(token))
        registered = await oauth.RegisterClient(request(INITIAL))
        server = await oauth.GetServerMetadata(oauth_pb2.GetServerMetadataRequest())

    assert registered.client.client_id
    assert not server.registration_open


async def test_registration_may_be_closed(database: TestDatabase) -> None:
    async with run_auth_server(database, SKEIN_REGISTRATION="closed", SKEIN_INITIAL_ACCESS_TOKEN=INITIAL) as auth:
        oauth = oauth_pb2_grpc.OAuthServiceStub(auth.channel)
        for token in ("", INITIAL):
            with refused(UNAUTHENTICATED, "OAUTH_INVALID_TOKEN"):
                await oauth.RegisterClient(request(token))


async def test_wrong_secrets_of_a_client_end_in_a_wait_that_its_right_secret_does_not_need(
    database: TestDatabase,
) -> None:
    async with run_auth_server(database, SKEIN_ADVANCED_MAX_ATTEMPTS="3") as auth:
        oauth = oauth_pb2_grpc.OAuthServiceStub(auth.channel)
        made = await oauth.RegisterClient(request())

        async def revoke(secret: str) -> None:
            proof = oauth_pb2.ClientAuthentication(
                client_id=made.client.client_id, client_secret=secret, method="client_secret_basic"
            )
            await oauth.RevokeToken(oauth_pb2.RevokeTokenRequest(client=proof, token="x"))

        for _ in range(6):
            await revoke(made.client_secret)
        for _ in range(3):
            with refused(UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
                await revoke("wrong")
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
            await revoke("wrong")
        await revoke(made.client_secret)


async def test_a_bearer_of_the_initial_access_token_does_not_wait_for_others_of_the_address(
    database: TestDatabase,
) -> None:
    address = (("skein-client-address", "192.0.2.1"),)
    limits = {"SKEIN_ADVANCED_ADDRESS_LIMIT_FACTOR": "0.01"}
    async with run_auth_server(
        database, SKEIN_REGISTRATION="token", SKEIN_INITIAL_ACCESS_TOKEN=INITIAL, **limits
    ) as auth:
        oauth = oauth_pb2_grpc.OAuthServiceStub(auth.channel)
        for _ in range(2):
            assert (await oauth.RegisterClient(request(INITIAL), metadata=address)).client.client_id


async def test_a_client_with_a_secret_starts_devices_where_public_ones_of_the_address_wait(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "DEVICE_STARTS", 1)
    address = (("skein-client-address", "192.0.2.1"),)
    async with run_auth_server(database) as auth:
        public = await App.registered(auth.channel, token_endpoint_auth_method="none")
        confidential = await App.registered(auth.channel)

        async def start(app: App) -> None:
            started = oauth_pb2.StartDeviceAuthorizationRequest(client=app.proof, scope="openid")
            await app.oauth.StartDeviceAuthorization(started, metadata=address)

        await start(public)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
            await start(public)
        await start(confidential)


@dataclass
class Site:
    """A site with a document; a test changes what it says."""

    url: str = ""
    document: dict[str, Any] = field(default_factory=dict)
    cache_control: str = ""
    request_count: int = 0


@contextmanager
def served(site: Site, tls: ssl.SSLContext) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.request_count += 1
            body = json.dumps(site.document).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.send_header("cache-control", site.cache_control)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    site.url = f"https://app.test:{server.server_port}/client.json"
    site.document = {"client_id": site.url, "client_name": "An app", "redirect_uris": [BACK]}
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return certified(tmp_path, "app.test")


@pytest.fixture
def site(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Site]:
    result = Site()
    with served(result, tls[0]):
        yield result


@pytest.fixture
async def store(database: TestDatabase) -> AsyncIterator[Database]:
    async with Database.open(database.url, service="auth", size=4, timeout=30.0) as opened:
        yield opened


@pytest.fixture
async def passwords() -> AsyncIterator[Passwords]:
    async with Passwords.open(AuthSettings()) as opened:
        yield opened


@pytest.fixture
def applications(
    store: Database, site: Site, tls: tuple[ssl.SSLContext, ssl.SSLContext], passwords: Passwords
) -> ClientRegistry:
    """Applications whose documents are where the test's site is."""

    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    origin = site.url.removesuffix("/client.json")
    return _registry(store, SafeHttpClient(allow=[origin], resolve=resolve, tls=tls[1]), passwords)


async def test_a_document_describes_its_client(applications: ClientRegistry, site: Site) -> None:
    client = await applications.get_fresh(site.url)
    await applications.get_fresh(site.url)

    assert (client.client_id, client.name, client.source) == (site.url, "An app", "document")
    assert client.redirect(BACK) == BACK
    assert site.request_count == 1


async def test_a_document_is_fetched_again_when_it_is_old(
    applications: ClientRegistry, database: TestDatabase, site: Site
) -> None:
    await applications.get_fresh(site.url)
    site.document["client_name"] = "Another name"
    await end_cache_time(database)

    client = await applications.get_fresh(site.url)

    assert (client.name, site.request_count) == ("Another name", 2)


@pytest.mark.parametrize(
    ("cache_control", "minutes"),
    [("", 60), ("max-age=7200", 120), ("no-store", 5), ("max-age=1", 5), ("max-age=99999999", 1440)],
)
async def test_a_document_is_kept_as_long_as_its_site_says_within_bounds(
    applications: ClientRegistry, site: Site, cache_control: str, minutes: int
) -> None:
    site.cache_control = cache_control

    client = await applications.get_fresh(site.url)

    assert client.stale_time is not None
    assert abs(client.stale_time - now() - timedelta(minutes=minutes)) < timedelta(seconds=30)


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_id": "https://else.test/client.json"},
        {"client_id": None},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": []},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"client_name": ["a", "b"]},
    ],
)
async def test_a_wrong_document_describes_no_client(
    applications: ClientRegistry, site: Site, wrong: dict[str, Any]
) -> None:
    site.document |= wrong

    with pytest.raises(ClientUnknown):
        await applications.get_fresh(site.url)

    assert await applications.get(site.url) is None


def with_key(key: ECKey) -> dict[str, Any]:
    return {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [dict(key.as_dict(private=False))]}}


def signed(site: Site, key: ECKey, client_id: str = "") -> ClientCredentials:
    """Return the credentials of the site's client; by default the assertion alone names it."""
    at = int(time.time())
    claims = {"iss": site.url, "sub": site.url, "aud": ISSUER, "iat": at, "exp": at + 60, "jti": uuid4().hex}
    return ClientCredentials(
        client_id=client_id,
        client_secret="",
        method="private_key_jwt",
        client_assertion=jwt.encode({"alg": "ES256", "kid": key.kid}, claims, key),
    )


async def end_cache_time(database: TestDatabase) -> None:
    async with database.superuser() as connection:
        await connection.execute("UPDATE auth.clients SET stale_time = now()")


async def test_an_assertion_alone_introduces_the_client_of_a_document(applications: ClientRegistry, site: Site) -> None:
    site.document |= with_key(KEY)

    client = await applications.authenticate(signed(site, KEY))
    await applications.authenticate(signed(site, KEY))

    assert (client.client_id, site.request_count) == (site.url, 1)


@pytest.mark.parametrize("is_named", [False, True])
async def test_an_old_document_is_fetched_again_before_its_keys_are_used(
    applications: ClientRegistry, database: TestDatabase, site: Site, *, is_named: bool
) -> None:
    client_id = site.url if is_named else ""
    site.document |= with_key(KEY)
    await applications.get_fresh(site.url)
    site.document |= with_key(OTHER_KEY)
    await end_cache_time(database)

    with pytest.raises(InvalidClient):
        await applications.authenticate(signed(site, KEY, client_id))
    client = await applications.authenticate(signed(site, OTHER_KEY, client_id))

    assert (client.client_id, site.request_count) == (site.url, 2)


async def test_the_keys_of_a_document_that_is_gone_prove_no_client(
    applications: ClientRegistry, database: TestDatabase, site: Site
) -> None:
    site.document |= with_key(KEY)
    await applications.get_fresh(site.url)
    site.document.clear()
    await end_cache_time(database)

    with pytest.raises(InvalidClient):
        await applications.authenticate(signed(site, KEY))

    async with database.superuser() as connection:
        refused_id = await connection.fetchval("SELECT client_id FROM auth.audit_events WHERE event = 'client_refused'")
    assert refused_id == site.url


async def test_a_site_inside_the_network_is_not_asked(
    store: Database, site: Site, tls: tuple[ssl.SSLContext, ssl.SSLContext], passwords: Passwords
) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    applications = _registry(store, SafeHttpClient(resolve=resolve, tls=tls[1]), passwords)

    with pytest.raises(ClientUnknown):
        await applications.get_fresh(site.url)

    assert site.request_count == 0


def _registry(store: Database, outbound: SafeHttpClient, passwords: Passwords) -> ClientRegistry:
    settings, attempts = AuthSettings(), AttemptStore(store)
    return ClientRegistry(
        ClientStore(store),
        outbound,
        settings,
        passwords,
        AttemptLimiter(attempts, limits(settings)),
        AuditRecorder(AuditStore(store)),
        ClientAssertions(outbound, attempts, lambda: ISSUER),
    )
