"""The console as HTTP: who gets in and to what, what its pages show and what they never let happen."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator

import pytest
from fix_cluster import Cluster, Tenant
from fix_console import HOSTILE_TITLE, BrowserSession, SeededData, furnished
from fix_web import PASSWORD, Person, form_of, new_person

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import members_pb2, tenancy_pb2

PAGES = (
    "", "search", "memories", "sessions", "conflicts", "approvals", "refused-facts", "changes", "policy", "jobs",
    "keys", "certificates", "spaces",
)  # fmt: skip


@pytest.fixture
async def web(cluster: Cluster) -> AsyncIterator[BrowserSession]:
    async with BrowserSession.of(cluster.addresses["http"]) as browser:
        yield browser


@pytest.fixture
async def person(cluster: Cluster, tenant: Tenant) -> Person:
    return await new_person(cluster, tenant, role=members_pb2.ROLE_OWNER)


@pytest.fixture
async def seeded(tenant: Tenant) -> SeededData:
    return await furnished(tenant)


async def test_a_browser_is_asked_to_sign_in_and_software_gets_a_description(web: BrowserSession) -> None:
    page = await web.client.get("/")
    text = await web.client.get("/", headers={"accept": "*/*"})
    listed = await web.client.get("/", headers={"accept": "application/json"})

    assert (page.status_code, "<h1>Sign in</h1>" in page.text) == (200, True)
    assert text.text.startswith("Skein ")
    assert listed.json()["name"] == "skein"


@pytest.mark.system
async def test_a_page_lets_nothing_else_happen(web: BrowserSession, tenant: Tenant) -> None:
    await web.show_key(tenant.api_key)

    for page in [await web.page(name) for name in PAGES]:
        assert page.status_code == 200, page.text
        assert page.headers["content-security-policy"] == (
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
            "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'"
        )
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in page.headers
        assert not re.search(r"<script(?! src=\"/console/static/)|\sstyle=|\son[a-z]+=|https?://(?!127)", page.text)


async def test_a_person_signs_in_and_sees_the_only_tenant(web: BrowserSession, person: Person, tenant: Tenant) -> None:
    page = await web.sign_in(person.email, PASSWORD)

    assert web.tenant_id == str(tenant.tenant_id)
    assert person.email in page.text
    assert "owner" in page.text


async def test_a_wrong_password_is_shown_and_keeps_the_address(web: BrowserSession, person: Person) -> None:
    answer = await web.submit(await web.client.get("/"), "sign_in", email=person.email, password="not this one")

    assert answer.status_code == 403
    assert "the e-mail address, the password or the code is wrong" in answer.text
    assert f'value="{person.email}"' in answer.text
    assert "not this one" not in answer.text


async def test_a_member_of_several_tenants_chooses(
    cluster: Cluster, web: BrowserSession, tenant: Tenant, other_tenant: Tenant
) -> None:
    person = await new_person(cluster, tenant, other_tenant)
    third = await cluster.new_tenant()

    page = await web.sign_in(person.email, PASSWORD)

    assert f"/console/{tenant.tenant_id}" in page.text
    assert f"/console/{other_tenant.tenant_id}" in page.text
    assert str(third.tenant_id) not in page.text


async def test_a_person_without_a_membership_is_told_so(cluster: Cluster, web: BrowserSession) -> None:
    person = await new_person(cluster)

    page = await web.sign_in(person.email, PASSWORD)

    assert "not a member of any tenant yet" in page.text


async def test_without_a_sign_in_every_page_asks_for_one_and_comes_back(
    web: BrowserSession, tenant: Tenant, person: Person
) -> None:
    web.tenant_id = str(tenant.tenant_id)
    requests = [await web.page(name) for name in PAGES]
    assert {answer.status_code for answer in requests} == {303}

    form = await web.client.get(requests[2].headers["location"])
    signed_in = await web.submit(form, "sign_in", email=person.email, password=PASSWORD)
    entrance = await web.client.get(signed_in.headers["location"])

    assert entrance.headers["location"] == f"/console/{tenant.tenant_id}/memories"


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/console/",
        "/\\evil.example",
        "/console/..//evil.example",
        "/console/x\r\nlocation: https://evil.example",
        "javascript:alert(1)",
        "/authorize?client_id=x",
    ],
)
async def test_a_sign_in_leads_to_our_own_pages_alone(
    web: BrowserSession, person: Person, tenant: Tenant, target: str
) -> None:
    form = await web.client.get("/", params={"next": target})

    answer = await web.submit(form, "sign_in", email=person.email, password=PASSWORD, next=target)
    entrance = await web.client.get("/", params={"next": target})

    assert answer.headers["location"] == "/"
    assert entrance.headers["location"] == f"/console/{tenant.tenant_id}"


async def test_a_key_lets_in_and_never_reaches_the_browser(web: BrowserSession, tenant: Tenant) -> None:
    answer = await web.submit(await web.client.get("/"), "key", key=f" {tenant.api_key}\n")
    page = await web.client.get(f"/console/{tenant.tenant_id}/keys")

    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert tenant.api_key not in f"{answer.headers}{page.text}{list(web.client.cookies.jar)}"
    assert "your current key" in page.text


async def test_a_key_that_is_none_is_refused_in_words(web: BrowserSession) -> None:
    page = await web.client.get("/")

    for key in ("nonsense", "skein_" + "a" * 100, "two words", "ключ", "x" * 9000):
        answer = await web.submit(page, "key", key=key)

        assert (answer.status_code, "This key is unknown" in answer.text) == (403, True)
        assert key not in answer.text


async def test_an_operators_key_opens_no_tenant(cluster: Cluster, web: BrowserSession) -> None:
    answer = await web.submit(await web.client.get("/"), "key", key=cluster.operator_key)

    assert (answer.status_code, "operator’s key" in answer.text) == (403, True)


async def test_a_revoked_key_opens_nothing(tenant: Tenant, web: BrowserSession) -> None:
    made = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="short-lived"))
    await tenant.auth.RevokeApiKey(auth_pb2.RevokeApiKeyRequest(api_key_id=made.api_key.api_key_id))

    answer = await web.submit(await web.client.get("/"), "key", key=made.secret)

    assert answer.status_code == 403


@pytest.mark.system
async def test_signing_out_ends_both_the_cookie_and_the_sign_in(web: BrowserSession, person: Person) -> None:
    page = await web.sign_in(person.email, PASSWORD)
    kept = dict(web.client.cookies)

    answer = await web.submit(page, "sign_out")

    assert answer.headers["location"] == "/?done=signed-out"
    assert (await web.page()).status_code == 303
    assert "skein" in kept
    assert "skein" not in web.client.cookies


async def test_signing_out_forgets_the_key(web: BrowserSession, tenant: Tenant) -> None:
    page = await web.show_key(tenant.api_key)
    key_session = web.client.cookies["skein-key-session"]

    await web.submit(page, "sign_out")
    web.client.cookies.set("skein-key-session", key_session)

    assert (await web.page()).status_code == 303


async def test_a_form_of_another_site_is_refused(web: BrowserSession, person: Person, seeded: SeededData) -> None:
    await web.sign_in(person.email, PASSWORD)
    url = f"/console/{web.tenant_id}/conflicts"
    page = await web.page("conflicts")
    form = {"step": "resolve", "a": seeded.a_id, "b": seeded.b_id, "decision": "a"}
    token = re.findall(r'name="form_token" value="(\w+)"', page.text)[-1]
    policy = form_of(await web.page("policy"), "save").fields

    forged = [
        await web.send(url, form),
        await web.send(url, {**form, "form_token": "0" * 64}),
        await web.send(url, {**form, "form_token": token}, sec_fetch_site="cross-site"),
        await web.send(url, {**form, "form_token": token}, sec_fetch_site="same-site"),
        await web.send(f"/console/{web.tenant_id}/policy", {**policy, "form_token": token}),
    ]

    assert [answer.status_code for answer in forged] == [400] * 5
    assert "Same key, different content" in (await web.page("conflicts")).text


async def test_a_token_of_one_sign_in_is_worth_nothing_in_another(
    cluster: Cluster, web: BrowserSession, person: Person, tenant: Tenant
) -> None:
    await web.sign_in(person.email, PASSWORD)
    theirs = re.findall(r'name="form_token" value="(\w+)"', (await web.page("policy")).text)[-1]
    async with BrowserSession.of(cluster.addresses["http"]) as mine:
        await mine.show_key(tenant.api_key)

        answer = await mine.send(f"/console/{mine.tenant_id}/policy", {"step": "save", "form_token": theirs})

    assert answer.status_code == 400


@pytest.mark.system
async def test_another_tenants_pages_are_not_found(web: BrowserSession, person: Person, other_tenant: Tenant) -> None:
    await web.sign_in(person.email, PASSWORD)
    web.tenant_id = str(other_tenant.tenant_id)

    answers = [await web.page(name) for name in PAGES]

    assert {answer.status_code for answer in answers} == {404}
    name = (
        await other_tenant.tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=web.tenant_id))
    ).tenant.display_name
    assert not any(name in answer.text for answer in answers)


async def test_a_tenant_that_there_is_not_is_not_found(web: BrowserSession, tenant: Tenant) -> None:
    await web.show_key(tenant.api_key)

    for tenant_id in (str(uuid.uuid4()), "nonsense", "%2e%2e", "0"):
        web.tenant_id = tenant_id

        assert (await web.page("memories")).status_code == 404


async def test_a_key_opens_no_other_tenant(web: BrowserSession, tenant: Tenant, other_tenant: Tenant) -> None:
    await web.show_key(tenant.api_key)
    web.tenant_id = str(other_tenant.tenant_id)

    assert {(await web.page(name)).status_code for name in PAGES} == {404}


async def test_another_tenants_ids_are_not_found(web: BrowserSession, tenant: Tenant, other_tenant: Tenant) -> None:
    theirs = await other_tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="the other tenant's secret plan"))
    )
    session = await other_tenant.sessions.CreateSession(
        session_pb2.CreateSessionRequest(session=session_pb2.Session(title="theirs"))
    )
    await web.show_key(tenant.api_key)

    answers = [
        await web.page("memory", id=theirs.memory.memory_id),
        await web.page("graph", id=theirs.memory.memory_id),
        await web.page("session", id=session.session.session_id),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert "secret plan" not in (await web.page("search", q="secret plan")).text.replace('value="secret plan"', "")


@pytest.mark.parametrize("page", ["memory", "graph", "session"])
async def test_an_invalid_id_is_explained_in_words(web: BrowserSession, tenant: Tenant, page: str) -> None:
    await web.show_key(tenant.api_key)

    # Without an id, the page shows the graph of the tenant.
    for memory_id in (
        *([] if page == "graph" else [""]),
        "nonsense",
        "x" * 300,
        str(uuid.uuid4()),
        "'; DROP TABLE",
        "<b>",
    ):
        answer = await web.page(page, id=memory_id)

        assert answer.status_code in {400, 404}, memory_id
        assert 'role="alert"' in answer.text
        assert "<b>" not in answer.text


@pytest.mark.system
async def test_hostile_content_is_shown_as_what_it_is(web: BrowserSession, tenant: Tenant, seeded: SeededData) -> None:
    await web.show_key(tenant.api_key)

    pages = [
        await web.page(),
        await web.page("memories"),
        await web.page("memory", id=seeded.hostile_id),
        await web.page("graph", id=seeded.hostile_id),
        await web.page("search", q="pneumono <script>alert(9)</script>"),
        await web.page("sessions"),
        await web.page("session", id="hostile/<script>?&"),
        await web.page("memories", type="<script>", tag='"><script>', where="'\"><script>"),
    ]

    for page in pages:
        assert page.status_code in {200, 400}, page.text
        assert not re.search(r"<script(?! src=\"/console/static/)|<img(?! src=\"/console/static/)|<b>", page.text)
    assert "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;" in pages[2].text
    assert HOSTILE_TITLE not in pages[2].text
    assert "{{ 7 * 7 }}" in pages[2].text
    assert "<bdi>" in pages[1].text


async def test_an_invalid_query_is_explained_beside_the_form(web: BrowserSession, tenant: Tenant) -> None:
    await web.show_key(tenant.api_key)

    for page, asked in (
        ("memories", {"page": "nonsense"}),
        ("memories", {"where": "type = "}),
        ("sessions", {"page": "nonsense"}),
        ("changes", {"page": "nonsense"}),
        ("search", {"q": "x" * 10_001}),
    ):
        answer = await web.page(page, **asked)

        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True), page
        assert 'class="filters' in answer.text


async def test_a_repeated_parameter_is_refused(web: BrowserSession, tenant: Tenant) -> None:
    await web.show_key(tenant.api_key)

    answer = await web.client.get(f"/console/{web.tenant_id}/memory?id=a&id=b")

    assert answer.status_code == 400


async def test_files_of_the_pages_are_served_and_no_others(web: BrowserSession) -> None:
    page = await web.client.get("/")
    named = re.findall(r'(?:href|src)="(/console/static/[^"]+)"', page.text)

    for url in named:
        file = await web.client.get(url)
        assert (file.status_code, "immutable" in file.headers["cache-control"]) == (200, True)
    assert len(named) >= 3
    for name in ("base.html", "..%2f__init__.py", "x"):
        assert (await web.client.get(f"/console/static/{name}")).status_code == 404
