"""GitHub and an issuer of OpenID Connect, played by a small real HTTP server on this machine."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

CLIENT_ID = "skein-web"
GITHUB_CLIENT_ID = "Iv1.skein"
GITHUB_SECRET = "the secret of Skein's app"


def new_key(key_id: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": key_id, "alg": "RS256"}, private=True)


@cache
def _first_key() -> RSAKey:
    """Return the key that every issuer begins with: making one takes long."""
    return new_key("first")


@dataclass
class Issuer:
    """What the server says; a test changes it."""

    url: str
    keys: list[RSAKey | ECKey | OKPKey] = field(default_factory=lambda: [_first_key()])
    # GitHub's tokens: the app that each was made for, and whose it is.
    github: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    # What was asked, as "GET /path".
    requests: list[str] = field(default_factory=list)
    # Recorded answers, as in `requests`: a status and a document.
    recorded: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    # What is answered with an error, as in `requests`.
    broken: set[str] = field(default_factory=set)
    # What the discovery document says of the issuer, if not the truth.
    claims_to_be: str = ""

    @property
    def oidc(self) -> str:
        """The issuer's name."""
        return f"{self.url}/realm"

    @property
    def settings(self) -> dict[str, str]:
        """What auth is told of this server."""
        return {
            "SKEIN_OIDC_PROVIDERS": f"home={self.oidc};{CLIENT_ID};skein-app",
            "SKEIN_GITHUB_URL": f"{self.url}/github",
            "SKEIN_GITHUB_CLIENT_ID": GITHUB_CLIENT_ID,
            "SKEIN_GITHUB_CLIENT_SECRET": GITHUB_SECRET,
            "SKEIN_OUTBOUND_ALLOW": self.url,
        }

    def id_token(
        self,
        subject: str,
        *,
        key: RSAKey | ECKey | OKPKey | None = None,
        header: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """Sign an ID token; a claim that is None is left out."""
        key = key or self.keys[-1]
        at = int(time.time())
        whole = {"iss": self.oidc, "sub": subject, "aud": CLIENT_ID, "iat": at, "exp": at + 300, **claims}
        head = {"alg": "RS256", "kid": key.kid, **(header or {})}
        kept = {name: value for name, value in whole.items() if value is not None}
        return jwt.encode(
            {name: value for name, value in head.items() if value is not None}, kept, key, algorithms=[head["alg"]]
        )

    def id_jag(self, subject: str, client: str, audience: str, **claims: Any) -> str:
        """Sign an identity assertion about a person for a client of the server that `audience` names."""
        header = {"typ": "oauth-id-jag+jwt", **claims.pop("header", {})}
        whole = {"aud": audience, "client_id": client, "jti": uuid4().hex, **claims}
        return self.id_token(subject, header=header, **whole)

    def github_token(self, number: int, login: str, *, app: str = GITHUB_CLIENT_ID, **user: Any) -> str:
        """Make a person's token for an app."""
        token = f"gho_{len(self.github)}_{number}"
        self.github[token] = (app, {"id": number, "login": login, **user})
        return token

    def answer(self, request_line: str, authorization: str, body: bytes) -> tuple[int, object]:
        """Return a status and a document."""
        self.requests.append(request_line)
        if request_line in self.broken:
            return 503, {}
        if request_line in self.recorded:
            return self.recorded[request_line]
        documents: dict[str, Callable[[], tuple[int, object]]] = {
            "GET /realm/.well-known/openid-configuration": self._discovery,
            "GET /realm/keys": self._public_keys,
            "GET /github/user": lambda: self._user(authorization),
            f"POST /github/applications/{GITHUB_CLIENT_ID}/token": lambda: self._token(authorization, body),
        }
        return documents.get(request_line, lambda: (404, {}))()

    def _discovery(self) -> tuple[int, object]:
        return 200, {"issuer": self.claims_to_be or self.oidc, "jwks_uri": f"{self.url}/realm/keys"}

    def _public_keys(self) -> tuple[int, object]:
        return 200, {"keys": [{**key.as_dict(private=False), "use": "sig"} for key in self.keys]}

    def _user(self, authorization: str) -> tuple[int, object]:
        result = self.github.get(authorization.removeprefix("Bearer "))
        return (401, {"message": "Bad credentials"}) if result is None else (200, result[1])

    def _token(self, authorization: str, body: bytes) -> tuple[int, object]:
        expected = base64.b64encode(f"{GITHUB_CLIENT_ID}:{GITHUB_SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, {"message": "Bad credentials"}
        app, user = self.github.get(json.loads(body)["access_token"], ("", {}))
        if app != GITHUB_CLIENT_ID:
            return 404, {"message": "Not Found"}
        return 200, {"id": 1, "app": {"client_id": app, "name": "Skein"}, "user": user}


@contextmanager
def issuing() -> Iterator[Issuer]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("content-length", 0)))
            request_line = f"{self.command} {self.path}"
            status, document = issuer.answer(request_line, self.headers.get("authorization", ""), sent)
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the base class looks for this name.

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so.
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = Issuer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
