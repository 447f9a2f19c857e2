"""A person's browser: the cookies that it keeps for us, and the proof that a form of ours was sent by its person.

A form carries a token that depends on a random cookie, on the sign-in and on what the form is about, so no other site
can know it, before a sign-in either. What the browser itself says of where a form comes from is checked first.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from typing import TYPE_CHECKING

from skein_gateway.oauth.forms import FormInvalid

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from skein.auth.v1 import accounts_pb2
    from skein_gateway.oauth.forms import Parameters

TOKEN_FIELD = "form_token"  # noqa: S105 - a field's name.
# The prefix makes browsers refuse such a cookie from another host or without TLS.
_SECURE_PREFIX = "__Host-"
# As long as auth takes a device token.
_DEVICE_SECONDS = 180 * 86_400
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


class CsrfTokenInvalid(FormInvalid):
    """The form was not sent from the page that we gave to this browser; the message says what to do."""


class Browser:
    """What one request's cookies say, and what they shall say afterwards."""

    def __init__(self, request: Request, issuer: str) -> None:
        """Read the cookies; `issuer` is the origin that the pages are part of."""
        self._request = request
        self._origin = issuer
        self._secure = issuer.startswith("https://")
        prefix = _SECURE_PREFIX if self._secure else ""
        self._session_name, self._form_name = f"{prefix}skein", f"{prefix}skein-form"
        # The access token of the person's own sign-in; empty before it.
        self.session = request.cookies.get(self._session_name, "")
        self._device_name = f"{prefix}skein-device"
        # Shows that an account signed in from this browser before; empty for a browser that no account knows.
        self.device_token = request.cookies.get(self._device_name, "")
        kept = request.cookies.get(self._form_name, "")
        self._is_known = bool(_SECRET.fullmatch(kept))
        self._secret = kept if self._is_known else secrets.token_urlsafe(32)

    def form_token(self, about: str) -> str:
        """Return what a form `about` something must carry."""
        parts = (self._secret, self.session, self._request.url.path, about)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def check(self, form: Parameters, about: str) -> None:
        """Raise CsrfTokenInvalid unless the form is one of ours, sent by this browser's person."""
        headers = self._request.headers
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        # "null" is what browsers say of a page that sends no referrer, as ours do.
        is_ours = origin in {None, "null", self._origin} if site is None else site == "same-origin"
        wanted = self.form_token(about)
        if not (is_ours and self._is_known and hmac.compare_digest(form.get(TOKEN_FIELD).encode(), wanted.encode())):
            raise CsrfTokenInvalid("This page is out of date, or your browser keeps no cookies. Nothing was done.")

    def remember_form(self, response: Response) -> None:
        """Let the browser keep what the tokens of its forms depend on."""
        if not self._is_known:
            self._set(response, self._form_name, self._secret)

    def sign_in(self, response: Response, answer: accounts_pb2.SignInResponse) -> None:
        """Let the browser keep a sign-in, for as long as its access token is good, and what makes it a known device."""
        tokens = answer.tokens
        seconds = max(1, tokens.access_expire_time.seconds - int(time.time()))
        self._set(response, self._session_name, tokens.access_token, max_age=seconds)
        self._set(response, self._device_name, answer.device_token, max_age=_DEVICE_SECONDS)

    def sign_out(self, response: Response) -> None:
        """Let the browser forget its sign-in; it stays a known device."""
        response.delete_cookie(self._session_name, path="/", secure=self._secure, httponly=True, samesite="lax")

    def _set(self, response: Response, name: str, value: str, *, max_age: int | None = None) -> None:
        response.set_cookie(name, value, max_age=max_age, path="/", secure=self._secure, httponly=True, samesite="lax")
