"""The console's pages that manage a tenant: blocks, webhooks with their deliveries, members and invitations."""

from __future__ import annotations

import html
import re

import httpx
import pytest
from fix_cluster import Cluster, Tenant
from fix_console import BrowserSession, attempt_deliveries, filled
from fix_web import PASSWORD, Person, new_person

from skein.memory.v1 import blocks_pb2, memory_pb2, webhooks_pb2
from skein.tenancy.v1 import members_pb2

# Nothing is sent there: the address is refused before.
NOWHERE = "https://127.0.0.1/hook"
NEW_WEBHOOK = {"display_name": "<b>till</b>", "webhook_url": NOWHERE}


async def browsing_as(cluster: Cluster, tenant: Tenant, role: members_pb2.Role, web: BrowserSession) -> Person:
    """Replace the login of the browser by a person with a role."""
    person = await new_person(cluster, tenant, role=role)
    web.client.cookies.clear()
    await web.sign_in(person.email, PASSWORD)
    return person


async def followed(web: BrowserSession, answer: httpx.Response) -> httpx.Response:
    assert answer.status_code == 303, answer.text
    return await web.client.get(answer.headers["location"])


async def new_block(web: BrowserSession, **values: str) -> httpx.Response:
    """Create a block by the form, and return its page."""
    form = {"label": "persona", "value": "You are kind.", **values}
    return await followed(web, await web.submit(await web.page("blocks"), "create", **form))


async def block_of(tenant: Tenant) -> blocks_pb2.Block:
    return (await tenant.blocks.ListBlocks(blocks_pb2.ListBlocksRequest(show_deleted=True))).blocks[0]


async def test_a_block_is_created_and_carried_by_an_agent(web: BrowserSession, tenant: Tenant) -> None:
    page = await new_block(web, value="<b>You</b> are kind.\r\nAlways.", agent_id="kitchen", limit="40")

    compiled = await tenant.blocks.CompileBlocks(blocks_pb2.CompileBlocksRequest(agent_id="kitchen"))
    assert "<b>You</b> are kind.\n| Always." in compiled.text
    assert "The block is created." in page.text
    assert "&lt;b&gt;You&lt;/b&gt; are kind." in page.text
    assert "<bdi>kitchen</bdi>" in page.text
    assert "28 of 40 characters" in page.text
    assert "&lt;b&gt;You&lt;/b&gt; are kind. Always." in (await web.page("blocks")).text
    assert "No blocks match this filter." in (await web.page("blocks", label="human")).text


@pytest.mark.system
async def test_a_block_shows_its_history_and_goes_back(web: BrowserSession, tenant: Tenant) -> None:
    page = await new_block(web)
    page = await followed(web, await web.submit(page, "save", value="You are strict.", description="How to be"))

    assert "The block is saved." in page.text
    assert re.search(r"You are <mark>kind.</mark></div>.*You are <mark>strict.</mark></div>", page.text, re.DOTALL)
    assert '<span class="chip">purpose, written' not in page.text
    assert '<span class="chip">purpose</span>' in page.text
    back = await followed(web, await web.submit(page, "revert"))
    assert "The block has the text of the earlier revision again." in back.text
    assert (await block_of(tenant)).value == "You are kind."
    assert (await block_of(tenant)).revision == 3


async def test_a_block_that_an_agent_changed_meanwhile_is_not_overwritten(web: BrowserSession, tenant: Tenant) -> None:
    opened = await new_block(web)
    block_id = (await block_of(tenant)).block_id
    await tenant.blocks.AppendToBlock(blocks_pb2.AppendToBlockRequest(block_id=block_id, text="And quick."))

    late = await web.submit(opened, "save", value="You are strict.")
    reverted = await web.submit(opened, "delete")
    kept = (await block_of(tenant)).value
    saved = await web.submit(late, "save")

    assert (late.status_code, reverted.status_code) == (409, 409)
    assert "Compare both" in late.text
    assert "<mark>kind.\nAnd quick.</mark>" in late.text
    assert kept == "You are kind.\nAnd quick."
    assert "done=block-save" in saved.headers["location"]
    assert (await block_of(tenant)).value == "You are strict."


async def test_a_block_is_attached_detached_deleted_and_undeleted(web: BrowserSession, tenant: Tenant) -> None:
    page = await new_block(web)
    page = await followed(web, await web.submit(page, "attach", agent_id="a/1 <i>"))
    assert "a/1 &lt;i&gt;" in page.text
    page = await followed(web, await web.submit(page, "detach"))
    assert "No agent carries this block." in page.text
    page = await followed(web, await web.submit(page, "delete"))
    assert "It can be undeleted" in page.text
    assert "No blocks yet." in (await web.page("blocks")).text
    assert "deleted" in (await web.page("blocks", deleted="on")).text
    page = await followed(web, await web.submit(page, "undelete"))
    assert "The block is back." in page.text
    assert not (await block_of(tenant)).HasField("delete_time")


@pytest.mark.system
async def test_a_block_that_cannot_be_is_refused_in_words(web: BrowserSession, tenant: Tenant) -> None:
    page = await new_block(web, agent_id="kitchen", limit="20")

    for step, changed, status in (
        ("save", {"value": "x" * 21}, 400),
        ("save", {"limit": "many"}, 400),
        ("save", {"limit": "0"}, 400),
        ("save", {"limit": "99999999999999"}, 400),
        ("save", {"label": "x" * 51}, 400),
        ("save", {"revision": ""}, 400),
        ("attach", {"agent_id": ""}, 400),
        ("detach", {"agent_id": "nobody"}, 404),
        ("delete", {"revision": ""}, 400),
    ):
        answer = await web.submit(page, step, **changed)

        assert (answer.status_code, 'role="alert"' in answer.text) == (status, True), (step, changed)
    again = await web.submit(await web.page("blocks"), "create", label="persona", value="Mine", agent_id="kitchen")
    assert (again.status_code, filled(again, "create")["value"]) == (409, "Mine")
    assert "detach it first" in again.text
    assert (await web.page("block", id="no such block")).status_code == 404
    assert (await block_of(tenant)).revision == 1


async def new_webhook(web: BrowserSession, **values: str) -> tuple[httpx.Response, httpx.Response]:
    """Create a webhook by the form; return the page with its key, and its own page."""
    created = await web.submit(await web.page("webhooks"), "create", **{**NEW_WEBHOOK, **values})
    assert created.status_code == 200, created.text
    return created, await web.client.get(
        html.unescape(re.findall(r'href="(/console/[^"]+/webhook\?id=[^"]+)"', created.text)[0])
    )


async def webhook_of(tenant: Tenant) -> webhooks_pb2.Webhook:
    return (await tenant.history.ListWebhooks(webhooks_pb2.ListWebhooksRequest())).webhooks[0]


async def test_a_webhooks_key_is_shown_once(web: BrowserSession, tenant: Tenant) -> None:
    form = filled(await web.page("webhooks"), "create")
    url = form.pop("")
    form |= {"display_name": "till", "webhook_url": NOWHERE, "event_types": "memory_created\r\nmemory_updated\r\n"}

    created, again = await web.send(url, form), await web.send(url, form)

    secret = re.findall(r'value="(whsec_[^"]+)"', created.text)[0]
    assert ("This form was already submitted" in again.text, secret in again.text) == (True, False)
    assert secret not in (await web.page("webhooks")).text
    assert list((await webhook_of(tenant)).event_types) == ["memory_created", "memory_updated"]
    page = await web.page("webhook", id=(await webhook_of(tenant)).webhook_id)
    rotated = await web.submit(page, "rotate")
    new_secret = re.findall(r'value="(whsec_[^"]+)"', rotated.text)[0]
    assert new_secret != secret


async def test_failed_deliveries_say_why_and_are_tried_again(
    cluster: Cluster, web: BrowserSession, tenant: Tenant
) -> None:
    await new_webhook(web)
    webhook_id = (await webhook_of(tenant)).webhook_id
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="never shown")))
    await attempt_deliveries(cluster, tenant, webhook_id)

    page = await web.page("webhook", id=webhook_id)
    delivered = await web.page("webhook", id=webhook_id, state="delivered")
    pending = await web.page("webhook", id=webhook_id, state="pending")

    assert "<strong>the name of the server is unknown, or its address is not public</strong>" in page.text
    assert "1 attempt" in page.text
    assert "failure in a row" in page.text or "failures in a row" in page.text
    assert "never shown" not in page.text
    assert "No delivery has this state." in delivered.text
    assert "<strong>the name of the server is unknown, or its address is not public</strong>" in pending.text
    before = (
        await tenant.history.ListWebhookDeliveries(webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=webhook_id))
    ).deliveries
    retried = await followed(web, await web.submit(page, "retry"))
    after = (
        await tenant.history.ListWebhookDeliveries(webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=webhook_id))
    ).deliveries
    assert "tried again now" in retried.text
    assert any(
        one.next_attempt_time.ToNanoseconds() < earlier.next_attempt_time.ToNanoseconds()
        for one in after
        for earlier in before
        if one.delivery_id == earlier.delivery_id
    )


@pytest.mark.system
async def test_a_webhook_is_changed_tested_and_deleted(web: BrowserSession, tenant: Tenant) -> None:
    _, page = await new_webhook(web)
    assert "&lt;b&gt;till&lt;/b&gt;" in page.text

    tested = await web.submit(page, "test")
    form = {name: text for name, text in filled(page, "save").items() if name != "active"}
    saved = await followed(web, await web.send(form.pop(""), {**form, "where": "confidence < 0.5"}))
    late = await web.submit(page, "save", display_name="late")

    stored = await webhook_of(tenant)
    assert "The test did not arrive: the name of the server is unknown, or its address is not public." in tested.text
    assert "The webhook is saved." in saved.text
    assert (stored.active, stored.where, stored.display_name) == (False, "confidence < 0.5", "<b>till</b>")
    assert (late.status_code, filled(late, "save")["display_name"]) == (409, "late")
    gone = await followed(web, await web.submit(saved, "delete"))
    assert "purged" in gone.text
    assert "No webhooks yet." in gone.text


@pytest.mark.system
async def test_a_webhook_that_cannot_be_is_refused_in_words(web: BrowserSession, tenant: Tenant) -> None:
    _, page = await new_webhook(web)

    for changed in (
        {"event_types": "memory_eaten"},
        {"event_types": " "},
        {"where": "confidence <"},
        {"webhook_url": "ftp://example.org"},
        {"display_name": "x" * 256},
    ):
        saved = await web.submit(page, "save", **changed)
        created = await web.submit(await web.page("webhooks"), "create", **{**NEW_WEBHOOK, **changed})

        assert (saved.status_code, created.status_code) == (400, 400), changed
        assert 'role="alert"' in saved.text
        assert 'role="alert"' in created.text
    assert (await webhook_of(tenant)).revision == 1


async def test_a_person_is_invited_by_a_link_that_is_shown_once(web: BrowserSession, tenant: Tenant) -> None:
    form = filled(await web.page("members"), "invite")
    url = form.pop("")
    form |= {"email": "ann@example.org", "role": "admin", "lifetime": "30"}

    invited, again = await web.send(url, form), await web.send(url, form)

    link = re.findall(r'value="([^"]+/account/invitation\?token=[^"]+)"', invited.text)[0]
    page = await followed(web, again)
    assert link not in page.text
    assert page.text.count("<bdi>ann@example.org</bdi>") == 1
    listed = (await tenant.tenancy.ListInvitations(members_pb2.ListInvitationsRequest())).invitations
    assert [(one.email, one.role) for one in listed] == [("ann@example.org", members_pb2.ROLE_ADMIN)]
    revoked = await followed(web, await web.submit(page, "revoke"))
    assert "The invitation is revoked." in revoked.text
    assert "No open invitations." in revoked.text
    assert (await web.submit(page, "revoke")).status_code == 404


@pytest.mark.system
async def test_an_owner_changes_a_role_and_removes_a_member(
    cluster: Cluster, web: BrowserSession, tenant: Tenant
) -> None:
    member = await new_person(cluster, tenant, role=members_pb2.ROLE_MEMBER)
    await browsing_as(cluster, tenant, members_pb2.ROLE_OWNER, web)
    page = await web.page("members")
    form = next(one for one in forms_of(page, "role") if one["account_id"] == member.account_id)

    changed = await followed(web, await web.send(form[""], {**form, "role": "viewer"}))
    late = await web.send(form[""], {**form, "role": "admin"})
    role = (await tenant.tenancy.GetMember(members_pb2.GetMemberRequest(account_id=member.account_id))).member.role
    removed = await followed(web, await web.send(form[""], {**form, "step": "remove", "account_id": member.account_id}))

    assert ("The role is changed." in changed.text, late.status_code) == (True, 409)
    assert role == members_pb2.ROLE_VIEWER
    assert "no longer a member" in removed.text
    assert member.email not in removed.text


@pytest.mark.system
async def test_the_last_owner_stays(cluster: Cluster, web: BrowserSession, tenant: Tenant) -> None:
    owner = await browsing_as(cluster, tenant, members_pb2.ROLE_OWNER, web)
    page = await web.page("members")

    demoted = await web.submit(page, "role", role="viewer")
    left = await web.submit(page, "remove")

    assert owner.email in page.text
    assert '<span class="chip">you</span>' in page.text
    assert (demoted.status_code, left.status_code) == (400, 400)
    assert "transfer the ownership first" in demoted.text


async def test_nobody_is_offered_a_role_above_their_own(cluster: Cluster, web: BrowserSession, tenant: Tenant) -> None:
    owner = await new_person(cluster, tenant, role=members_pb2.ROLE_OWNER)
    await browsing_as(cluster, tenant, members_pb2.ROLE_ADMIN, web)
    page = await web.page("members")
    form = filled(page, "invite")

    answer = await web.send(form[""], {**form, "email": "ann@example.org", "role": "owner"})
    removed = await web.send(form[""], {**form, "step": "remove", "account_id": owner.account_id})

    assert '<option value="owner"' not in page.text
    assert owner.account_id not in {one["account_id"] for one in forms_of(page, "role")}
    assert (answer.status_code, 'role="alert"' in answer.text) == (403, True)
    assert removed.status_code == 403


async def test_an_invitation_that_cannot_be_is_refused_in_words(web: BrowserSession) -> None:
    page = await web.page("members")

    for changed in ({"email": "nobody"}, {"email": ""}, {"role": "king"}, {"lifetime": "999"}):
        answer = await web.submit(page, "invite", **{"email": "ann@example.org", **changed})

        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True), changed


@pytest.mark.system
async def test_a_job_is_paused_limited_and_resumed(cluster: Cluster, web: BrowserSession, tenant: Tenant) -> None:
    await browsing_as(cluster, tenant, members_pb2.ROLE_OWNER, web)
    page = await web.page("jobs")
    form = {"kind": "JOB_KIND_DECAY"}

    paused = await followed(web, await web.submit(page, "pause", **form))
    limited = await followed(web, await web.submit(page, "limit", **form, rate="2.5", per_day="1000"))
    resumed = await followed(web, await web.submit(paused, "resume", **form))

    assert page.text.count('name="step" value="pause"') > 5
    assert "The job is paused." in paused.text
    assert paused.text.count('name="step" value="resume"') == 1
    assert "at most 2.5 per second" in limited.text
    assert "The job continues" in resumed.text
    assert 'name="step" value="resume"' not in resumed.text


@pytest.mark.system
async def test_a_viewer_manages_nothing(cluster: Cluster, web: BrowserSession, tenant: Tenant) -> None:
    await new_block(web)
    await new_webhook(web)
    block_id, webhook_id = (await block_of(tenant)).block_id, (await webhook_of(tenant)).webhook_id
    await browsing_as(cluster, tenant, members_pb2.ROLE_VIEWER, web)

    pages = [
        await web.page("blocks"),
        await web.page("block", id=block_id),
        await web.page("webhooks"),
        await web.page("webhook", id=webhook_id),
    ]

    for page in pages:
        assert page.status_code == 200
        assert "need the permission" in page.text
        assert not {"create", "delete", "attach", "test", "rotate", "retry"} & set(
            re.findall(r'name="step" value="(\w+)"', page.text)
        )
    assert (await web.page("members")).status_code == 403
    assert ">Members</a>" not in pages[0].text
    for page in (pages[1], pages[3]):
        answer = await web.submit(page, "save", label="mine", display_name="mine")
        assert (answer.status_code, 'role="alert"' in answer.text) == (403, True)


def forms_of(page: httpx.Response, step: str) -> list[dict[str, str]]:
    """Return all forms of a step on a page; the address is under the empty name."""
    forms = re.findall(r'<form method="post" action="([^"]+)">(.*?)</form>', page.text, re.DOTALL)
    results = [
        {"": html.unescape(action), **dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', body))}
        for action, body in forms
    ]
    return [form for form in results if form["step"] == step]
