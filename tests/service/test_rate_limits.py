"""How many calls are let through: allowances in tenancy, and gateways that share them."""

from __future__ import annotations

import asyncio
import http.client
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_gateway import Gateway, gateway_before
from google.protobuf.field_mask_pb2 import FieldMask
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from skein.auth.v1 import auth_pb2
from skein.tenancy.v1 import limits_pb2, tenancy_pb2
from skein_kit.database.transactions import Database
from skein_kit.ids import now
from skein_tenancy.rate_limits.model import DefaultRateLimits, RateLimit
from skein_tenancy.rate_limits.rpc import request_lease
from skein_tenancy.rate_limits.store import RateLimitStore
from skein_tenancy.settings import TenancySettings

LIST = tenancy_pb2.ListAgentsRequest()


async def limit(cluster: Cluster, tenant: Tenant, **limits: int) -> None:
    operator = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    quota = limits_pb2.Quota(**limits)  # type: ignore[arg-type]  # Every limit is a number.
    await operator.tenancy.UpdateQuota(
        limits_pb2.UpdateQuotaRequest(quota=quota, update_mask=FieldMask(paths=list(limits)))
    )


async def call_at_once(tenant: Tenant | Gateway, count: int) -> Counter[str]:
    """Make calls and count the answers: "OK" or the status code's name."""

    async def one() -> str:
        try:
            await tenant.tenancy.ListAgents(LIST)
        except aio.AioRpcError as error:
            return error.code().name
        return "OK"

    return Counter(await asyncio.gather(*(one() for _ in range(count))))


def posted(address: str, path: str, key: str) -> tuple[int, str]:
    """POST an empty message as JSON; return the status and when to come back."""
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("POST", path, "{}", {"content-type": "application/json", "authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get("retry-after", "")
    finally:
        connection.close()


@pytest.mark.system
async def test_two_gateways_together_let_no_more_through_than_the_tenants_limit(
    cluster: Cluster, tenant: Tenant
) -> None:
    await limit(cluster, tenant, requests_per_minute=30)

    async with gateway_before(cluster, tenant, {}) as one, gateway_before(cluster, tenant, {}) as other:
        started = now()
        answers = sum(await asyncio.gather(*(call_at_once(gateway, 40) for gateway in (one, other))), Counter())
        seconds = (now() - started).total_seconds()

    # The bucket of 30, and one more every two seconds.
    assert 30 <= answers["OK"] <= 30 + 1 + seconds / 2
    assert answers["RESOURCE_EXHAUSTED"] == 80 - answers["OK"]


async def test_a_callers_limit_leaves_the_tenants_other_keys_alone(cluster: Cluster, tenant: Tenant) -> None:
    await limit(cluster, tenant, caller_requests_per_minute=5)
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="another"))

    async with gateway_before(cluster, tenant, {}) as gateway:
        first = await call_at_once(gateway, 20)
        second = Counter[str]()
        other = cluster.with_key(key.secret)
        for _ in range(3):
            await other.tenancy.ListAgents(LIST)
            second["OK"] += 1

    assert 4 <= first["OK"] <= 6
    assert second["OK"] == 3


async def test_a_refusal_says_which_limit_and_when_to_come_back(cluster: Cluster, tenant: Tenant) -> None:
    await limit(cluster, tenant, requests_per_day=2)

    async with gateway_before(cluster, tenant, {}) as gateway:
        await call_at_once(gateway, 2)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED"):
            await gateway.tenancy.ListAgents(LIST)
        with pytest.raises(aio.AioRpcError) as error:
            await gateway.tenancy.ListAgents(LIST)

    status = rpc_status.from_call(error.value)  # type: ignore[arg-type]  # It reads three methods that both have.
    assert status is not None
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    for detail in status.details:
        detail.Unpack(info) or detail.Unpack(retry)
    assert info.metadata["kind"] == "requests_per_day"
    assert 0 < retry.retry_delay.seconds <= 86400


async def test_an_operator_is_not_limited(cluster: Cluster, tenant: Tenant) -> None:
    await limit(cluster, tenant, requests_per_minute=1)
    operator = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})

    for _ in range(10):
        await operator.tenancy.ListAgents(LIST)


async def test_http_calls_are_limited_alike(cluster: Cluster, tenant: Tenant) -> None:
    await limit(cluster, tenant, requests_per_minute=1)

    async with gateway_before(cluster, tenant, {}) as gateway:
        address = gateway.host.addresses["http"]
        answers = [
            await asyncio.to_thread(posted, address, "/skein.tenancy.v1.TenancyService/ListAgents", tenant.api_key)
            for _ in range(3)
        ]

    assert [status for status, _ in answers] == [200, 429, 429]
    assert int(answers[1][1]) >= 1


async def test_calls_pass_while_tenancy_does_not_answer(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {}) as gateway:
        gateway.host.addresses["tenancy"] = "127.0.0.1:1"
        me = await gateway.auth.GetMe(auth_pb2.GetMeRequest())

    assert me.tenant_id == str(tenant.tenant_id)


@pytest.fixture
async def store(cluster: Cluster) -> AsyncIterator[RateLimitStore]:
    url = cluster.postgres.url(user="postgres", database="skein")
    async with Database.open(url, service="tenancy", size=8, timeout=30.0) as database:
        yield RateLimitStore(database)


async def lease_from(
    store: RateLimitStore,
    tenant_id: uuid.UUID | None,
    caller: str,
    counts: tuple[int, int],
    defaults: DefaultRateLimits | None = None,
) -> limits_pb2.AcquireRateLimitResponse:
    """Lease so many calls of a tenant and of a caller."""
    if defaults is None:
        defaults = DefaultRateLimits.from_settings(TenancySettings())
    tenant_count, caller_count = counts
    return request_lease(
        await store.lease_requests(
            tenant_id, caller, tenant_count=tenant_count, caller_count=caller_count, defaults=defaults
        )
    )


async def test_concurrent_leases_grant_no_more_than_the_bucket_has(store: RateLimitStore, tenant: Tenant) -> None:
    defaults = DefaultRateLimits(tenant_rate=20, tenant_burst=100, caller_rate=1000, caller_burst=1000)
    started = now()

    leases = await asyncio.gather(
        *(lease_from(store, tenant.tenant_id, f"api_key:{n % 3}", (7, 7), defaults) for n in range(40))
    )

    seconds = (now() - started).total_seconds()
    granted = sum(lease.tenant_tokens for lease in leases)
    assert 100 <= granted <= 100 + 20 * seconds
    assert any(lease.exhausted_limit == "requests_per_minute" for lease in leases)


async def test_a_rate_below_one_lets_single_calls_through(store: RateLimitStore, tenant: Tenant) -> None:
    defaults = DefaultRateLimits.from_settings(TenancySettings(tenant_requests_per_second=0.1))

    lease = await lease_from(store, tenant.tenant_id, "api_key:x", (1, 1), defaults)

    assert (lease.tenant_tokens, lease.caller_tokens) == (1, 1)


async def test_a_clock_that_was_an_hour_ahead_keeps_no_bucket_empty(
    cluster: Cluster, store: RateLimitStore, tenant: Tenant
) -> None:
    defaults = DefaultRateLimits(tenant_rate=1000, tenant_burst=10, caller_rate=1000, caller_burst=10)
    await lease_from(store, tenant.tenant_id, "api_key:x", (10, 10), defaults)
    connection = await asyncpg.connect(cluster.postgres.url(user="postgres", database="skein"))
    await connection.execute(
        "UPDATE tenancy.rate_limit_buckets SET tokens = 0, refill_time = now() + interval '1 hour'"
        " WHERE tenant_id = $1",
        tenant.tenant_id,
    )
    await connection.close()

    await lease_from(store, tenant.tenant_id, "api_key:x", (10, 10), defaults)
    async with asyncio.timeout(30):
        while not (await lease_from(store, tenant.tenant_id, "api_key:x", (1, 1), defaults)).tenant_tokens:
            pass


async def test_hours_and_days_are_counted_apart_from_the_bucket(
    cluster: Cluster, store: RateLimitStore, tenant: Tenant
) -> None:
    await limit(cluster, tenant, requests_per_hour=3, requests_per_day=1000)

    leases = [await lease_from(store, tenant.tenant_id, "api_key:x", (10, 10)) for _ in range(5)]

    # No more at once than a second's worth, so that a slow caller loses nothing.
    assert [lease.tenant_tokens for lease in leases] == [1, 1, 1, 0, 0]
    # By that the gateway knows how little there is to lease ahead.
    assert leases[0].tenant_rate == pytest.approx(3 / 3600)
    assert leases[-1].exhausted_limit == "requests_per_hour"
    assert 0 < leases[-1].retry_delay.seconds <= 3600


async def test_an_account_without_a_tenant_leases_for_itself(store: RateLimitStore) -> None:
    lease = await lease_from(store, None, f"account:{uuid.uuid4()}", (0, 5))

    assert (lease.tenant_tokens, lease.caller_tokens) == (0, 5)


async def test_idle_allowances_are_forgotten(store: RateLimitStore, tenant: Tenant) -> None:
    await lease_from(store, tenant.tenant_id, "api_key:idle", (1, 1))

    assert await store.delete_idle_buckets(tenant.tenant_id, now()) == 0
    assert await store.delete_idle_buckets(tenant.tenant_id, now() + timedelta(days=2)) >= 2


def test_a_lease_is_no_more_than_a_seconds_worth() -> None:
    assert RateLimit(kind="x", rate=500, burst=1000).lease_size(10_000) == 500
    assert RateLimit(kind="x", rate=500, burst=1000, max_per_hour=36_000).lease_size(100) == 10
    assert RateLimit(kind="x", rate=0.1, burst=6).lease_size(100) == 1
