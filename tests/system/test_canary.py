"""The canary against a cluster of its own: what it says of a healthy one, and of one whose isolation is broken."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import asyncpg
import pytest
from fix_cluster import SYSTEM_KEY, Stubs, test_environment
from fix_identities import service_channel
from fix_metrics import sample
from grpc import aio

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.memory.v1 import access_log_pb2
from skein.tenancy.v1 import limits_pb2, tenancy_pb2
from skein_cluster.embedded.databases import DATABASE
from skein_cluster.processes.single_process import LocalCluster, single_process_cluster
from skein_kit.canary import CANARY_A, CANARY_B, CANARY_TENANTS, ORGANIZATION
from skein_kit.rpc.channel import ServiceChannel
from skein_kit.settings import ProcessSettings
from skein_kit.tls.mutual_tls import MutualTlsFiles
from skein_worker.canary.isolation_check import FAILED, ISOLATED, LEAKED, IsolationCheck
from skein_worker.canary.probes import PROBES, SPACE_PROBES
from skein_worker.system_identity import SystemIdentity

# Each look is some two hundred calls.
pytestmark = pytest.mark.timeout(300)
# The worker of the cluster does its first round at once, and takes so long for it that it never gets to the second.
_SECONDS = "100000"
_FIRST_LOOKS = 15
ALL_PROBES = (*PROBES, *SPACE_PROBES)
READ_AGENTS = {"TenancyService/GetAgent", "TenancyService/ListAgents"}


@dataclass(frozen=True)
class CanaryCluster:
    """A cluster with a canary, and a second one that looks when a test says so."""

    cluster: LocalCluster
    looking: IsolationCheck
    # Makes another such, that looks with some probes alone.
    another: Callable[[set[str], float], IsolationCheck]
    # What it found at first.
    healthy: dict[str, str]
    channel: aio.Channel
    auth: auth_pb2_grpc.AuthInternalServiceAsyncStub

    @property
    def operator(self) -> Stubs:
        return Stubs.of(self.channel, self.cluster.credentials.operator_key)

    async def key_of(self, tenant_id: str) -> str:
        """Return a key of one of the two, made by the operator."""
        acting = Stubs.of(self.channel, self.cluster.credentials.operator_key, **{"skein-tenant-id": tenant_id})
        return (await acting.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="a test's"))).secret

    @asynccontextmanager
    async def superuser(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        connection = await asyncpg.connect(self.cluster.postgres.url(user="postgres", database=DATABASE))
        try:
            yield connection
        finally:
            await connection.close()


@pytest.fixture(scope="module")
async def watched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CanaryCluster]:
    folder: Path = tmp_path_factory.mktemp("canary")
    environment = {**test_environment(), "SKEIN_CANARY_SECONDS": _SECONDS, "SKEIN_DATA_DIR": str(folder / "data")}
    before = sum(counted(outcome) for outcome in (ISOLATED, LEAKED, FAILED))
    async with single_process_cluster(folder / "data", environment=environment, durable=False) as cluster:
        async with asyncio.timeout(200):
            # The worker has planted what it looks for, and rests between its first probe and the second one.
            while sum(counted(outcome) for outcome in (ISOLATED, LEAKED, FAILED)) == before:
                await asyncio.sleep(0.05)
        gateway, auth = (
            ServiceChannel(
                partial(cluster.addresses.__getitem__, name),
                {},
                mutual=None if name == "gateway" else MutualTlsFiles.from_settings(ProcessSettings.read(environment)),
                service=name,
            )
            for name in ("gateway", "auth")
        )
        channel = cast("aio.Channel", auth)
        identities: auth_pb2_grpc.AuthInternalServiceAsyncStub = auth_pb2_grpc.AuthInternalServiceStub(channel)
        looks = partial(
            IsolationCheck,
            cast("aio.Channel", gateway),
            auth_pb2_grpc.AuthServiceStub(channel),
            SystemIdentity(identities, key=SYSTEM_KEY),
        )

        def another(methods: set[str], seconds: float) -> IsolationCheck:
            return looks(seconds=seconds, probes=[probe for probe in ALL_PROBES if probe.method in methods])

        looking = looks(seconds=float(_SECONDS))
        async with aio.insecure_channel(cluster.addresses["gateway"]) as public:
            yield CanaryCluster(cluster, looking, another, await _first_look(looking, another), public, identities)
        await gateway.close()
        await auth.close()


async def _first_look(looking: IsolationCheck, another: Callable[[set[str], float], IsolationCheck]) -> dict[str, str]:
    """Look until the policy of before is over, but not for ever: the last look says which probe is blind."""
    results: dict[str, str] = {}
    for _ in range(_FIRST_LOOKS):
        with contextlib.suppress(aio.AioRpcError):
            blind = {probe.method for probe in ALL_PROBES if results.get(probe.method, FAILED) == FAILED}
            results |= await (another(blind, float(_SECONDS)) if results else looking).check()
            if FAILED not in results.values():
                break
        await asyncio.sleep(0.2)
    return results


def counted(outcome: str) -> float:
    return sample("skein_canary_probes_total", outcome=outcome) or 0.0


def test_in_a_healthy_cluster_every_reading_rpc_is_isolated_and_finds_its_own(watched: CanaryCluster) -> None:
    assert watched.healthy == {probe.method: ISOLATED for probe in ALL_PROBES}
    assert sample("skein_canary_leaks", method="MemoryService/GetMemory") == 0
    assert sample("skein_canary_last_round_timestamp_seconds")


async def test_lists_do_not_show_the_canary_s_tenants(watched: CanaryCluster) -> None:
    organizations = await watched.operator.tenancy.ListOrganizations(tenancy_pb2.ListOrganizationsRequest())
    tenants = await watched.operator.tenancy.ListTenants(tenancy_pb2.ListTenantsRequest(page_size=100))
    asked_for = await watched.operator.tenancy.ListTenants(
        tenancy_pb2.ListTenantsRequest(organization_id=str(ORGANIZATION))
    )

    assert str(ORGANIZATION) not in {one.organization_id for one in organizations.organizations}
    assert not {str(one.tenant_id) for one in CANARY_TENANTS} & {one.tenant_id for one in tenants.tenants}
    assert {one.tenant_id for one in asked_for.tenants} == {str(one.tenant_id) for one in CANARY_TENANTS}


async def test_a_new_tenant_is_not_made_in_the_canary_s_organization(watched: CanaryCluster) -> None:
    request = tenancy_pb2.CreateTenantRequest(tenant=tenancy_pb2.Tenant(display_name="a person's"))

    made = await watched.operator.tenancy.CreateTenant(request)

    assert made.tenant.organization_id != str(ORGANIZATION)


async def test_the_canary_is_in_no_other_organization_s_usage(watched: CanaryCluster) -> None:
    listed = await watched.operator.tenancy.ListOrganizations(tenancy_pb2.ListOrganizationsRequest())

    for one in listed.organizations:
        request = limits_pb2.GetUsageRequest(organization_id=one.organization_id)
        usage = await watched.operator.tenancy.GetUsage(request)
        theirs = await watched.operator.tenancy.ListTenants(
            tenancy_pb2.ListTenantsRequest(organization_id=one.organization_id, page_size=100)
        )
        own = Counter({"tenants": len(theirs.tenants)})
        for tenant in theirs.tenants:
            key, naming = watched.cluster.credentials.operator_key, {"skein-tenant-id": tenant.tenant_id}
            acting = Stubs.of(watched.channel, key, **naming)
            alone = await acting.tenancy.GetUsage(limits_pb2.GetUsageRequest())
            own.update({kind.kind: kind.used for kind in alone.usage})
        # What each of them has is counted now and then: it may have had less.
        assert {kind.kind: kind.used for kind in usage.usage if kind.used > own[kind.kind]} == {}


async def test_reads_of_the_canary_are_not_in_the_access_log(watched: CanaryCluster) -> None:
    stubs = Stubs.of(watched.channel, await watched.key_of(str(CANARY_A.tenant_id)))

    listed = await stubs.history.ListAccessLog(access_log_pb2.ListAccessLogRequest(page_size=1000))

    assert listed.access_events
    methods = {access.method.rpartition("/")[2] for access in listed.access_events}
    assert not {probe.path.rpartition("/")[2] for probe in PROBES} & methods - {"GetMemory", "ListMemories"}


async def test_keys_of_the_canary_that_are_over_are_removed_after_a_day(watched: CanaryCluster) -> None:
    stubs = Stubs.of(watched.channel, await watched.key_of(str(CANARY_A.tenant_id)))
    before = (await stubs.auth.ListApiKeys(auth_pb2.ListApiKeysRequest())).api_keys
    old = (await stubs.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="old"))).api_key
    async with watched.superuser() as connection:
        await connection.execute(
            "UPDATE auth.api_keys SET expire_time = now() - interval '2 days' WHERE api_key_id = $1", old.api_key_id
        )
    credential = auth_pb2.SystemCredential(key=SYSTEM_KEY, service="worker")
    request = auth_pb2.ExchangeRequest(system=credential, tenant_id=str(CANARY_A.tenant_id))
    token = (await watched.auth.Exchange(request)).token

    async with service_channel(watched.cluster.addresses["auth"], "auth") as channel:
        stub: auth_pb2_grpc.AuthInternalServiceAsyncStub = auth_pb2_grpc.AuthInternalServiceStub(channel)
        await stub.DeleteExpired(auth_pb2.DeleteExpiredRequest(), metadata=(("authorization", f"Bearer {token}"),))

    after = (await stubs.auth.ListApiKeys(auth_pb2.ListApiKeysRequest())).api_keys
    assert {key.api_key_id for key in after} == {key.api_key_id for key in before}


async def test_the_system_is_an_admin_in_the_canary_s_tenants_alone(watched: CanaryCluster) -> None:
    credential = auth_pb2.SystemCredential(key=SYSTEM_KEY, service="worker")
    other = watched.cluster.credentials.tenant_id
    claims = {}
    for tenant_id in (str(CANARY_A.tenant_id), other):
        made = await watched.auth.Exchange(auth_pb2.ExchangeRequest(system=credential, tenant_id=tenant_id))
        async with service_channel(watched.cluster.addresses["auth"], "auth") as channel:
            auth: auth_pb2_grpc.AuthServiceAsyncStub = auth_pb2_grpc.AuthServiceStub(channel)
            me = await auth.GetMe(auth_pb2.GetMeRequest(), metadata=(("authorization", f"Bearer {made.token}"),))
        claims[tenant_id] = set(me.permissions)

    assert claims[other] == {"system", "tenant.read"}
    assert {"memory.read", "keys.write"} <= claims[str(CANARY_A.tenant_id)]
    assert not {"tenant.own", "operator"} & claims[str(CANARY_A.tenant_id)]


@pytest.mark.essential
async def test_a_table_that_shows_the_other_s_rows_is_a_leak_of_the_rpcs_that_read_it(watched: CanaryCluster) -> None:
    before = counted(LEAKED)
    everybodys = f"(VALUES ('{CANARY_A.tenant_id}'::uuid), ('{CANARY_B.tenant_id}'::uuid)) t (id)"

    async with _agents_as(watched, everybodys):
        broken = await watched.looking.check()
    leaks = sample("skein_canary_leaks", method="TenancyService/GetAgent")
    mended = await watched.looking.check()

    assert {method for method, outcome in broken.items() if outcome == LEAKED} == READ_AGENTS
    assert {outcome for method, outcome in broken.items() if method not in READ_AGENTS} == {ISOLATED}
    assert (counted(LEAKED), leaks) == (before + 2 * len(READ_AGENTS), 1)
    assert set(mended.values()) == {ISOLATED}
    assert sample("skein_canary_leaks", method="TenancyService/GetAgent") == 0


async def test_a_probe_that_cannot_see_its_own_data_has_failed(watched: CanaryCluster) -> None:
    async with _agents_as(watched, "(SELECT NULL::uuid AS id) t"):
        result = await watched.looking.check()

    assert {method for method, outcome in result.items() if outcome == FAILED} == READ_AGENTS
    assert {outcome for method, outcome in result.items() if method not in READ_AGENTS} == {ISOLATED}


async def test_a_leak_counts_also_when_the_round_is_left_off(watched: CanaryCluster) -> None:
    looking, leave_off = watched.another(READ_AGENTS, 100.0), asyncio.Event()
    assert set((await looking.check()).values()) == {ISOLATED}
    leave_off.set()
    everybodys = f"(VALUES ('{CANARY_A.tenant_id}'::uuid), ('{CANARY_B.tenant_id}'::uuid)) t (id)"

    async with _agents_as(watched, everybodys):
        await looking.run(b"", leave_off)

    leaks = [sample("skein_canary_leaks", method=method) for method in sorted(READ_AGENTS)]
    await looking.check()
    # The first was looked at, the second not any more.
    assert leaks == [1, 0]


async def test_the_canary_replaces_a_revoked_key_and_rows_that_were_removed(
    watched: CanaryCluster,
) -> None:
    looking, stay = watched.another({"TenancyService/GetAgent"}, 0.1), asyncio.Event()
    assert set((await looking.check()).values()) == {ISOLATED}
    async with watched.superuser() as connection:
        await connection.execute(
            "UPDATE auth.api_keys SET revoke_time = now() WHERE tenant_id = $1", CANARY_A.tenant_id
        )
        await connection.execute("DELETE FROM tenancy.agents WHERE tenant_id = $1", CANARY_B.tenant_id)
    before = counted(ISOLATED)

    async with asyncio.timeout(60):
        while counted(ISOLATED) == before:
            await looking.run(b"", stay)

    assert set((await looking.check()).values()) == {ISOLATED}


@asynccontextmanager
async def _agents_as(watched: CanaryCluster, rows: str) -> AsyncIterator[None]:
    """Show every reader of the table of agents these rows instead, whatever its rights."""
    async with watched.superuser() as connection:
        columns = await connection.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'tenancy.agents'::regclass AND attnum > 0"
            " AND NOT attisdropped ORDER BY attnum"
        )
        named = ", ".join("t.id AS tenant_id" if row["attname"] == "tenant_id" else row["attname"] for row in columns)
        async with connection.transaction():
            await connection.execute("ALTER TABLE tenancy.agents RENAME TO agents_before")
            await connection.execute(
                # Names of columns, and rows that a test wrote.
                f"CREATE VIEW tenancy.agents AS SELECT {named} FROM tenancy.agents_before a, {rows}"  # noqa: S608
            )
            # Those that ask whether an agent is deleted read it too.
            readers = "skein_tenancy, skein_auth, skein_session, skein_memory"
            await connection.execute(f"GRANT SELECT ON tenancy.agents TO {readers}")
        try:
            yield
        finally:
            async with connection.transaction():
                await connection.execute("DROP VIEW tenancy.agents")
                await connection.execute("ALTER TABLE tenancy.agents_before RENAME TO agents")
