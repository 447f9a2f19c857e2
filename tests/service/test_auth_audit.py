from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein_auth.api_keys.model import ApiKeyToken
from skein_auth.audit.recorder import DEDUPLICATION_SECONDS, MAX_REFUSED, AuditRecorder
from skein_auth.audit.store import AuditStore
from skein_kit.database.transactions import NO_TENANT, Database
from skein_kit.errors import CredentialInvalid
from skein_kit.ids import new_id, now


@pytest.fixture
async def events(cluster: Cluster) -> AsyncIterator[AuditStore]:
    """The audit as the service itself keeps it, without a call around it."""
    url = cluster.postgres.url(user="postgres", database="skein")
    async with Database.open(url, service="auth", size=2, timeout=30.0) as database:
        yield AuditStore(database)


async def list_events(tenant: Tenant, **question: object) -> list[accounts_pb2.AuditEvent]:
    request = accounts_pb2.ListAuditEventsRequest(**question)  # type: ignore[arg-type]  # Fields of the request.
    return list((await tenant.auth.ListAuditEvents(request)).audit_events)


async def test_an_event_says_who_did_what_to_whom_and_from_where(tenant: Tenant) -> None:
    me = await tenant.auth.GetMe(auth_pb2.GetMeRequest())
    made = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="x"), metadata=(("skein-request-id", "from-the-test"),)
    )

    event = (await list_events(tenant))[0]

    assert (event.event, event.outcome, event.reason) == (
        "api_key_created",
        accounts_pb2.AUDIT_OUTCOME_SUCCESS,
        "",
    )
    assert (event.principal, event.target) == (me.principal, f"api_key:{made.api_key.api_key_id}")
    assert (event.address, event.request_id) == ("127.0.0.1", "from-the-test")
    assert "grpc" in event.user_agent
    assert event.HasField("create_time")


async def test_events_are_paged_newest_first_and_hidden_from_other_tenants(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    made = [
        (await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="x"))).api_key.api_key_id
        for _ in range(3)
    ]

    request = accounts_pb2.ListAuditEventsRequest(page_size=2)
    first = await tenant.auth.ListAuditEvents(request)
    request.page_token = first.next_page_token
    second = await tenant.auth.ListAuditEvents(request)

    targets = [event.target for event in (*first.audit_events, *second.audit_events)]
    assert targets[:3] == [f"api_key:{key}" for key in reversed(made)]
    assert not second.next_page_token
    assert not {event.target for event in await list_events(other_tenant)} & set(targets)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
        await other_tenant.auth.ListAuditEvents(request)


async def test_events_can_be_read_for_one_account(events: AuditStore) -> None:
    account_id, tenant_id = uuid.uuid4(), uuid.uuid4()
    audit = AuditRecorder(events)
    await audit.record("sign_in", tenant_id=tenant_id, account_id=account_id)
    await audit.record("sign_in", tenant_id=tenant_id, account_id=uuid.uuid4())

    audit_events = await events.list_audit_events(tenant_id, account_id=account_id, before=None, size=10)

    assert [event.event for event in audit_events] == ["sign_in"]


async def test_an_undocumented_event_is_not_recorded(events: AuditStore) -> None:
    with pytest.raises(LookupError, match="EVENTS"):
        await AuditRecorder(events).record("something_else")


async def test_a_browser_s_user_agent_cannot_break_a_line(events: AuditStore) -> None:
    tenant_id = uuid.uuid4()

    await AuditRecorder(events).record("sign_in", tenant_id=tenant_id, target="a\x00b\nc" + 300 * "x")

    audit_events = await events.list_audit_events(tenant_id, account_id=None, before=None, size=10)
    assert audit_events[0].target == "abc" + 252 * "x"


# Refused credentials


async def test_a_refused_key_is_an_event_of_its_tenant_without_its_secret(cluster: Cluster, tenant: Tenant) -> None:
    made = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="x"))
    await tenant.auth.RevokeApiKey(auth_pb2.RevokeApiKeyRequest(api_key_id=made.api_key.api_key_id))

    for _ in range(3):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
            await cluster.with_key(made.secret).auth.GetMe(auth_pb2.GetMeRequest())

    results = [event for event in await list_events(tenant) if event.event == "credential_refused"]
    assert [(event.reason, event.target, event.address) for event in results] == [
        ("CREDENTIAL_INVALID", f"api_key:{made.api_key.api_key_id}", "127.0.0.1")
    ]
    assert made.secret not in str(results)


async def test_a_credential_that_merely_names_a_tenant_is_no_event_of_it(cluster: Cluster, tenant: Tenant) -> None:
    before = len(await list_events(tenant))

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.with_key(ApiKeyToken.new(tenant.tenant_id, new_id(now())).encode()).auth.GetMe(
            auth_pb2.GetMeRequest()
        )

    assert len(await list_events(tenant)) == before
    # Recorded once a minute for all that is refused to one address, by whichever test.
    nowhere = await cluster.operator.auth.ListAuditEvents(accounts_pb2.ListAuditEventsRequest(page_size=500))
    assert "credential_refused" in {event.event for event in nowhere.audit_events}


async def test_the_same_refused_credential_is_recorded_once_a_minute(events: AuditStore) -> None:
    tenant_id, time = uuid.uuid4(), 0.0
    audit = AuditRecorder(events, lambda: time)

    for time in (0.0, DEDUPLICATION_SECONDS - 1, DEDUPLICATION_SECONDS + 1, DEDUPLICATION_SECONDS + 2):  # noqa: B007 - the clock reads it.
        await audit.record_rejected_credential("the same", CredentialInvalid(), tenant_id=tenant_id)
    await audit.record_rejected_credential("another", CredentialInvalid(), tenant_id=tenant_id)

    audit_events = await events.list_audit_events(tenant_id, account_id=None, before=None, size=10)
    assert len(audit_events) == 3


@pytest.mark.system
async def test_callers_without_a_credential_cannot_fill_the_table(events: AuditStore) -> None:
    marker = uuid.uuid4()
    audit = AuditRecorder(events, lambda: 0.0)

    for number in range(MAX_REFUSED + 5):
        await audit.record_rejected_credential(f"{number}", CredentialInvalid(), account_id=marker)
        await audit.record_rejected_credential(f"unknown {number}", CredentialInvalid())

    audit_events = await events.list_audit_events(NO_TENANT, account_id=marker, before=None, size=MAX_REFUSED + 5)
    # All unknown credentials together are one event more, of their source.
    assert len(audit_events) == MAX_REFUSED - 1
