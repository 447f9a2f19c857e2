"""Spaces in the console, in the command and in MCP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein
from fix_console import BrowserSession
from fix_context_ledgers import Prompt
from fix_mcp import Mcp
from fix_spaces import SPACE_KEY, first_spaces, new_key, new_space

from skein.tenancy.v1 import spaces_pb2
from skein_cluster.cli.exit_codes import ExitCode
from skein_kit.identity.permissions import TENANT_PERMISSIONS

TEXT = "The red rose needs manure"


@pytest.fixture
async def web(cluster: Cluster) -> AsyncIterator[BrowserSession]:
    async with BrowserSession.of(cluster.addresses["http"]) as browser:
        yield browser


async def test_a_space_is_created_granted_and_revoked_in_the_console(tenant: Tenant, web: BrowserSession) -> None:
    await web.show_key(tenant.api_key)

    created = await web.submit(await web.page("spaces"), "create", name="<b>garden</b>", description="roses")
    page = await web.client.get(created.headers["location"])
    assert "&lt;b&gt;garden" in page.text
    assert "No principal sees the space yet." in page.text
    granted = await web.submit(
        page, "grant", principal="agent:cook", role="writer", until="2099-12-31", bind="on", delegable="on"
    )
    page = await web.client.get(granted.headers["location"])
    assert "agent:cook" in page.text
    (space,) = (await tenant.tenancy.ListSpaces(spaces_pb2.ListSpacesRequest())).spaces
    (made,) = (await tenant.tenancy.ListSpaceGrants(spaces_pb2.ListSpaceGrantsRequest(space_id=space.space_id))).grants
    assert (made.role, made.is_delegable) == (spaces_pb2.SPACE_ROLE_WRITER, True)
    assert made.expire_time.ToJsonString().startswith("2099-12-31")
    refused = await web.submit(page, "grant", principal="nobody", role="reader")
    assert refused.status_code == 400
    revoked = await web.submit(page, "revoke", unbind="on")
    assert "done=space-revoke" in revoked.headers["location"]
    page = await web.client.get(revoked.headers["location"])
    assert "No principal sees the space yet." in page.text


@pytest.mark.system
async def test_pages_act_in_the_space_that_the_browser_has_chosen(
    cluster: Cluster, tenant: Tenant, web: BrowserSession
) -> None:
    [space_id] = await first_spaces(cluster, tenant, "garden")
    await tenant.create_memory("The oven is hot")
    _, secret = await new_key(cluster, tenant, [space_id], permissions=TENANT_PERMISSIONS)
    await cluster.with_key(secret, **{SPACE_KEY: space_id}).create_memory(TEXT)
    await web.show_key(secret)
    both = await web.page("memories")

    chosen = await web.submit(await web.page("spaces"), "choose", space_id=space_id)

    assert chosen.status_code == 303
    inside = await web.page("memories")
    assert (TEXT in both.text, "The oven is hot" in both.text) == (True, True)
    assert (TEXT in inside.text, "The oven is hot" in inside.text) == (True, False)
    assert "your pages act in this space" in inside.text
    # No space that the caller does not see can be chosen.
    await web.submit(await web.page("spaces"), "choose", space_id=await new_space(tenant, "cellar"))
    assert "The oven is hot" in (await web.page("memories")).text


@pytest.mark.system
async def test_the_ledgers_pages_show_texts_of_the_spaces_that_the_reader_sees(
    cluster: Cluster, tenant: Tenant, web: BrowserSession
) -> None:
    [space_id] = await first_spaces(cluster, tenant, "garden")
    await tenant.remember("The oven is hot")
    _, secret = await new_key(cluster, tenant, [space_id], permissions=TENANT_PERMISSIONS)
    _, other = await new_key(cluster, tenant, [], permissions=TENANT_PERMISSIONS)
    await cluster.with_key(secret, **{SPACE_KEY: space_id}).remember(f"{TEXT} <b>now</b>")
    both, one = Prompt(stubs=cluster.with_key(secret)), Prompt(stubs=cluster.with_key(other))
    for prompt in (both, one):
        await prompt.turn("What does the rose need?")
        await prompt.turn("Is the oven hot?")

    await web.show_key(secret)
    listed = await web.page("ledgers")
    shown = await web.page("ledger", id=both.ledger_id)
    async with BrowserSession.of(cluster.addresses["http"]) as another:
        await another.show_key(other)
        short = await another.page("ledgers")
        hidden = await another.page("ledger", id=both.ledger_id)

    assert both.ledger_id in listed.text
    assert one.ledger_id in listed.text
    assert "first text: asked for" in listed.text
    assert f"{TEXT} &lt;b&gt;now&lt;/b&gt;" in shown.text
    assert "First text" in shown.text
    assert (both.ledger_id in short.text, one.ledger_id in short.text) == (False, True)
    assert hidden.status_code == 404
    assert TEXT not in hidden.text


@pytest.mark.system
async def test_the_command_lists_grants_explains_and_moves(cluster: Cluster, tenant: Tenant) -> None:
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}

    async def run(*arguments: str, code: ExitCode = ExitCode.OK) -> str:
        ended = await skein("spaces", *arguments, environment=environment)
        assert ended.code == code, ended.err
        return ended.out if code is ExitCode.OK else ended.err

    space_id = (await run("create", "garden", "--description", "roses")).strip()
    assert "garden" in await run("list")
    bound = await run("bind", "garden", "agent:cook", "reader", "--until", "2099-12-31")
    assert bound.strip() == "agent:cook is reader, and does not see the default space."
    assert "2099-12-31" in await run("grants", "garden")
    principal, secret = await new_key(cluster, tenant, [space_id], permissions=TENANT_PERMISSIONS)
    memory = await tenant.create_memory(TEXT)
    explained = await run("explain", memory.memory_id, "--principal", "service_account:1", "--agent", "cook")
    assert explained.startswith("hidden: It lies in the default space")
    with_grant = await run("explain", "--space", "garden", "--principal", principal)
    assert with_grant.startswith("visible: By a grant.")
    assert "as writer" in with_grant
    environment["SKEIN_API_KEY"] = secret
    moved = await run("move", memory.memory_id, "--to", "garden")
    assert moved.strip() == "Moved 1 memory."
    writer = cluster.with_key(secret)
    await writer.append("talk", TEXT)
    await writer.create_block("human", TEXT, block_id="b")
    assert (await run("move", "talk", "--to", "garden", "--kind", "session")).strip() == "Moved session talk."
    assert (await run("move", "b", "--to", "garden", "--kind", "block")).strip() == "Moved block b."
    for session_id in ("first", "second"):
        await writer.append(session_id, TEXT)
    document = json.loads(await run("move", "first", "second", "--to", "garden", "--kind", "session", "--json"))
    assert len(document["moved"]) == 2
    environment["SKEIN_SPACE_ID"] = space_id
    recalled = await skein("recall", "red rose", environment=environment)
    assert TEXT in recalled.out
    environment["SKEIN_API_KEY"] = tenant.api_key
    del environment["SKEIN_SPACE_ID"]
    assert "No space is named" in await run("grants", "attic", code=ExitCode.REFUSED)
    assert "Revoked" in await run("revoke", "garden", "agent:cook", "--unbind")
    assert json.loads(await run("grants", "garden", "--json"))["grants"][0]["principal"] == principal


@pytest.mark.system
async def test_an_mcp_client_names_a_space_by_a_header(cluster: Cluster, tenant: Tenant) -> None:
    [space_id] = await first_spaces(cluster, tenant, "garden")
    _, secret = await new_key(cluster, tenant, [space_id])
    _, other = await new_key(cluster, tenant, [])

    async with Mcp.of(cluster.addresses["http"], secret, skein_space_id=space_id) as client:
        await client.call("remember", content=TEXT)
    async with Mcp.of(cluster.addresses["http"], other, skein_space_id=space_id) as client:
        reason, _ = await client.refused("recall", query="red rose")

    inside = await cluster.with_key(secret, **{SPACE_KEY: space_id}).list_memories()
    assert [memory.content for memory in inside] == [TEXT]
    assert await tenant.list_memories() == []
    assert reason == "SPACE_NOT_FOUND"
