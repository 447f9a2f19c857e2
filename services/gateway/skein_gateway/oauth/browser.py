"""A person's browser: its cookies, and the CSRF check of its forms.

A form carries a token derived from a random cookie, the session cookie and the form's subject. So other sites cannot
know it, not even before a login. The browser's Sec-Fetch-Site or Origin header is checked first.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time

from starlette.requests import Request
from starlette.responses import Response

from skein.auth.v1 import accounts_pb2
from skein_gateway.oauth.forms import FormInvalid, Parameters

TOKEN_FIELD = "form_token"  # noqa: S105 - a field's name.
# The prefix makes browsers refuse such a cookie from another host or without TLS.
_SECURE_PREFIX = "__Host-"
# Lifetime of a device token in auth.
_DEVICE_SECONDS = 180 * 86_400
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


class CsrfTokenInvalid(FormInvalid):
    """The form does not come from a page that this browser got from us; the message says what to do."""


class Browser:
    """Reads the cookies of a request and sets those of its response."""

    def __init__(self, request: Request, issuer: str) -> None:
        """Read the cookies; `issuer` is the origin of the pages."""
        self._request = request
        self._origin = issuer
        self._secure = issuer.startswith("https://")
        prefix = _SECURE_PREFIX if self._secure else ""
        self._session_name, self._form_name = f"{prefix}skein", f"{prefix}skein-form"
        # The access token of the person's login; empty before it.
        self.session = request.cookies.get(self._session_name, "")
        self._device_name = f"{prefix}skein-device"
        # Proves a known device: an account signed in from this browser before. Empty for an unknown device.
        self.device_token = request.cookies.get(self._device_name, "")
        cookie = request.cookies.get(self._form_name, "")
        self._is_known = bool(_SECRET.fullmatch(cookie))
        self._secret = cookie if self._is_known else secrets.token_urlsafe(32)

    def form_token(self, about: str) -> str:
        """Return the CSRF token of forms `about` something."""
        parts = (self._secret, self.session, self._request.url.path, about)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def check(self, form: Parameters, about: str) -> None:
        """Raise CsrfTokenInvalid unless this browser submitted one of its own forms."""
        headers = self._request.headers
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        # Browsers send "null" for pages with no-referrer, such as ours.
        is_same_origin = origin in {None, "null", self._origin} if site is None else site == "same-origin"
        expected = self.form_token(about)
        if not (
            is_same_origin and self._is_known and hmac.compare_digest(form.get(TOKEN_FIELD).encode(), expected.encode())
        ):
            raise CsrfTokenInvalid(
                "This page is out of date, or your browser blocks cookies. Nothing was changed: load the page again."
            )

    def remember_form(self, response: Response) -> None:
        """Set the cookie that CSRF tokens depend on."""
        if not self._is_known:
            self._set(response, self._form_name, self._secret)

    def sign_in(self, response: Response, login: accounts_pb2.SignInResponse) -> None:
        """Set the session cookie for the lifetime of its access token, and the device cookie."""
        tokens = login.tokens
        seconds = max(1, tokens.access_expire_time.seconds - int(time.time()))
        self._set(response, self._session_name, tokens.access_token, max_age=seconds)
        self._set(response, self._device_name, login.device_token, max_age=_DEVICE_SECONDS)

    def sign_out(self, response: Response) -> None:
        """Delete the session cookie; the browser stays a known device."""
        response.delete_cookie(self._session_name, path="/", secure=self._secure, httponly=True, samesite="lax")

    def _set(self, response: Response, name: str, value: str, *, max_age: int | None = None) -> None:
        response.set_cookie(name, value, max_age=max_age, path="/", secure=self._secure, httponly=True, samesite="lax")
