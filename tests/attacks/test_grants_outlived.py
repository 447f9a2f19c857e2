"""Attack: an application makes keys, service accounts, invitations and webhooks that shall outlive its grant.
May be seen: what the grant allows, while it lives; afterwards only what an admin adopted.
May be spent: nothing after the grant; what it made gives the tenant's quota of keys back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from fix_accounts import Account, member, new_account
from fix_attacks import attack_size
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_oauth import App
from fix_recipes_webhooks import NOWHERE
from fix_world import system_identity
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from skein.auth.v1 import accounts_pb2, auth_pb2, oauth_pb2
from skein.memory.v1 import memory_pb2, memory_pb2_grpc, webhooks_pb2
from skein.tenancy.v1 import members_pb2
from skein_kit.identity.permissions import ROLE_PERMISSIONS

DENIED = grpc.StatusCode.PERMISSION_DENIED
SCOPE = "keys.write keys.read memory.read members.write members.read tenant.read tenant.write openid"


@dataclass(frozen=True)
class Grant:
    """What an application was let into, and what it can call with it."""

    cluster: Cluster
    tenant: Tenant
    app: App
    person: Account
    tokens: oauth_pb2.ExchangeTokenResponse

    @classmethod
    async def of(cls, cluster: Cluster, tenant: Tenant, app: App, role: str = "admin", scope: str = SCOPE) -> Grant:
        person = await member(cluster, tenant, role)
        return cls(cluster, tenant, app, person, await app.tokens(person, tenant, scope))

    @property
    def stubs(self) -> Stubs:
        return self.cluster.with_key(self.tokens.access_token)

    async def session_id(self) -> str:
        listed = await self.person.stubs.auth.ListAuthSessions(accounts_pb2.ListAuthSessionsRequest())
        return next(one.auth_session_id for one in listed.auth_sessions if one.client_id)

    async def lays_up(self) -> dict[str, str]:
        """Make every kind of credential, directly and through one another; return them by what they are."""
        key = await create_key(self.stubs)
        through = self.cluster.with_key(key.secret)
        bot = await create_service_account(self.stubs)
        key_of_bot = await create_key(self.stubs, service_account_id=bot)
        grandchild = await create_key(self.cluster.with_key(key_of_bot.secret))
        bot_of_key = await create_service_account(through)
        rotated = await through.auth.RotateApiKey(
            accounts_pb2.RotateApiKeyRequest(api_key_id=key_of_bot.api_key.api_key_id)
        )
        return {
            "a key": key.secret,
            "a key of a key": (await create_key(through)).secret,
            "a key of a service account": key_of_bot.secret,
            "a key of that key": grandchild.secret,
            "a key of a key's service account": (await create_key(through, service_account_id=bot_of_key)).secret,
            "a successor": rotated.secret,
            "a token of a service account": await self.service_token(bot, key_of_bot.secret),
        }

    async def service_token(self, service_account_id: str, secret: str) -> str:
        proof = oauth_pb2.ClientAuthentication(
            client_id=service_account_id, client_secret=secret, method="client_secret_basic"
        )
        response = await self.app.oauth.ExchangeToken(
            oauth_pb2.ExchangeTokenRequest(client=proof, client_credentials=oauth_pb2.ClientCredentialsGrant())
        )
        return response.access_token


async def create_key(stubs: Stubs, service_account_id: str = "") -> auth_pb2.CreateApiKeyResponse:
    request = auth_pb2.CreateApiKeyRequest(display_name="laid up", service_account_id=service_account_id)
    return await stubs.auth.CreateApiKey(request)


async def create_service_account(stubs: Stubs) -> str:
    account = accounts_pb2.ServiceAccount(display_name="laid up")
    request = accounts_pb2.CreateServiceAccountRequest(service_account=account)
    return (await stubs.auth.CreateServiceAccount(request)).service_account.service_account_id


def _soon() -> Timestamp:
    at = Timestamp()
    at.FromDatetime(datetime.now(UTC) + timedelta(days=1))
    return at


async def live(tenant: Tenant, credentials: dict[str, str]) -> set[str]:
    """Return which of the tenant's credentials auth takes for valid."""
    answers = await asyncio.gather(
        *(tenant.auth.Introspect(auth_pb2.IntrospectRequest(credential=text)) for text in credentials.values())
    )
    return {name for name, answer in zip(credentials, answers, strict=True) if answer.active}


async def revoke(grant: Grant) -> None:
    request = accounts_pb2.RevokeAuthSessionRequest(auth_session_id=await grant.session_id())
    await grant.person.stubs.auth.RevokeAuthSession(request)


async def revoke_by_application(grant: Grant) -> None:
    request = oauth_pb2.RevokeTokenRequest(client=grant.app.proof, token=grant.tokens.refresh_token)
    await grant.app.oauth.RevokeToken(request)


async def reuse_refresh_token(grant: Grant) -> None:
    second = await grant.app.refresh(grant.tokens.refresh_token)
    await grant.app.refresh(second.refresh_token)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "OAUTH_INVALID_GRANT"):
        await grant.app.refresh(grant.tokens.refresh_token)


async def delete_client(grant: Grant) -> None:
    request = oauth_pb2.DeleteClientRequest(
        client_id=grant.app.client.client_id, registration_access_token=grant.app.registration
    )
    await grant.app.oauth.DeleteClient(request)


async def revoke_client(grant: Grant) -> None:
    request = accounts_pb2.RevokeCredentialsRequest(client_id=grant.app.client.client_id)
    await grant.cluster.operator.auth.RevokeCredentials(request)


async def delete_account(grant: Grant) -> None:
    await grant.person.stubs.auth.DeleteMe(accounts_pb2.DeleteMeRequest(password=grant.person.password))


async def deactivate_account(grant: Grant) -> None:
    await grant.person.stubs.auth.DeactivateMe(accounts_pb2.DeactivateMeRequest(password=grant.person.password))


async def leave_tenant(grant: Grant) -> None:
    await grant.person.stubs.tenancy.LeaveTenant(members_pb2.LeaveTenantRequest())


async def remove_member(grant: Grant) -> None:
    request = members_pb2.RemoveMemberRequest(account_id=grant.person.account_id)
    await grant.tenant.tenancy.RemoveMember(request)


# The sample holds one end of each kind: of the grant, by reuse, of the client, of the account, of the membership.
WAYS: list[Callable[[Grant], Awaitable[None]]] = [
    revoke,
    reuse_refresh_token,
    delete_client,
    delete_account,
    leave_tenant,
    revoke_by_application,
    revoke_client,
    deactivate_account,
    remove_member,
]


@pytest.mark.system
@pytest.mark.parametrize("end", WAYS[: attack_size(5, len(WAYS))], ids=lambda way: way.__name__)
async def test_all_that_a_grant_made_ends_with_it(
    cluster: Cluster, tenant: Tenant, direct: aio.Channel, end: Callable[[Grant], Awaitable[None]]
) -> None:
    grant = await Grant.of(cluster, tenant, await App.registered(direct))
    credentials = await grant.lays_up()
    assert await live(tenant, credentials) == set(credentials)

    await end(grant)

    assert await live(tenant, credentials) == set()
    listed = (await tenant.auth.ListApiKeys(auth_pb2.ListApiKeysRequest())).api_keys
    assert all(key.HasField("revoke_time") for key in listed if key.display_name == "laid up")
    accounts = await tenant.auth.ListServiceAccounts(accounts_pb2.ListServiceAccountsRequest())
    assert all(account.disabled for account in accounts.service_accounts)
    # The tenant's own key made neither.
    assert [key for key in listed if not key.HasField("revoke_time")] != []


@pytest.mark.system
async def test_every_service_refuses_it_soon(cluster: Cluster, tenant: Tenant, app: App) -> None:
    grant = await Grant.of(cluster, tenant, app)
    secret = (await create_key(grant.stubs)).secret
    await cluster.with_key(secret).auth.GetMe(auth_pb2.GetMeRequest())

    await revoke(grant)

    async with asyncio.timeout(30):
        while True:
            try:
                await cluster.with_key(secret).auth.GetMe(auth_pb2.GetMeRequest())
            except aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED  # noqa: PT017 - the loop ends with it.
                break
            await asyncio.sleep(0.05)


async def test_a_key_of_a_grant_can_do_what_the_person_s_role_allows_now(
    cluster: Cluster, tenant: Tenant, app: App
) -> None:
    grant = await Grant.of(cluster, tenant, app)
    secret = (await create_key(grant.stubs)).secret

    await tenant.tenancy.UpdateMember(
        members_pb2.UpdateMemberRequest(account_id=grant.person.account_id, role=members_pb2.ROLE_VIEWER)
    )

    response = await tenant.auth.Introspect(auth_pb2.IntrospectRequest(credential=secret))
    assert set(response.permissions) == {"memory.read", "tenant.read"}


@pytest.mark.system
async def test_a_key_that_another_grant_rotates_or_gives_a_service_account_ends_with_either(
    cluster: Cluster, tenant: Tenant, direct: aio.Channel
) -> None:
    first = await Grant.of(cluster, tenant, await App.registered(direct))
    second = await Grant.of(cluster, tenant, await App.registered(direct))
    bot = await create_service_account(first.stubs)
    key = await create_key(second.stubs, service_account_id=bot)
    child = await create_key(cluster.with_key(key.secret))
    plain = await create_key(first.stubs)
    rotated = await second.stubs.auth.RotateApiKey(
        accounts_pb2.RotateApiKeyRequest(api_key_id=plain.api_key.api_key_id)
    )
    credentials = {"in the bot": key.secret, "its child": child.secret, "rotated": rotated.secret}
    assert await live(tenant, credentials) == set(credentials)

    await revoke(first)

    assert await live(tenant, credentials) == set()


async def test_a_key_that_the_application_rotates_ends_with_the_grant_although_a_person_made_it(
    cluster: Cluster, tenant: Tenant, app: App
) -> None:
    grant = await Grant.of(cluster, tenant, app)
    own = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="of the tenant", permissions=["memory.read"], expire_time=_soon())
    )
    rotated = await grant.stubs.auth.RotateApiKey(accounts_pb2.RotateApiKeyRequest(api_key_id=own.api_key.api_key_id))

    await revoke(grant)

    assert await live(tenant, {"old": own.secret, "new": rotated.secret}) == {"old"}


async def test_a_service_account_that_an_admin_adopts_lives_on_without_the_grant(
    cluster: Cluster, tenant: Tenant, app: App
) -> None:
    grant, admin = await Grant.of(cluster, tenant, app), await member(cluster, tenant, "admin")
    bot = await create_service_account(grant.stubs)
    kept, lost = await create_key(grant.stubs, service_account_id=bot), await create_key(grant.stubs)
    assert kept.api_key.grant_ids == [await grant.session_id()]

    account = await admin.stubs.auth.AdoptServiceAccount(
        accounts_pb2.AdoptServiceAccountRequest(service_account_id=bot)
    )
    adopted = await admin.stubs.auth.AdoptApiKey(
        accounts_pb2.AdoptApiKeyRequest(api_key_id=kept.api_key.api_key_id, request_id="once")
    )
    await revoke(grant)

    assert not account.service_account.grant_ids
    assert not adopted.api_key.grant_ids
    assert await live(tenant, {"kept": kept.secret, "lost": lost.secret}) == {"kept"}
    events = (await admin.stubs.auth.ListAuditEvents(accounts_pb2.ListAuditEventsRequest())).audit_events
    by_admin = {event.event for event in events if event.principal == f"account:{admin.account_id}"}
    assert by_admin >= {"api_key_adopted", "service_account_adopted"}
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "API_KEY_INACTIVE"):
        await admin.stubs.auth.AdoptApiKey(accounts_pb2.AdoptApiKeyRequest(api_key_id=lost.api_key.api_key_id))


@pytest.mark.system
async def test_no_application_key_or_lesser_person_adopts(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, app: App
) -> None:
    grant = await Grant.of(cluster, tenant, app, "owner", SCOPE + " tenant.own")
    key, bot = await create_key(grant.stubs), await create_service_account(grant.stubs)
    adopt_key = accounts_pb2.AdoptApiKeyRequest(api_key_id=key.api_key.api_key_id)
    adopt_bot = accounts_pb2.AdoptServiceAccountRequest(service_account_id=bot)
    admin, viewer = await member(cluster, tenant, "admin"), await member(cluster, tenant, "viewer")
    neighbour = await member(cluster, other_tenant, "owner")
    callers = (
        (grant.stubs, "ACCOUNT_REQUIRED"),
        (cluster.with_key(key.secret), "ACCOUNT_REQUIRED"),
        (tenant, "ACCOUNT_REQUIRED"),
        (admin.stubs, "PERMISSION_ESCALATION"),
        (viewer.stubs, "PERMISSION_MISSING"),
    )

    for caller, reason in callers:
        with refused(DENIED, reason):
            await caller.auth.AdoptApiKey(adopt_key)
        with refused(DENIED, reason):
            await caller.auth.AdoptServiceAccount(adopt_bot)

    with refused(grpc.StatusCode.NOT_FOUND, "API_KEY_NOT_FOUND"):
        await neighbour.stubs.auth.AdoptApiKey(adopt_key)
    with refused(grpc.StatusCode.NOT_FOUND, "SERVICE_ACCOUNT_NOT_FOUND"):
        await neighbour.stubs.auth.AdoptServiceAccount(adopt_bot)

    await revoke(grant)
    assert await live(tenant, {"key": key.secret}) == set()


async def test_enabling_an_ended_service_account_brings_no_key_back(cluster: Cluster, tenant: Tenant, app: App) -> None:
    grant = await Grant.of(cluster, tenant, app)
    bot = await create_service_account(grant.stubs)
    own = await create_key(tenant, service_account_id=bot)
    await revoke(grant)

    await tenant.auth.UpdateServiceAccount(
        accounts_pb2.UpdateServiceAccountRequest(
            service_account=accounts_pb2.ServiceAccount(service_account_id=bot, disabled=False),
            update_mask=FieldMask(paths=["disabled"]),
        )
    )

    assert await live(tenant, {"a key that the tenant made for it": own.secret}) == set()


async def test_invitations_of_a_grant_are_over_with_it(cluster: Cluster, tenant: Tenant, app: App) -> None:
    grant = await Grant.of(cluster, tenant, app, "admin", " ".join(sorted(ROLE_PERMISSIONS["admin"])))
    key = await create_key(grant.stubs)
    makers = {"application": grant.stubs, "key": cluster.with_key(key.secret), "tenant": tenant}
    guests = {name: await new_account(cluster) for name in makers}
    tokens = {}
    for name, stubs in makers.items():
        request = members_pb2.CreateInvitationRequest(email=guests[name].email, role=members_pb2.ROLE_ADMIN)
        tokens[name] = (await stubs.tenancy.CreateInvitation(request)).token

    await revoke(grant)

    for name in ("application", "key"):
        with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
            await guests[name].stubs.tenancy.AcceptInvitation(members_pb2.AcceptInvitationRequest(token=tokens[name]))
    await guests["tenant"].stubs.tenancy.AcceptInvitation(members_pb2.AcceptInvitationRequest(token=tokens["tenant"]))
    listed = await tenant.tenancy.ListInvitations(members_pb2.ListInvitationsRequest())
    assert not listed.invitations


@pytest.mark.system
async def test_webhooks_of_a_grant_get_nothing_after_it(cluster: Cluster, tenant: Tenant, app: App) -> None:
    grant = await Grant.of(cluster, tenant, app)
    own = await create_webhook(tenant)
    webhooks = {
        "made": await create_webhook(grant.stubs),
        "made by a key": await create_webhook(cluster.with_key((await create_key(grant.stubs)).secret)),
        "led elsewhere": await create_webhook(tenant),
    }
    await grant.stubs.history.UpdateWebhook(
        webhooks_pb2.UpdateWebhookRequest(
            webhook=webhooks_pb2.Webhook(webhook_id=webhooks["led elsewhere"], webhook_url=f"{NOWHERE}/mine"),
            update_mask=FieldMask(paths=["webhook_url"]),
        )
    )

    await revoke(grant)
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="secret plan")))
    await deliver(cluster, tenant)

    for webhook_id in webhooks.values():
        webhook = (await tenant.history.GetWebhook(webhooks_pb2.GetWebhookRequest(webhook_id=webhook_id))).webhook
        queued = await tenant.history.ListWebhookDeliveries(
            webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=webhook_id)
        )
        assert (webhook.active, webhook.last_error, len(queued.deliveries)) == (False, "grant", 0)
    assert (await tenant.history.GetWebhook(webhooks_pb2.GetWebhookRequest(webhook_id=own))).webhook.active


async def test_a_person_takes_a_webhook_over_and_a_key_does_not(cluster: Cluster, tenant: Tenant, app: App) -> None:
    grant, admin = await Grant.of(cluster, tenant, app), await member(cluster, tenant, "admin")
    adopted, remaining = await create_webhook(grant.stubs), await create_webhook(grant.stubs)
    await revoke(grant)
    await deliver(cluster, tenant)

    for stubs, webhook_id in ((admin.stubs, adopted), (tenant, remaining)):
        await stubs.history.UpdateWebhook(
            webhooks_pb2.UpdateWebhookRequest(
                webhook=webhooks_pb2.Webhook(webhook_id=webhook_id, active=True),
                update_mask=FieldMask(paths=["active"]),
            )
        )
    await deliver(cluster, tenant)

    active = [
        (await tenant.history.GetWebhook(webhooks_pb2.GetWebhookRequest(webhook_id=webhook_id))).webhook.active
        for webhook_id in (adopted, remaining)
    ]
    assert active == [True, False]


async def create_webhook(stubs: Stubs) -> str:
    webhook = webhooks_pb2.Webhook(display_name="laid up", event_types=["*"], webhook_url=NOWHERE)
    return (await stubs.history.CreateWebhook(webhooks_pb2.CreateWebhookRequest(webhook=webhook))).webhook.webhook_id


async def deliver(cluster: Cluster, tenant: Tenant) -> None:
    """Do what the worker does every few seconds."""
    identity = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("memory") as channel:
        await memory_pb2_grpc.MemoryInternalServiceStub(channel).DeliverWebhooks(
            memory_pb2.DeliverWebhooksRequest(limit=1), metadata=(("authorization", f"Bearer {identity}"),)
        )
