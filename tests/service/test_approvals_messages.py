"""Messages that wait for approval: listed, decided on by the command and the console, told as events, and expired."""

from __future__ import annotations

import pytest
from fix_cluster import Cluster, Stubs, Tenant, test_environment
from fix_command import skein
from fix_console import BrowserSession
from fix_database import all_told
from fix_world import system_identity

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import history_pb2, webhooks_pb2
from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc
from skein_cluster.cli.exit_codes import ExitCode

KINDS = ("message_pending", "message_approved", "message_refused", "message_pending_expired")


@pytest.fixture
async def agent(cluster: Cluster, tenant: Tenant) -> Stubs:
    """An agent of a tenant whose agents need approval."""
    await tenant.set_policy(approval="agents")
    request = auth_pb2.CreateApiKeyRequest(display_name="k", agent_id="kitchen")
    return cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)


@pytest.fixture
def environment(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}


async def waiting(tenant: Tenant) -> list[str]:
    response = await tenant.sessions.ListAgentMessages(pb.ListAgentMessagesRequest(pending_approval=True))
    return [message.content for message in response.messages]


async def contents(tenant: Tenant, session_id: str = "s") -> list[tuple[str, bool]]:
    return [(one.content, one.pending_approval) for one in await tenant.list_messages(session_id)]


async def events(cluster: Cluster, tenant: Tenant) -> list[tuple[str, str]]:
    await all_told(cluster.postgres)
    filter_ = history_pb2.ChangeFilter(event_types=KINDS, entity_type="message")
    changes = (await tenant.history.ListChanges(history_pb2.ListChangesRequest(filter=filter_))).changes
    return sorted((one.event_type, one.entity_id) for one in changes)


async def test_all_that_waits_is_listed_without_an_agent_or_a_person(agent: Stubs, tenant: Tenant) -> None:
    await agent.append("s", "the first")
    await agent.append("t", "the second")
    await tenant.append("s", "mine")

    assert await waiting(tenant) == ["the second", "the first"]


async def test_each_step_of_a_message_is_an_event_that_webhooks_may_choose(
    cluster: Cluster, agent: Stubs, tenant: Tenant
) -> None:
    webhook = webhooks_pb2.Webhook(display_name="w", event_types=KINDS, webhook_url="https://hooks.invalid/")
    await tenant.history.CreateWebhook(webhooks_pb2.CreateWebhookRequest(webhook=webhook))
    first, second = await agent.append("s", "the first", "the second")
    mask = {"paths": ["pending_approval"]}
    approved = pb.Message(message_id=first.message_id)
    await tenant.sessions.UpdateMessage(pb.UpdateMessageRequest(message=approved, update_mask=mask))
    await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=second.message_id))
    (own,) = await tenant.append("s", "mine")
    await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=own.message_id))

    assert await events(cluster, tenant) == sorted(
        [
            ("message_pending", first.message_id),
            ("message_pending", second.message_id),
            ("message_approved", first.message_id),
            ("message_refused", second.message_id),
        ]
    )


async def test_what_waits_too_long_is_deleted(cluster: Cluster, agent: Stubs, tenant: Tenant) -> None:
    await tenant.set_policy(approval_expiry_days=3)
    old, recent = await agent.append("s", "the old", "the recent")
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE session.messages SET create_time = create_time - interval '4 days' "
            "WHERE tenant_id = $1 AND content <> $2",
            tenant.tenant_id,
            recent.content,
        )
    await tenant.append("s", "mine")
    token = await system_identity(cluster, str(tenant.tenant_id))

    async with cluster.direct("session") as channel:
        internal = session_pb2_grpc.SessionInternalServiceStub(Stubs.of(channel, token).channel)
        await internal.DeleteExpired(pb.DeleteExpiredRequest())

    assert await contents(tenant) == [("the recent", True), ("mine", False)]
    assert ("message_pending_expired", old.message_id) in await events(cluster, tenant)


@pytest.mark.system
async def test_the_command_lists_edits_and_refuses_messages(
    agent: Stubs, tenant: Tenant, environment: dict[str, str]
) -> None:
    first, second = await agent.append("s", "The key hangs by the stove", "Obey\u202e me")
    (own,) = await tenant.append("s", "mine")

    listed = await skein("approvals", "list", environment=environment)
    approve = ("approvals", "approve", first.message_id, "--content", "The key hangs by the door")
    approved = await skein(*approve, environment=environment)
    refused = await skein("approvals", "refuse", second.message_id, environment=environment)
    wrong = await skein("approvals", "refuse", own.message_id, environment=environment)

    assert "message of s" in listed.out
    assert "[U+202E]" in listed.out
    assert approved.out.strip() == f"Approved {first.message_id}."
    assert refused.code == ExitCode.OK
    assert wrong.code != ExitCode.OK
    assert await contents(tenant) == [("The key hangs by the door", False), ("mine", False)]


async def test_the_console_approves_edits_and_refuses_messages(
    agent: Stubs, tenant: Tenant, web: BrowserSession
) -> None:
    await agent.append("s", "<b>obey</b>")
    page = await web.page("approvals")
    await web.submit(page, "decide", decision="edit", content="The key hangs\r\nby the door")
    await agent.append("s", "Obey me")

    again = await web.page("approvals")
    await web.submit(again, "decide", decision="refuse")

    assert "&lt;b&gt;obey&lt;/b&gt;" in page.text
    assert await contents(tenant) == [("The key hangs\nby the door", False)]
