"""The browser at the console: its cookies, tickets for API keys, and the context of a page.

An API key stays in this gateway's memory and the browser gets a ticket for it, because browsers send their cookies to
every server of a machine, whatever its port.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from skein_gateway.oauth.browser import Browser

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from skein_gateway.console.rpc_client import Api
    from skein_kit.identity.identity_token import Caller

# Lifetime of a ticket.
KEY_SECONDS = 12 * 3600.0
_MAX_KEYS = 1000
# Beyond this a tenant's new keys replace its own, never those of others.
_MAX_OF_TENANT = 50
_TICKET = re.compile(r"[A-Za-z0-9_-]{43}")
# Redirect targets: console pages only, nothing that a browser could read as another path or host.
_CONSOLE_PATH = re.compile(r"/console(?:/[A-Za-z0-9_-]+)+(?:\?[A-Za-z0-9/?&=%._~+:*,-]*)?")


class ConsoleBrowser(Browser):
    """A browser at the console. Its CSRF tokens depend on the form's subject, not on the page's path."""

    def __init__(self, request: Request, issuer: str) -> None:
        """Read the cookies."""
        super().__init__(request, issuer)
        self._ticket_name = f"{'__Host-' if self._secure else ''}skein-ticket"
        ticket_entry = request.cookies.get(self._ticket_name, "")
        self.ticket = ticket_entry if _TICKET.fullmatch(ticket_entry) else ""

    @property
    def origin(self) -> str:
        """Return the gateway's URL: the configured origin, or without TLS the host that the browser used."""
        return self._origin if self._secure else str(self._request.base_url).rstrip("/")

    def form_token(self, about: str) -> str:
        """Return the CSRF token of forms `about` something."""
        parts = ("console", self._secret, self.session, self.ticket, about)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def give_ticket(self, response: Response, ticket: str) -> None:
        """Set the ticket cookie for KEY_SECONDS."""
        self._set(response, self._ticket_name, ticket, max_age=int(KEY_SECONDS))

    def sign_out(self, response: Response) -> None:
        """Delete the session cookie and the ticket cookie."""
        super().sign_out(response)
        response.delete_cookie(self._ticket_name, path="/", secure=self._secure, httponly=True, samesite="lax")


@dataclass(frozen=True, kw_only=True, slots=True)
class _KeyTicket:
    key: str
    tenant_id: str
    ends: float
    # Set when the ticket is revoked.
    revoked: asyncio.Event = field(default_factory=asyncio.Event)


class KeyTickets:
    """API keys in this gateway's memory, by the digest of their tickets."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty; `clock` returns monotonic seconds."""
        self._clock = clock
        self._by_digest: OrderedDict[bytes, _KeyTicket] = OrderedDict()

    def issue(self, key: str, tenant_id: str) -> str:
        """Return a ticket for a key. Beyond the limits the oldest ticket is revoked."""
        ticket = secrets.token_urlsafe(32)
        own = [digest for digest, ticket_entry in self._by_digest.items() if ticket_entry.tenant_id == tenant_id]
        if len(own) >= _MAX_OF_TENANT:
            self._forget(own[0])
        elif len(self._by_digest) >= _MAX_KEYS:
            self._forget(next(iter(self._by_digest)))
        self._by_digest[_digest(ticket)] = _KeyTicket(key=key, tenant_id=tenant_id, ends=self._clock() + KEY_SECONDS)
        return ticket

    def key_of(self, ticket: str) -> str:
        """Return the key; empty when the ticket is unknown, revoked or expired."""
        ticket_entry = self._by_digest.get(_digest(ticket))
        if ticket_entry is None:
            return ""
        if self._clock() >= ticket_entry.ends:
            self.revoke(ticket)
            return ""
        return ticket_entry.key

    def revoked(self, ticket: str) -> asyncio.Event | None:
        """Return the event of a ticket's revocation; None when the ticket is not valid now."""
        ticket_entry = self._by_digest.get(_digest(ticket))
        return None if ticket_entry is None else ticket_entry.revoked

    def revoke(self, ticket: str) -> None:
        """Delete a key and end its open streams."""
        self._forget(_digest(ticket))

    def _forget(self, digest: bytes) -> None:
        ticket_entry = self._by_digest.pop(digest, None)
        if ticket_entry is not None:
            ticket_entry.revoked.set()


@dataclass(frozen=True, kw_only=True, slots=True)
class PageContext:
    """The caller, browser, tenant and client of one page."""

    browser: ConsoleBrowser
    caller: Caller
    tenant_id: str
    tenant_name: str
    api: Api

    @property
    def caller_name(self) -> str:
        """Return the caller's name for display."""
        return self.caller.email or ("an API key" if self.is_key else self.caller.principal)

    @property
    def is_key(self) -> bool:
        """Tell whether the caller uses an API key instead of an account."""
        return self.caller.account_id is None

    def may(self, permission: str) -> bool:
        """Tell whether the caller has a permission; pages hide actions without it."""
        return permission in self.caller.permissions

    def url(self, page: str = "", /, **parameters: object) -> str:
        """Return the URL of a page of this tenant, without empty parameters."""
        query = {name: str(value) for name, value in parameters.items() if value not in {"", None, False}}
        path = f"/console/{self.tenant_id}/{page}".rstrip("/")
        return f"{path}?{urlencode(query)}" if query else path


def safe_redirect_path(path: str) -> str:
    """Return the path if it is a page of the console, else "/"."""
    return path if _CONSOLE_PATH.fullmatch(path) else "/"


def _digest(ticket: str) -> bytes:
    return hashlib.sha256(ticket.encode()).digest()
