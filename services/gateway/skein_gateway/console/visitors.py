"""Who sits before a console's page: a person with a sign-in, or somebody who showed a tenant's API key.

The key itself stays here, in the memory of this gateway; the browser keeps a ticket for it, because a browser shows its
cookies to every server of one machine, whatever its port.
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

# A working day; whoever stays longer shows the key again.
KEY_SECONDS = 12 * 3600.0
_MAX_KEYS = 1000
# One tenant's keys drive out its own before they drive out those of others.
_MAX_OF_TENANT = 50
_TICKET = re.compile(r"[A-Za-z0-9_-]{43}")
# Where a sign-in may lead: pages of ours, and nothing that a browser could read as another path or host.
_OURS = re.compile(r"/console(?:/[A-Za-z0-9_-]+)+(?:\?[A-Za-z0-9/?&=%._~+:*,-]*)?")


class ConsoleBrowser(Browser):
    """A browser at the console; its forms' tokens depend on what they are about, wherever they stand."""

    def __init__(self, request: Request, issuer: str) -> None:
        """Read the cookies."""
        super().__init__(request, issuer)
        self._ticket_name = f"{'__Host-' if self._secure else ''}skein-ticket"
        kept = request.cookies.get(self._ticket_name, "")
        self.ticket = kept if _TICKET.fullmatch(kept) else ""

    @property
    def origin(self) -> str:
        """Return where software finds us: the origin that is configured, or without TLS what the browser calls us."""
        return self._origin if self._secure else str(self._request.base_url).rstrip("/")

    def form_token(self, about: str) -> str:
        """Return what a form `about` something must carry."""
        parts = ("console", self._secret, self.session, self.ticket, about)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def give_ticket(self, response: Response, ticket: str) -> None:
        """Let the browser keep a ticket until it is closed, or the ticket's time is over."""
        self._set(response, self._ticket_name, ticket, max_age=int(KEY_SECONDS))

    def sign_out(self, response: Response) -> None:
        """Let the browser forget its sign-in and its ticket."""
        super().sign_out(response)
        response.delete_cookie(self._ticket_name, path="/", secure=self._secure, httponly=True, samesite="lax")


@dataclass(frozen=True, kw_only=True, slots=True)
class _KeyTicket:
    key: str
    tenant_id: str
    ends: float
    # Set when the ticket is worth nothing any more.
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class KeyTickets:
    """API keys that were shown to this gateway, by the digest of the ticket that stands for each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with none."""
        self._clock = clock
        self._kept: OrderedDict[bytes, _KeyTicket] = OrderedDict()

    def keep(self, key: str, tenant_id: str) -> str:
        """Return a ticket for a key; when there are too many, the oldest ticket is worth nothing."""
        ticket = secrets.token_urlsafe(32)
        own = [digest for digest, kept in self._kept.items() if kept.tenant_id == tenant_id]
        if len(own) >= _MAX_OF_TENANT:
            self._forget(own[0])
        elif len(self._kept) >= _MAX_KEYS:
            self._forget(next(iter(self._kept)))
        self._kept[_digest(ticket)] = _KeyTicket(key=key, tenant_id=tenant_id, ends=self._clock() + KEY_SECONDS)
        return ticket

    def find(self, ticket: str) -> str:
        """Return the key; empty when the ticket is worth nothing."""
        kept = self._kept.get(_digest(ticket))
        if kept is None:
            return ""
        if self._clock() >= kept.ends:
            self.drop(ticket)
            return ""
        return kept.key

    def gone(self, ticket: str) -> asyncio.Event | None:
        """Return what is set when a ticket is given up or driven out; None when it is worth nothing now."""
        kept = self._kept.get(_digest(ticket))
        return None if kept is None else kept.gone

    def drop(self, ticket: str) -> None:
        """Forget a key, and end what goes on with it."""
        self._forget(_digest(ticket))

    def _forget(self, digest: bytes) -> None:
        kept = self._kept.pop(digest, None)
        if kept is not None:
            kept.gone.set()


@dataclass(frozen=True, kw_only=True, slots=True)
class PageContext:
    """Somebody who may be here, in one tenant, asking for one page."""

    visitor: ConsoleBrowser
    caller: Caller
    tenant_id: str
    tenant_name: str
    api: Api

    @property
    def who(self) -> str:
        """Return how the page calls them."""
        return self.caller.email or ("an API key" if self.is_key else self.caller.principal)

    @property
    def is_key(self) -> bool:
        """Say whether they came with a key instead of a sign-in of their own."""
        return self.caller.account_id is None

    def may(self, permission: str) -> bool:
        """Say whether they have a permission, so that what is refused is not offered."""
        return permission in self.caller.permissions

    def url(self, page: str = "", /, **parameters: object) -> str:
        """Return the address of a page of this tenant; empty parameters are left out."""
        given = {name: str(value) for name, value in parameters.items() if value not in {"", None, False}}
        path = f"/console/{self.tenant_id}/{page}".rstrip("/")
        return f"{path}?{urlencode(given)}" if given else path


def safe_redirect_path(path: str) -> str:
    """Return where to go after a sign-in: the path, if it is one of the console's pages; else its entrance."""
    return path if _OURS.fullmatch(path) else "/"


def _digest(ticket: str) -> bytes:
    return hashlib.sha256(ticket.encode()).digest()
