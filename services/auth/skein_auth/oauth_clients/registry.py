"""The registry of OAuth clients: registered (RFC 7591, 7592), imported, or described by a metadata document."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from skein_auth.accounts.passwords import Passwords, QueueKey
from skein_auth.assertions.client_assertions import ClientAssertions
from skein_auth.attempts.limiter import AttemptLimiter, scaled, subject_at_network
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.errors import ClientUnknown, InvalidClient, InvalidClientMetadata, InvalidToken, TooManyAttempts
from skein_auth.oauth_clients import model as clients
from skein_auth.oauth_clients.model import Client, ClientCredentials, RegistrationQuota
from skein_auth.oauth_clients.store import ClientStore
from skein_auth.settings import AuthSettings
from skein_kit.calls.call import client_address
from skein_kit.errors import RpcError
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.ids import new_id, now
from skein_kit.network.source_network import source_network
from skein_kit.outbound.fetch import OutboundError, SafeHttpClient
from skein_kit.telemetry import logs

# Bounds of the time that a metadata document is cached.
_MIN_CACHE_TIME = timedelta(minutes=5)
_MAX_CACHE_TIME = timedelta(hours=24)
_DEFAULT_CACHE_TIME = timedelta(hours=1)
# Clients without a grant that were registered from one address (IPv6: one /64). A further one replaces the oldest, if
# that is at least an hour old; otherwise it is refused. Twenty registrations an hour fill them in five hours.
MAX_UNUSED_PER_ADDRESS = 100
# Clients without a grant of all addresses: 20 MB of rows.
MAX_UNUSED = 20_000

log = logs.get("auth")


class ClientRegistry:
    """The clients of this authorization server."""

    def __init__(
        self,
        store: ClientStore,
        outbound: SafeHttpClient,
        settings: AuthSettings,
        passwords: Passwords,
        attempts: AttemptLimiter,
        audit: AuditRecorder,
        assertions: ClientAssertions,
    ) -> None:
        self._store = store
        self._outbound = outbound
        self._settings = settings
        self._schemes = settings.schemes()
        self._passwords = passwords
        self._attempts = attempts
        self._audit = audit
        self._assertions = assertions

    @property
    def is_registration_open(self) -> bool:
        """Whether registration needs no token."""
        return self._settings.registration == "open"

    async def get(self, client_id: str) -> Client | None:
        """Return a stored client; None for an unknown one."""
        is_possible = clients.is_name(client_id) or clients.is_document(client_id)
        return await self._store.get_client(client_id) if is_possible else None

    async def get_fresh(self, client_id: str) -> Client:
        """Return a client with its current metadata; fetch its document if it has one and the stored one is old.

        Raises ClientUnknown.
        """
        return await self._refresh(client_id, await self.get(client_id))

    async def authenticate(self, credentials: ClientCredentials) -> Client:
        """Return the client that the credentials prove. Raises InvalidClient and TooManyAttempts.

        A client that proves itself by keys has its current metadata, as get_fresh returns it.
        Wrong secrets never block the right one. Only imported secrets can be guessed. After too many wrong ones of a
        source, each further attempt from there takes as long as a password check.
        """
        method = credentials.method or clients.AUTH_METHOD_NONE
        client_id = credentials.client_id
        if method == clients.PRIVATE_KEY_JWT and not client_id:
            client_id = self._assertions.claimed_client_id(credentials.client_assertion)
        client = await self.get(client_id)
        if client is not None and client.token_endpoint_auth_method == method == clients.AUTH_METHOD_NONE:
            client.authenticate(credentials.client_secret, method, now())
            return client
        try:
            if method == clients.PRIVATE_KEY_JWT and clients.is_document(client_id):
                client = await self._refresh_keys(client_id, client)
            if client is None:
                clients.refuse_unknown(credentials.client_secret)
            if client.token_endpoint_auth_method == method == clients.PRIVATE_KEY_JWT:
                await self._assertions.verify(client, credentials.client_assertion, now())
            elif client.has_imported_secret:
                await self._authenticate_imported(client, credentials.client_secret, method)
            else:
                client.authenticate(credentials.client_secret, method, now())
        except InvalidClient as error:
            # Limits the audit events of an unauthenticated caller.
            await self._attempts.charge("refused_address", client_address())
            await self._attempts.charge("refused_client", client_id)
            known_id = "" if client is None else client.client_id
            await self._audit.record("client_refused", outcome="refused", reason=error.reason, client_id=known_id)
            raise
        return client

    async def register(
        self, metadata: Mapping[str, Any], initial_access_token: str
    ) -> tuple[Client, BearerToken | None, BearerToken]:
        """Register a client with this metadata (RFC 7591).

        Return it, its secret, None for a public one, and its registration token.
        """
        self._check_registration(initial_access_token)
        if self.is_registration_open:
            await self._attempts.charge("registration", client_address())
        at = now()
        client_id = new_id(at)
        metadata_client = clients.from_metadata(metadata, self._schemes, at, client_id=str(client_id))
        client, secret, registration_token = clients.with_credentials(metadata_client, client_id)
        # Holders of the initial access token have no quota.
        quota = self._quota() if self.is_registration_open else None
        await self._store.create_client(client, quota, at=at)
        await self._audit.record("client_registered", client_id=client.client_id)
        return client, secret, registration_token

    def build_imported_client(
        self,
        client_id: str,
        metadata: Mapping[str, Any],
        secret_hash: bytes,
        *,
        create_time: datetime | None,
        secret_expire_time: datetime | None,
    ) -> Client:
        """Return a client of an earlier system under the id that it has there. Raises InvalidClientMetadata."""
        at = now()
        client = clients.from_metadata(metadata, self._schemes, at, client_id=client_id)
        return clients.build_imported_client(client, secret_hash, min(create_time or at, at), secret_expire_time)

    async def get_managed(self, client_id: str, registration_token: str) -> Client:
        """Return the client of a registration token. Raises InvalidToken."""
        token = BearerToken.decode(clients.REGISTRATION_PREFIX, registration_token)
        client = None
        if token is not None and str(token.token_id) == client_id:
            client = await self._store.get_client(client_id)
        if client is None:
            raise InvalidToken
        client.verify_registration_token(registration_token)
        return client

    async def update(self, client_id: str, metadata: Mapping[str, Any], registration_token: str) -> Client:
        """Replace a client's metadata. Raises InvalidToken and InvalidClientMetadata."""
        current_client = await self.get_managed(client_id, registration_token)
        at = now()
        new_client = clients.from_metadata(metadata, self._schemes, at, client_id=current_client.client_id)
        methods = {new_client.token_endpoint_auth_method, current_client.token_endpoint_auth_method}
        if len(methods) > 1 and not methods <= set(clients.SECRET_METHODS):
            problem = "cannot change between none, a secret and a key; register anew"
            raise InvalidClientMetadata(violations=[("token_endpoint_auth_method", problem)])
        updated_client = await self._store.update_client(new_client, registration_token)
        await self._audit.record("client_updated", client_id=current_client.client_id)
        return updated_client

    async def delete(self, client_id: str, registration_token: str) -> None:
        """Delete a client with all its grants. Raises InvalidToken."""
        client = await self.get_managed(client_id, registration_token)
        await self._store.delete_client(client.client_id)
        await self._audit.record("client_deleted", client_id=client.client_id)

    async def _authenticate_imported(self, client: Client, secret: str, method: str) -> None:
        source = client_address()
        async with AsyncExitStack() as limits:
            try:
                await limits.enter_async_context(
                    self._attempts.limit_failures(("client", subject_at_network(client.client_id, source)))
                )
            except TooManyAttempts:
                await self._passwords.verify(None, secret, QueueKey.of_source(source_network(source)))
            client.authenticate(secret, method, now())

    def _quota(self) -> RegistrationQuota:
        return RegistrationQuota(
            address_hash=self._attempts.subject_hash("registration", client_address()),
            max_per_address=scaled(MAX_UNUSED_PER_ADDRESS, self._settings),
            max_clients=MAX_UNUSED,
        )

    def _check_registration(self, initial_access_token: str) -> None:
        if self.is_registration_open:
            return
        expected_token = self._settings.initial_access_token
        presented_token = initial_access_token.encode()
        is_token_needed = self._settings.registration == "token"
        if (
            not is_token_needed
            or not expected_token
            or not hmac.compare_digest(presented_token, expected_token.encode())
        ):
            raise InvalidToken

    async def _refresh_keys(self, client_id: str, client: Client | None) -> Client:
        """Raises InvalidClient for a document that no longer describes a client."""
        try:
            return await self._refresh(client_id, client)
        except ClientUnknown:
            raise InvalidClient from None

    async def _refresh(self, client_id: str, client: Client | None) -> Client:
        """Return the stored client, or that of its document if the stored one is old. Raises ClientUnknown."""
        if clients.is_document(client_id):
            at = now()
            if client is None or client.stale_time is None or at >= client.stale_time:
                client = await self._fetch(client_id, at, is_new=client is None)
        if client is None:
            raise ClientUnknown
        return client

    async def _fetch(self, client_id: str, at: datetime, *, is_new: bool) -> Client:
        """Fetch and store a metadata document. Raises ClientUnknown."""
        if is_new:
            await self._attempts.charge("registration", client_address())
        try:
            response = await self._outbound.fetch_json(client_id, owner=source_network(client_address()))
            client = clients.from_document(client_id, response.document, self._schemes, at)
        except (OutboundError, RpcError) as error:
            log.info("client_document_refused", why=getattr(error, "why", type(error).__name__))
            raise ClientUnknown from None
        age = _DEFAULT_CACHE_TIME if response.max_age is None else timedelta(seconds=response.max_age)
        cache_time = min(max(age, _MIN_CACHE_TIME), _MAX_CACHE_TIME)
        client = replace(client, stale_time=at + cache_time)
        await self._store.upsert_metadata_document(client, self._quota(), at=at, is_new=is_new)
        if is_new:
            await self._audit.record("client_registered", client_id=client_id)
        return client
