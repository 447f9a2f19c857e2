"""What MemoryVault's tables mean here: times, defaults and checks of accounts, sign-ins and brains."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from fix_accounts import PASSWORD, Account, new_email
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_database import all_told
from fix_oauth import REDIRECT, App
from fix_seeds import KINDS, audit_faults, memories
from google.protobuf import json_format
from grpc import aio

from skein.auth.v1 import accounts_pb2, auth_pb2, oauth_pb2, oauth_pb2_grpc
from skein.memory.v1 import curation_pb2, history_pb2, memory_pb2, webhooks_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_auth.auth_sessions.auth_sessions import CODE_LIFETIME

INVALID = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
RELATIONS = ("related", "supports", "contradicts", "supersedes", "causes", "example_of")
STATUSES = {
    curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW: False,
    curation_pb2.CONFLICT_STATUS_RESOLVED: True,
    curation_pb2.CONFLICT_STATUS_SUPERSEDED: True,
    curation_pb2.CONFLICT_STATUS_DISMISSED: False,
}


@pytest.mark.system
async def test_every_row_tells_when_it_was_created_and_when_it_was_last_changed(
    cluster: Cluster, tenant: Tenant
) -> None:
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="second"))
    second = cluster.with_key(key.secret)
    kinds = ("memory", "link", "source trust", "alias", "conflict resolution", "webhook")

    assert await audit_faults(kinds, tenant, second) == []
    assert await audit_faults(["tenant"], cluster.operator, cluster.operator) == []


async def test_an_account_has_an_id_an_address_in_small_letters_a_name_and_no_readable_password(
    cluster: Cluster,
) -> None:
    email = new_email()
    request = accounts_pb2.SignUpRequest(email=email.upper(), password=PASSWORD, display_name="Ann")

    account = (await cluster.anonymous.auth.SignUp(request)).account

    assert (account.email, account.display_name, account.has_password) == (email, "Ann", True)
    assert account.create_time == account.update_time
    rows = await rows_of(cluster, "accounts")
    (row,) = (text for text in rows if account.account_id in text)
    assert "$argon2id$" in row
    assert PASSWORD not in row


async def test_a_policy_tells_when_it_was_last_changed(tenant: Tenant) -> None:
    policy = subjects_pb2.Policy(decay_days=7)

    first = await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask={"paths": ["decay_days"]})
    )
    policy.decay_days = 8
    second = await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask={"paths": ["decay_days"]})
    )

    assert first.policy.update_time.ToNanoseconds() < second.policy.update_time.ToNanoseconds()


async def auth_sessions(calls: Stubs) -> list[accounts_pb2.AuthSession]:
    return list((await calls.auth.ListAuthSessions(accounts_pb2.ListAuthSessionsRequest())).auth_sessions)


@pytest.mark.system
async def test_a_sign_in_tells_its_account_when_it_began_was_last_used_and_ends(
    cluster: Cluster, app: App, account: Account, tenant: Tenant
) -> None:
    (own,) = await auth_sessions(account.stubs)
    await app.tokens(account, tenant)
    renewed = await cluster.anonymous.auth.RefreshSession(
        accounts_pb2.RefreshSessionRequest(refresh_token=account.refresh_token)
    )

    after = await auth_sessions(cluster.with_key(renewed.tokens.access_token))
    (of_app,) = (one for one in after if one.client_id)
    (of_own,) = (one for one in after if not one.client_id)

    assert (of_app.client_id, of_app.tenant_id) == (app.client.client_id, str(tenant.tenant_id))
    assert (own.client_id, own.tenant_id) == ("", "")
    assert (of_own.auth_session_id, of_own.create_time) == (own.auth_session_id, own.create_time)
    assert own.create_time.ToNanoseconds() <= own.use_time.ToNanoseconds() < own.expire_time.ToNanoseconds()
    assert of_own.use_time.ToNanoseconds() > own.use_time.ToNanoseconds()


async def rows_of(cluster: Cluster, *tables: str) -> list[str]:
    """Return all rows of auth's tables as text."""
    async with cluster.superuser() as connection:
        queries = [f"SELECT t::text FROM auth.{name} AS t" for name in tables]  # noqa: S608 - names of the test's own.
        return [row[0] for query in queries for row in await connection.fetch(query)]


async def test_no_token_code_or_secret_lies_in_the_database(
    cluster: Cluster, app: App, account: Account, tenant: Tenant
) -> None:
    code = await app.code(account, tenant)
    tokens = await app.redeem(code)
    secrets = [account.refresh_token, tokens.refresh_token, tokens.access_token, code, app.secret, app.registration]

    rows = await rows_of(cluster, "auth_sessions", "refresh_tokens", "authorization_codes", "clients", "requests")

    assert any(app.client.client_id in row for row in rows)
    # The random part of a token may contain underscores: its longest piece is long enough to be its own.
    pieces = [max(secret.split("_"), key=len) for secret in secrets]
    assert min(map(len, pieces)) >= 8
    assert not [row for row in rows for text in (*secrets, *pieces) if text in row]


async def test_an_application_without_details_uses_codes_and_has_a_lasting_secret(
    direct: aio.Channel,
) -> None:
    oauth = oauth_pb2_grpc.OAuthServiceStub(direct)

    client = (
        await oauth.RegisterClient(oauth_pb2.RegisterClientRequest(client=oauth_pb2.Client(redirect_uris=[REDIRECT])))
    ).client

    assert list(client.redirect_uris) == [REDIRECT]
    assert (list(client.grant_types), list(client.response_types)) == (["authorization_code"], ["code"])
    # MemoryVault's default is none.
    assert client.token_endpoint_auth_method == "client_secret_basic"
    assert client.HasField("create_time")
    assert not client.HasField("secret_expire_time")


async def test_a_code_lives_as_long_as_the_setting_says_and_is_worth_nothing_afterwards(
    cluster: Cluster, app: App, account: Account, tenant: Tenant
) -> None:
    codes = [await app.code(account, tenant) for _ in range(2)]
    async with cluster.superuser() as connection:
        lives = await connection.fetch(
            "SELECT expire_time - create_time AS life FROM auth.authorization_codes WHERE tenant_id = $1",
            tenant.tenant_id,
        )
        await app.redeem(codes[0])
        await connection.execute(
            "UPDATE auth.authorization_codes SET expire_time = now() WHERE tenant_id = $1", tenant.tenant_id
        )

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "OAUTH_INVALID_GRANT"):
        await app.redeem(codes[1])
    assert [row["life"].total_seconds() for row in lives] == [CODE_LIFETIME.total_seconds()] * 2


async def test_each_of_the_six_relations_links_two_memories_and_what_is_no_name_links_none(tenant: Tenant) -> None:
    one, other = await memories(tenant, "one", "other")

    for relation in RELATIONS:
        await tenant.links.CreateLink(
            memory_pb2.CreateLinkRequest(
                link=memory_pb2.Link(from_memory_id=one.memory_id, to_memory_id=other.memory_id, relation=relation)
            )
        )
    with refused(*INVALID):
        await tenant.links.CreateLink(
            memory_pb2.CreateLinkRequest(
                link=memory_pb2.Link(from_memory_id=one.memory_id, to_memory_id=other.memory_id, relation="Likes!")
            )
        )

    listed = await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id=one.memory_id))
    assert [link.relation for link in listed.links] == [*reversed(RELATIONS)]


@pytest.mark.parametrize("value", [-0.01, 1.01])
@pytest.mark.parametrize("field", ["confidence", "importance", "trust", "alias"])
async def test_a_value_outside_0_to_1_is_refused(tenant: Tenant, field: str, value: float) -> None:
    with refused(*INVALID):
        if field == "trust":
            await tenant.curation.SetSourceTrust(curation_pb2.SetSourceTrustRequest(source="a", trust=value))
        elif field == "alias":
            one, other = await memories(tenant, "one", "other")
            await tenant.curation.ResolveEntity(
                curation_pb2.ResolveEntityRequest(
                    alias_memory_id=one.memory_id, canonical_memory_id=other.memory_id, confidence=value
                )
            )
        else:
            memory = memory_pb2.Memory(content="x", **{field: value})  # type: ignore[arg-type]  # One of two floats.
            await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))


async def test_each_change_tells_in_words_what_happened_to_which_memory_or_link(
    cluster: Cluster, tenant: Tenant
) -> None:
    link = await KINDS["link"].create(tenant)
    await all_told(cluster.postgres)

    page = await tenant.history.ListChanges(history_pb2.ListChangesRequest(newest_first=True))

    newest = page.changes[0]
    assert (newest.event_type, newest.entity_type, newest.entity_id) == ("memory_link_created", "link", link.link_id)
    assert {change.entity_type for change in page.changes} == {"memory", "link"}
    assert all(change.summary and change.HasField("create_time") and change.change_id for change in page.changes)
    payload = json_format.MessageToDict(newest.payload)
    assert (payload["from_memory_id"], payload["to_memory_id"]) == (link.from_memory_id, link.to_memory_id)


async def test_each_status_of_a_conflict_is_kept_for_the_pair_in_whatever_order_it_is_named(tenant: Tenant) -> None:
    one, other = await memories(tenant, "the door is red", "the door is blue", type="fact")
    a, b = sorted((one.memory_id, other.memory_id))

    for pair in ((a, b), (b, a)):
        for status, has_winner in STATUSES.items():
            answer = await tenant.curation.ResolveConflict(
                curation_pb2.ResolveConflictRequest(
                    a_memory_id=pair[0], b_memory_id=pair[1], status=status, note="seen",
                    canonical_memory_id=a if has_winner else "",
                )
            )  # fmt: skip
            assert (answer.resolution.pair_key, answer.resolution.status) == (f"{a}|{b}", status)
            assert answer.resolution.canonical_memory_id == (a if has_winner else "")

    listed = await tenant.curation.ListConflictResolutions(curation_pb2.ListConflictResolutionsRequest())
    assert [one.note for one in listed.resolutions] == ["seen"]


async def test_a_new_webhook_is_active_and_was_never_delivered(tenant: Tenant) -> None:
    webhook = await KINDS["webhook"].create(tenant)

    listed = (await tenant.history.ListWebhooks(webhooks_pb2.ListWebhooksRequest())).webhooks

    assert (webhook.display_name, list(webhook.event_types), webhook.where, webhook.active) == ("w", ["*"], "", True)
    assert (webhook.last_error, webhook.HasField("last_delivery_time")) == ("", False)
    assert list(listed) == [webhook]


async def test_a_brain_is_a_tenant_that_needs_no_owner(cluster: Cluster) -> None:
    made = await KINDS["tenant"].create(cluster.operator)
    acting: Any = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": made.tenant_id})

    read = (await acting.tenancy.GetTenant(tenancy_pb2.GetTenantRequest())).tenant

    assert (read.tenant_id, read.display_name) == (made.tenant_id, made.display_name)
    assert read.slug == made.display_name.lower().replace(" ", "-")[:63]
