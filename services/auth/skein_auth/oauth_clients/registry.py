"""The applications that are known here: registered (RFC 7591, 7592), or described by a document at their id."""

from __future__ import annotations

import hmac
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from skein_auth.accounts.password_queue import QueueKey
from skein_auth.attempts.subjects import subject_at_network
from skein_auth.errors import ClientUnknown, InvalidClient, InvalidClientMetadata, InvalidToken, TooManyAttempts
from skein_auth.oauth_clients import model as clients
from skein_auth.oauth_clients.model import Client, RegistrationQuota
from skein_kit.calls.call import current_call
from skein_kit.errors import RpcError
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.ids import new_id, now
from skein_kit.network.source_network import source_network
from skein_kit.outbound.fetch import OutboundError
from skein_kit.rpc.well_known_types import read_time
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from skein.auth.v1 import oauth_pb2 as pb
    from skein_auth.accounts.passwords import Passwords
    from skein_auth.attempts.model import AttemptLimiter
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.oauth_clients.store import ClientStore
    from skein_auth.settings import AuthSettings
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_kit.outbound.fetch import SafeHttpClient

# How long a document is believed, whatever its server says.
_LEAST_FRESH = timedelta(minutes=5)
_MOST_FRESH = timedelta(hours=24)
_DEFAULT_FRESH = timedelta(hours=1)

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
    ) -> None:
        self._store = store
        self._outbound = outbound
        self._settings = settings
        self._schemes = settings.schemes()
        self._passwords = passwords
        self._attempts = attempts
        self._audit = audit

    @property
    def registration_open(self) -> bool:
        """Say whether anybody may register."""
        return self._settings.registration == "open"

    async def known(self, client_id: str) -> Client | None:
        """Return a client as we know it; None for one that we never heard of."""
        return await self._store.get_client(client_id) if _can_be(client_id) else None

    async def current(self, client_id: str) -> Client:
        """Return a client as it describes itself now, fetching its document if it has one and ours is old.

        Raises ClientUnknown.
        """
        found = await self.known(client_id)
        if clients.is_document(client_id):
            at = now()
            if found is None or found.stale_time is None or at >= found.stale_time:
                found = await self._fetched(client_id, at, is_new=found is None)
        if found is None:
            raise ClientUnknown
        return found

    async def authenticated(self, given: pb.ClientAuthentication) -> Client:
        """Return the client that proves itself, in the way that it registered for.

        The right secret passes whatever wrong ones came before. Only imported secrets are worth a guess: after too many
        wrong ones of a source, each further one from there takes the time of a password, in turn.
        Raises InvalidClient, or TooManyAttempts once too many wrong secrets came.
        """
        client = await self.known(given.client_id)
        method = given.method or clients.AUTH_METHOD_NONE
        if client is not None and client.token_endpoint_auth_method == method == clients.AUTH_METHOD_NONE:
            client.authenticate(given.client_secret, method, now())
            return client
        try:
            if client is None:
                clients.refuse_unknown(given.client_secret)
            if client.has_imported_secret:
                await self._authenticate_imported(client, given.client_secret, method)
            else:
                client.authenticate(given.client_secret, method, now())
        except InvalidClient as refusal:
            # Bounds the audit events that an anonymous caller can cause.
            await self._attempts.charge("refused_address", address())
            await self._attempts.charge("refused_client", given.client_id)
            known = "" if client is None else client.client_id
            await self._audit.record("client_refused", outcome="refused", reason=refusal.reason, client_id=known)
            raise
        return client

    async def register(
        self, message: pb.Client, initial_access_token: str
    ) -> tuple[Client, BearerToken | None, BearerToken]:
        """Make an application known; return it, its secret if it has one, and the token that manages it."""
        self._may_register(initial_access_token)
        if self.registration_open:
            await self._attempts.charge("registration", address())
        at = now()
        client_id = new_id(at)
        client = clients.described(metadata(message), self._schemes, at, client_id=str(client_id))
        known, secret, manages = clients.registered(client, client_id)
        # Whoever has the initial access token is trusted with how many there are.
        source = self._source() if self.registration_open else None
        await self._store.create_client(known, source, at=at)
        await self._audit.record("client_registered", client_id=known.client_id)
        return known, secret, manages

    async def take_over(self, message: pb.Client, secret_hash: bytes, once: IdempotencyKey) -> pb.ImportClientResponse:
        """Keep an application of an earlier system under the id that it has there."""
        at = now()
        given = clients.described(metadata(message), self._schemes, at, client_id=message.client_id)
        create_time = min(read_time(message, "create_time") or at, at)
        client = clients.moved_in(given, secret_hash, create_time, read_time(message, "secret_expire_time"))
        return await self._store.take_over(client, self._audit, once)

    async def managed(self, client_id: str, registration_token: str) -> Client:
        """Return the client that the token manages. Raises InvalidToken."""
        token = BearerToken.read(clients.REGISTRATION_PREFIX, registration_token)
        client = None
        if token is not None and str(token.token_id) == client_id:
            client = await self._store.get_client(client_id)
        if client is None:
            raise InvalidToken
        client.manages(registration_token)
        return client

    async def update(self, message: pb.Client, registration_token: str) -> Client:
        """Replace what a client says of itself."""
        before = await self.managed(message.client_id, registration_token)
        at = now()
        new = clients.described(metadata(message), self._schemes, at, client_id=before.client_id)
        if (new.token_endpoint_auth_method == clients.AUTH_METHOD_NONE) != (before.secret_hash is None):
            raise InvalidClientMetadata(
                violations=[("token_endpoint_auth_method", "cannot change between none and a secret; register anew")]
            )

        def change(stored: Client) -> Client:
            stored.manages(registration_token)
            return replace(
                new,
                secret_hash=stored.secret_hash,
                secret_expire_time=stored.secret_expire_time,
                registration_hash=stored.registration_hash,
                create_time=stored.create_time,
            )

        changed = await self._store.update_client(before.client_id, change)
        await self._audit.record("client_updated", client_id=before.client_id)
        return changed

    async def delete(self, client_id: str, registration_token: str) -> None:
        """Remove a client with everything that it was given."""
        client = await self.managed(client_id, registration_token)
        await self._store.delete_client(client.client_id)
        await self._audit.record("client_deleted", client_id=client.client_id)

    async def _authenticate_imported(self, client: Client, secret: str, method: str) -> None:
        source = address()
        async with AsyncExitStack() as attempt:
            try:
                await attempt.enter_async_context(
                    self._attempts.failing(("client", subject_at_network(client.client_id, source)))
                )
            except TooManyAttempts:
                await self._passwords.verify(None, secret, QueueKey.of_source(source_network(source)))
            client.authenticate(secret, method, now())

    def _source(self) -> RegistrationQuota:
        return RegistrationQuota(
            address_hash=self._attempts.subject_hash("registration", address()),
            most_of_address=self._settings.unused_clients_per_address_most,
            most=self._settings.unused_clients_most,
        )

    def _may_register(self, initial_access_token: str) -> None:
        if self.registration_open:
            return
        wanted = self._settings.initial_access_token
        given = initial_access_token.encode()
        if self._settings.registration != "token" or not wanted or not hmac.compare_digest(given, wanted.encode()):
            raise InvalidToken

    async def _fetched(self, client_id: str, at: datetime, *, is_new: bool) -> Client:
        """Fetch a document and keep what it says. Raises ClientUnknown."""
        if is_new:
            await self._attempts.charge("registration", address())
        try:
            fetched = await self._outbound.fetch_json(client_id, owner=source_network(address()))
            client = clients.documented(client_id, fetched.document, self._schemes, at)
        except (OutboundError, RpcError) as error:
            log.info("client_document_refused", why=getattr(error, "why", type(error).__name__))
            raise ClientUnknown from None
        age = _DEFAULT_FRESH if fetched.max_age is None else timedelta(seconds=fetched.max_age)
        fresh = min(max(age, _LEAST_FRESH), _MOST_FRESH)
        client = replace(client, stale_time=at + fresh)
        await self._store.keep_document(client, self._source(), at=at, is_new=is_new)
        if is_new:
            await self._audit.record("client_registered", client_id=client_id)
        return client


def metadata(message: pb.Client) -> Mapping[str, Any]:
    """Return what a client says of itself, names as in RFC 7591."""
    return {field.name: value for field, value in message.ListFields()}


def address() -> str:
    """Return where the call at hand came from; empty for what nobody called."""
    call = current_call()
    return "" if call is None else call.client_address


def _can_be(client_id: str) -> bool:
    return clients.is_name(client_id) or clients.is_document(client_id)
