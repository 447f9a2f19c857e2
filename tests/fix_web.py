"""A person with an account, and a browser without a screen that walks the gateway's pages as the person would."""

from __future__ import annotations

import base64
import hashlib
import secrets
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urljoin, urlsplit

import httpx
from argon2 import PasswordHasher
from fix_cluster import Cluster, Tenant
from fix_http import TLS

from skein.auth.v1 import accounts_pb2
from skein.tenancy.v1 import members_pb2

PASSWORD = "a password of some length"
# Nothing listens here: a test reads where it is sent.
REDIRECT = "http://127.0.0.1:9/callback"
SCOPE = "memory.read memory.write"
# Cheap to make; auth makes it as dear as its settings say at the first sign-in.
_CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@dataclass(frozen=True)
class Person:
    """A person with an account."""

    account_id: str
    email: str


async def new_person(cluster: Cluster, *tenants: Tenant, role: members_pb2.Role = members_pb2.ROLE_MEMBER) -> Person:
    """Make an account with PASSWORD that is a member of these tenants."""
    email = f"{uuid.uuid4().hex}@example.org"
    made = await cluster.operator.auth.CreateAccount(
        accounts_pb2.CreateAccountRequest(
            email=email, display_name="Ada", password_hash=_CHEAP.hash(PASSWORD), email_verified=True
        )
    )
    for tenant in tenants:
        acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
        await acting.tenancy.AddMember(members_pb2.AddMemberRequest(account_id=made.account.account_id, role=role))
    return Person(account_id=made.account.account_id, email=email)


@dataclass
class Form:
    """A form of a page."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    # What can be chosen, by the name of the field.
    choices: dict[str, list[str]] = field(default_factory=dict)


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(attributes["action"]))
        elif tag == "input" and attributes.get("type") == "radio":
            self.forms[-1].choices.setdefault(attributes["name"], []).append(attributes["value"])
        elif tag == "input":
            self.forms[-1].fields[attributes["name"]] = attributes.get("value", "")


@dataclass
class Web:
    """A browser: it keeps cookies, follows no redirect by itself, and says where its forms come from."""

    client: httpx.AsyncClient
    origin: str

    @classmethod
    @asynccontextmanager
    async def of(cls, address: str, *, scheme: str = "http", **options: Any) -> AsyncIterator[Web]:
        origin = f"{scheme}://{address}"
        async with httpx.AsyncClient(
            base_url=origin, trust_env=False, timeout=30, **{"verify": TLS, **options}
        ) as client:
            yield cls(client, origin)

    async def get(self, url: str, **parameters: str) -> httpx.Response:
        return await self.client.get(url, params=parameters or None)

    async def submit(self, page: httpx.Response, step: str, **fields: str) -> httpx.Response:
        """Fill in the form of a step and send it."""
        form = form_of(page, step)
        return await self.client.post(
            urljoin(str(page.url), form.action),
            data={**form.fields, **fields},
            headers={"origin": self.origin, "sec-fetch-site": "same-origin"},
        )

    async def post(self, path: str, data: dict[str, str] | str, **headers: str) -> httpx.Response:
        """Post a form as software does."""
        body = data if isinstance(data, str) else urlencode(data)
        sent = {
            "content-type": "application/x-www-form-urlencoded",
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        return await self.client.post(path, content=body, headers=sent)

    async def register(self, **metadata: Any) -> dict[str, Any]:
        """Register a client, a public one unless the test says otherwise."""
        registration = {
            "client_name": "Tester",
            "redirect_uris": [REDIRECT],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            **metadata,
        }
        answer = await self.client.post("/register", json=registration)
        assert answer.status_code == 201, answer.text
        payload: dict[str, Any] = answer.json()
        return payload

    async def signed_in(self, page: httpx.Response, person: Person) -> httpx.Response:
        """Sign in on a page that asks for it, and return the page after it."""
        answer = await self.submit(page, "sign_in", email=person.email, password=PASSWORD)
        assert answer.status_code == 303, answer.text
        return await self.get(answer.headers["location"])

    async def consent(self, url: str, person: Person) -> httpx.Response:
        """Return the page that asks whether an application may act for the person."""
        page = await self.get(url)
        assert page.status_code == 200, page.text
        return await self.signed_in(page, person) if step_of(page) == "sign_in" else page

    async def code(self, url: str, person: Person, tenant: Tenant) -> dict[str, str]:
        """Let an application in; return what its redirect is told."""
        page = await self.consent(url, person)
        answer = await self.submit(page, "answer", decision="allow", tenant_id=str(tenant.tenant_id))
        assert answer.status_code == 303, answer.text
        return redirect_parameters(answer)


@dataclass(frozen=True)
class Pkce:
    """A verifier and its challenge."""

    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def authorize_url(client_id: str, pkce: Pkce, **changed: str) -> str:
    """Return what a client sends a browser to."""
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "scope": SCOPE,
        "state": "the state",
        "code_challenge": pkce.challenge,
        "code_challenge_method": "S256",
        **changed,
    }
    return "/authorize?" + urlencode({name: value for name, value in parameters.items() if value})


def forms_of(page: httpx.Response) -> list[Form]:
    """Return a page's forms."""
    reader = _Forms()
    reader.feed(page.text)
    return reader.forms


def form_of(page: httpx.Response, step: str) -> Form:
    """Return the form of a step."""
    results = [form for form in forms_of(page) if form.fields.get("step") == step]
    assert results, page.text
    return results[0]


def step_of(page: httpx.Response) -> str:
    """Return the step that a page is for."""
    return forms_of(page)[-1].fields["step"]


def redirect_parameters(answer: httpx.Response) -> dict[str, str]:
    """Return the parameters of a redirect to REDIRECT."""
    location = answer.headers["location"]
    assert location.startswith(REDIRECT), location
    return dict(parse_qsl(urlsplit(location).query))


def query_of(url: str) -> dict[str, list[str]]:
    """Return the parameters of an address."""
    return parse_qs(urlsplit(url).query)
