"""Attack: another site sends every form of the gateway's pages, and plants cookies of the attacker's before a sign-in.
May be seen: the error page that says that nothing was done.
May be spent: one page per forged form; no call of the cluster beyond those that find out who is signed in.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant
from fix_console import furnished
from fix_extraction import keep_refused
from fix_receipts import get_receipt, recall_with_receipt
from fix_spaces import first_spaces
from fix_web import PASSWORD, Form, Person, Pkce, Web, authorize_url, form_of, forms_of, new_person, step_of
from grpc import aio
from starlette.routing import Route

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import blocks_pb2, memory_pb2, pages_pb2, webhooks_pb2
from skein.tenancy.v1 import members_pb2, subjects_pb2
from skein_gateway.console.routes import Console
from skein_gateway.oauth.routes import oauth_routes

# What takes a POST of software, which shows a credential of its own and no cookie.
OF_SOFTWARE = {"/token", "/revoke", "/introspect", "/device_authorization", "/userinfo", "/register"}
HTML = {"accept": "text/html"}
FORGED = 400


@dataclass(frozen=True)
class FilledForm:
    """A form that a page of ours gave to a browser."""

    web: Web
    url: str
    fields: dict[str, str]

    async def send(self, fields: dict[str, str], **headers: str) -> httpx.Response:
        return await self.web.client.post(self.url, data=fields, headers=headers)


@pytest.fixture
async def person(cluster: Cluster, tenant: Tenant) -> Person:
    return await new_person(cluster, tenant, role=members_pb2.ROLE_OWNER)


@pytest.fixture
async def stranger(cluster: Cluster) -> AsyncIterator[Web]:
    """A browser that is not signed in."""
    async with Web.of(cluster.addresses["http"], headers=HTML) as browser:
        yield browser


@pytest.fixture
async def web(cluster: Cluster, person: Person) -> AsyncIterator[Web]:
    """A browser in which the person is signed in."""
    async with Web.of(cluster.addresses["http"], headers=HTML) as browser:
        await browser.signed_in(await browser.get("/device"), person)
        yield browser


def routes_of_forms() -> set[str]:
    """Return the path of every route that takes a POST of a browser, as the gateway itself has them."""
    host: Any = SimpleNamespace(
        channel=lambda *_, **__: aio.insecure_channel("127.0.0.1:9"),
    )
    nothing = cast("Any", None)
    routes: list[Route] = [
        *oauth_routes(host, nothing, nothing, nothing),
        *Console.of(host, nothing, nothing, nothing, nothing).routes,
    ]
    return {route.path for route in routes if "POST" in (route.methods or ())} - OF_SOFTWARE


async def forms_on(web: Web, url: str) -> list[FilledForm]:
    page = await web.get(url)
    assert page.status_code == 200, (url, page.text)
    posted: list[Form] = [form for form in forms_of(page) if "form_token" in form.fields]
    return [FilledForm(web, urljoin(str(page.url), form.action), form.fields) for form in posted]


async def wait_for_approval(tenant: Tenant) -> None:
    """Have an agent's memory wait for approval. The policy is seen within a second."""
    policy = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy(approval="agents"))
    policy.update_mask.paths.append("approval")
    await tenant.tenancy.UpdatePolicy(policy)
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="waits"))
    async with asyncio.timeout(60):
        while not (
            await tenant.memory.CreateMemory(request, metadata=(("skein-agent-id", "butler"),))
        ).memory.pending_approval:
            await asyncio.sleep(0.1)


async def every_form(cluster: Cluster, web: Web, stranger: Web, tenant: Tenant) -> list[FilledForm]:
    client_id = (await web.register())["client_id"]
    authorize = authorize_url(client_id, Pkce())
    console = f"/console/{tenant.tenant_id}"
    results = []
    for url in (authorize, "/device", "/", "/account/reset", "/account/invitation?token=t", "/account/verify?token=t"):
        results += await forms_on(stranger, url)
    memory_id = (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=1))).memories[0].memory_id
    block = blocks_pb2.CreateBlockRequest(block=blocks_pb2.Block(label="persona"))
    block_id = (await tenant.blocks.CreateBlock(block)).block.block_id
    webhook = webhooks_pb2.Webhook(display_name="w", event_types=["*"], webhook_url="https://127.0.0.1/hook")
    await keep_refused(cluster, tenant, "I live in Porto")
    await wait_for_approval(tenant)
    created = await tenant.history.CreateWebhook(webhooks_pb2.CreateWebhookRequest(webhook=webhook))
    await tenant.set_policy(recall_receipts="all")
    page = pages_pb2.CreatePageRequest(page=pages_pb2.Page(subject_id="anna", title="Anna"))
    page_id = (await tenant.curation.CreatePage(page)).page.page_id
    [space_id] = await first_spaces(cluster, tenant, "clinic")
    receipt_id = (await recall_with_receipt(tenant, "tea")).receipt_id
    await get_receipt(tenant, receipt_id)
    of_one = (
        f"edit?id={memory_id}",
        f"block?id={block_id}",
        f"webhook?id={created.webhook.webhook_id}",
        f"receipt?id={receipt_id}",
        f"page?id={page_id}",
        f"space?id={space_id}",
    )
    pages = (f"{console}/{page}" for page in (*PAGES, *of_one))
    for url in (authorize, "/device", "/account/invitation?token=t", *pages):
        results += await forms_on(web, url)
    return results


PAGES = (
    "keys", "policy", "conflicts", "blocks", "webhooks", "members", "start", "jobs", "approvals", "refused-facts",
    "pages", "spaces",
)  # fmt: skip


async def _key_ids(tenant: Tenant) -> list[str]:
    return [key.api_key_id for key in (await tenant.auth.ListApiKeys(auth_pb2.ListApiKeysRequest())).api_keys]


@pytest.mark.system
async def test_no_form_of_another_site_does_anything(
    cluster: Cluster, web: Web, stranger: Web, tenant: Tenant, person: Person
) -> None:
    await furnished(tenant)
    forms = await every_form(cluster, web, stranger, tenant)
    paths = {urlsplit(form.url).path.replace(str(tenant.tenant_id), "{tenant_id}") for form in forms}
    assert paths == routes_of_forms()
    filled = {"email": person.email, "password": PASSWORD, "decision": "allow", "tenant_id": str(tenant.tenant_id)}
    keys_before = await _key_ids(tenant)

    for form in forms:
        right = {**form.fields, **filled, "display_name": "forged", "permission-memory.read": "on"}
        without = {name: value for name, value in right.items() if name != "form_token"}
        others = {one.fields["form_token"] for one in forms if one.fields["form_token"] != form.fields["form_token"]}
        forgeries: list[tuple[str, dict[str, str], dict[str, str]]] = [
            ("no token", without, {}),
            ("a token of another form", {**without, "form_token": min(others)}, {}),
            ("another site", right, {"sec-fetch-site": "cross-site"}),
            ("another origin", right, {"origin": "https://evil.example"}),
            ("a token of zeros", {**without, "form_token": "0" * 64}, {}),
            ("a neighbour of the site", right, {"sec-fetch-site": "same-site"}),
            ("an origin that begins like ours", right, {"origin": f"{form.web.origin}.evil.example"}),
        ]
        for how, fields, headers in forgeries[: attack_size(4, 7)]:
            answer = await form.send(fields, **headers)
            assert answer.status_code == FORGED, (how, form.url, form.fields["step"], answer.status_code)
            assert not {"location", "set-cookie"} & set(answer.headers), (how, form.url)

    assert await _key_ids(tenant) == keys_before
    assert "Same key, different content" in (await web.get(f"/console/{tenant.tenant_id}/conflicts")).text
    # What the person sends from our own page is taken.
    made = await web.submit(
        await web.get(f"/console/{tenant.tenant_id}/keys"),
        "create",
        display_name="own",
        **{"permission-memory.read": "on"},
    )
    assert "was created. Copy its secret now" in made.text


async def test_a_cookie_alone_opens_no_api(web: Web, tenant: Tenant) -> None:
    headers = {"content-type": "application/json", "skein-tenant-id": str(tenant.tenant_id)}

    answers = [
        await web.client.post("/skein.memory.v1.MemoryService/ListMemories", content="{}", headers=headers),
        await web.client.post("/skein.auth.v1.AuthService/CreateApiKey", content="{}", headers=headers),
        await web.client.post("/mcp", content="{}", headers={**headers, "accept": "application/json"}),
        await web.client.post("/userinfo"),
    ]

    assert web.client.cookies.get("skein")
    assert [answer.status_code for answer in answers] == [401] * len(answers)


async def test_cookies_that_were_planted_before_a_sign_in_are_worth_nothing_after_it(
    cluster: Cluster, stranger: Web, tenant: Tenant, other_tenant: Tenant, person: Person
) -> None:
    attacker = await new_person(cluster, other_tenant)
    async with Web.of(cluster.addresses["http"], headers=HTML) as theirs:
        await theirs.signed_in(await theirs.get("/device"), attacker)
        planted = {name: theirs.client.cookies[name] for name in ("skein", "skein-form")}
    plant(stranger, **planted)
    client_id = (await stranger.register())["client_id"]
    url = authorize_url(client_id, Pkce(), prompt="login")

    page = await stranger.signed_in(await stranger.get(url), person)

    session = stranger.client.cookies["skein"]
    assert session != planted["skein"]
    assert (person.email in page.text, attacker.email in page.text) == (True, False)
    # The attacker knows the cookie that form tokens depend on, and no more than that.
    async with Web.of(cluster.addresses["http"], headers=HTML) as theirs:
        plant(theirs, **planted)
        own = await theirs.get(authorize_url(client_id, Pkce()))
        guessed = {form.fields["form_token"] for form in forms_of(own)}
    answered = form_of(page, "answer")
    for token in guessed:
        forged = {**answered.fields, "form_token": token, "decision": "allow", "tenant_id": str(tenant.tenant_id)}
        assert (await stranger.client.post(str(page.url), data=forged)).status_code == FORGED


async def test_a_planted_key_of_the_console_is_replaced_by_the_sign_in(
    cluster: Cluster, stranger: Web, other_tenant: Tenant, tenant: Tenant, person: Person
) -> None:
    async with Web.of(cluster.addresses["http"], headers=HTML) as theirs:
        await theirs.submit(await theirs.get("/"), "key", key=other_tenant.api_key)
        plant(stranger, **{"skein-key-session": theirs.client.cookies["skein-key-session"]})

    answer = await stranger.submit(await _sign_in_page(stranger), "sign_in", email=person.email, password=PASSWORD)

    assert answer.status_code == 303
    assert not stranger.client.cookies.get("skein-key-session")
    found = await stranger.get(f"/console/{tenant.tenant_id}/keys")
    assert person.email in found.text


@pytest.mark.system
async def test_signing_out_leaves_a_copied_cookie_without_worth(web: Web, stranger: Web) -> None:
    client_id = (await web.register())["client_id"]
    url = authorize_url(client_id, Pkce())
    copied = web.client.cookies["skein"]

    await web.submit(await web.get(url), "sign_out")

    plant(stranger, skein=copied)
    # The gateway remembers an identity for less than four seconds.
    async with asyncio.timeout(30):
        while step_of(await stranger.get(url)) != "sign_in":
            await asyncio.sleep(0.05)


def plant(web: Web, **cookies: str) -> None:
    """Put cookies into a browser as a neighbouring server of the same host can."""
    for name, value in cookies.items():
        web.client.cookies.set(name, value, domain="127.0.0.1", path="/")


async def _sign_in_page(web: Web) -> httpx.Response:
    """Return the console's page that signs in, which a browser with a planted key session reaches by signing out."""
    page = await web.get("/console?choose=1")
    while page.is_redirect:
        page = await web.get(page.headers["location"])
    if re.search(r'value="sign_in"', page.text):
        return page
    leaving = next(form for form in forms_of(page) if form.action == "/console/sign-out")
    await web.client.post(leaving.action, data=leaving.fields, headers={"sec-fetch-site": "same-origin"})
    return await web.get("/")
