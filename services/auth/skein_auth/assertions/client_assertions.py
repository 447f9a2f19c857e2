"""Authentication of OAuth clients by signed assertions (RFC 7523, 2.2), with the keys that they registered."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Any

from skein_auth.assertions.keys import (
    AssertionInvalid,
    PublishedKeys,
    keys_with_id,
    read_claims,
    read_header,
    signing_keys,
    verify,
)
from skein_auth.assertions.model import CLIENT_ASSERTION_TYPES, assertion_hash, check_client_assertion
from skein_auth.attempts.store import AttemptStore
from skein_auth.errors import InvalidClient, ProviderUnavailable
from skein_auth.oauth_clients.model import Client
from skein_kit.calls.call import client_address
from skein_kit.network.source_network import source_network
from skein_kit.outbound.fetch import JsonResponse, SafeHttpClient

# Most clients whose published keys one process caches.
_MAX_CACHED = 1024


class ClientAssertions:
    """Verifies the assertions of clients; each works once."""

    def __init__(self, outbound: SafeHttpClient, attempts: AttemptStore, issuer: Callable[[], str]) -> None:
        self._outbound = outbound
        self._attempts = attempts
        self._issuer = issuer
        # By client and URL, the last used one last.
        self._published: OrderedDict[tuple[str, str], PublishedKeys] = OrderedDict()

    @staticmethod
    def claimed_client_id(assertion: str) -> str:
        """Return the client that an assertion names, which is not verified; empty for none."""
        try:
            subject = read_claims(assertion).get("sub")
        except AssertionInvalid:
            return ""
        return subject if isinstance(subject, str) else ""

    async def verify(self, client: Client, assertion: str, at: datetime) -> None:
        """Raises InvalidClient unless the client signed this assertion for this server and has not used it yet."""
        try:
            header = read_header(assertion, CLIENT_ASSERTION_TYPES)
            claims = verify(assertion, await self._keys(client, header.get("kid")))
            expire_time = check_client_assertion(claims, client.client_id, self._issuer(), at)
        except (AssertionInvalid, ProviderUnavailable):
            raise InvalidClient from None
        digest = assertion_hash(client.client_id, claims)
        if not await self._attempts.use_once("client_assertion", digest, expire_time, at):
            raise InvalidClient

    async def _keys(self, client: Client, key_id: object) -> list[dict[str, Any]]:
        if client.jwks:
            return keys_with_id(signing_keys(json.loads(client.jwks)), key_id)
        cache_key = (client.client_id, client.jwks_uri)
        published = self._published.pop(cache_key, None)
        if published is None:
            published = PublishedKeys(client.client_id, lambda: self._fetch(client.jwks_uri))
        self._published[cache_key] = published
        if len(self._published) > _MAX_CACHED:
            self._published.popitem(last=False)
        return await published.find(key_id)

    async def _fetch(self, url: str) -> JsonResponse:
        return await self._outbound.fetch_json(url, owner=source_network(client_address()))
