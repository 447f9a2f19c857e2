"""Browser sessions of the console: cookies, sessions of API keys, and the context of a page.

An API key stays in this gateway's memory, and the browser gets only the id of its key session. Browsers send cookies to
every server of a machine, whatever its port.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from skein_gateway.console.rpc_client import Api
from skein_gateway.console.waiting import WaitingCounts
from skein_gateway.oauth.browser import Browser
from skein_kit.identity.identity_token import Caller

# Lifetime of a key session.
KEY_SESSION_SECONDS = 12 * 3600.0
_MAX_KEYS = 1000
# Beyond this limit, a tenant's new keys replace its own oldest keys, never keys of other tenants.
_MAX_OF_TENANT = 50
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{43}")
# Redirect targets: console pages only, nothing that a browser could read as another path or host.
_CONSOLE_PATH = re.compile(r"/console(?:/[A-Za-z0-9_-]+)+(?:\?[A-Za-z0-9/?&=%._~+:*,-]*)?")


class ConsoleBrowser(Browser):
    """A browser at the console. Its CSRF tokens depend on the form's subject, not on the page's path."""

    def __init__(self, request: Request, issuer: str) -> None:
        """Read the cookies."""
        super().__init__(request, issuer)
        self._key_session_name = f"{'__Host-' if self._secure else ''}skein-key-session"
        cookie = request.cookies.get(self._key_session_name, "")
        # The id of the key session; empty without one.
        self.key_session_id = cookie if _SESSION_ID.fullmatch(cookie) else ""
        self._space_name = f"{'__Host-' if self._secure else ''}skein-space"
        # The id of the space in which pages act, as the browser says; empty for none.
        self.space_id = request.cookies.get(self._space_name, "")

    @property
    def origin(self) -> str:
        """Return the gateway's URL: the configured origin, or without TLS the host that the browser used."""
        return self._origin if self._secure else str(self._request.base_url).rstrip("/")

    def form_token(self, about: str) -> str:
        """Return the CSRF token of forms `about` something."""
        parts = ("console", self._secret, self.session, self.key_session_id, about)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def set_key_session(self, response: Response, session_id: str) -> None:
        """Set the cookie of the key session for KEY_SESSION_SECONDS."""
        self._set(response, self._key_session_name, session_id, max_age=int(KEY_SESSION_SECONDS))

    def set_space(self, response: Response, space_id: str) -> None:
        """Set the cookie of the space in which pages act; an empty id ends the choice."""
        self._set(response, self._space_name, space_id)

    def sign_out(self, response: Response) -> None:
        """Delete the session cookie and the key session cookie."""
        super().sign_out(response)
        response.delete_cookie(self._key_session_name, path="/", secure=self._secure, httponly=True, samesite="lax")


@dataclass(frozen=True, kw_only=True, slots=True)
class _KeySession:
    key: str
    tenant_id: str
    # On the monotonic clock, in seconds.
    expire_time: float
    # Set when the session is revoked.
    revoked: asyncio.Event = field(default_factory=asyncio.Event)


class KeySessions:
    """API keys in this gateway's memory, by the digest of their session ids."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty; `clock` returns monotonic seconds."""
        self._clock = clock
        self._by_digest: OrderedDict[bytes, _KeySession] = OrderedDict()

    def create(self, key: str, tenant_id: str) -> str:
        """Return the id of a new session for a key. Beyond the limits, the oldest session is revoked."""
        session_id = secrets.token_urlsafe(32)
        of_tenant = [digest for digest, session in self._by_digest.items() if session.tenant_id == tenant_id]
        if len(of_tenant) >= _MAX_OF_TENANT:
            self._delete(of_tenant[0])
        elif len(self._by_digest) >= _MAX_KEYS:
            self._delete(next(iter(self._by_digest)))
        expire_time = self._clock() + KEY_SESSION_SECONDS
        self._by_digest[_digest(session_id)] = _KeySession(key=key, tenant_id=tenant_id, expire_time=expire_time)
        return session_id

    def key_of(self, session_id: str) -> str:
        """Return the key; empty when the session is unknown, revoked or expired."""
        session = self._by_digest.get(_digest(session_id))
        if session is None:
            return ""
        if self._clock() >= session.expire_time:
            self.revoke(session_id)
            return ""
        return session.key

    def revocation(self, session_id: str) -> asyncio.Event | None:
        """Return the event of a session's revocation; None for an unknown session."""
        session = self._by_digest.get(_digest(session_id))
        return None if session is None else session.revoked

    def revoke(self, session_id: str) -> None:
        """Delete a key and end its open streams."""
        self._delete(_digest(session_id))

    def _delete(self, digest: bytes) -> None:
        session = self._by_digest.pop(digest, None)
        if session is not None:
            session.revoked.set()


@dataclass(frozen=True, kw_only=True, slots=True)
class PageContext:
    """The caller, browser, tenant and client of one page."""

    browser: ConsoleBrowser
    caller: Caller
    tenant_id: str
    tenant_name: str
    api: Api
    waiting: WaitingCounts
    # How much waits for the caller's approval: "3", "20+" or empty.
    waiting_count: str
    # The names of the spaces that the caller sees, by id; empty in a tenant without spaces.
    spaces: Mapping[str, str]
    # The space in which the pages act; empty: reads show all of them, and writes go to the default space.
    space_id: str

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


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode()).digest()
