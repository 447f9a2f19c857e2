"""A running cluster for the tests, in either form, and fresh tenants in it.

One cluster serves all tests of a pytest worker: tenants are isolated, so every test takes a tenant of its own. The form
is chosen by SKEIN_TEST_FORM: `one` process for everything (the default), or `many`, a process for each service.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, cast

import asyncpg
import grpc
import pytest
from fix_calls import Calls
from fix_external_postgres import cluster_database, database_environment
from fix_identities import ALL, identity_environment, service_channel
from fix_layers import LAYER, switch_off_row_level_security
from fix_tenants import TenantStock
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from skein.memory.v1 import blocks_pb2_grpc, curation_pb2_grpc, history_pb2_grpc, memory_pb2_grpc, snapshots_pb2_grpc
from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2, tenancy_pb2_grpc
from skein_cluster.embedded.server import Server
from skein_kit.errors import status_reason

FREE_PORTS = dict.fromkeys(
    (
        "SKEIN_GATEWAY_PORT",
        "SKEIN_AUTH_PORT",
        "SKEIN_TENANCY_PORT",
        "SKEIN_SESSION_PORT",
        "SKEIN_MEMORY_PORT",
        "SKEIN_RECALL_PORT",
        "SKEIN_WORKER_PORT",
        "SKEIN_PC2_PORT",
        "SKEIN_PC2_BASE_PORT",
        "SKEIN_HTTP_PORT",
        "SKEIN_ADMIN_PORT",
    ),
    "0",
)
# All tests come from one address.
MANY_PEOPLE = {"SKEIN_ADVANCED_ADDRESS_LIMIT_FACTOR": "100000"}
# Tests wait for things by asking again and again.
IMPATIENCE = {"SKEIN_TENANT_REQUESTS_PER_SECOND": "1000000"}
# Tests present many credentials that are refused, all of them from one address; attacks present more.
UNPROVEN_PER_SECOND = 100
# Tests make many calls at once, on machines of any speed: none is refused for that, and none is answered with less.
PATIENCE = {
    "SKEIN_ADVANCED_ADMISSION_WAIT_SECONDS": "60",
    "SKEIN_ADVANCED_ADMISSION_QUEUE": "1000000",
    # Tests let calls of one tenant wait for each other's locks, whatever such calls have cost others before.
    "SKEIN_ADVANCED_ADMISSION_COSTLY_SECONDS": "1000000",
    "SKEIN_ADVANCED_RECALL_VECTORS_WAIT_SECONDS": "10",
    "SKEIN_ADVANCED_RECALL_EMBED_TIMEOUT_SECONDS": "10",
    "SKEIN_ADVANCED_GATEWAY_RECALL_BRANCH_SECONDS": "60",
    # A test waits for vectors beside tests of other workers, which leave no core idle.
    "SKEIN_ADVANCED_RECALL_EMBEDDER_BULK_NICE": "0",
    # However few vectors a tenant has, they are cached once it searched twice.
    "SKEIN_ADVANCED_RECALL_CACHE_MIN_CHUNKS": "1",
}


class AdmissionSettings(TypedDict):
    """The same for a service of its own."""

    admission_wait_seconds: float
    admission_queue: int
    admission_costly_seconds: float


PATIENT: AdmissionSettings = {
    "admission_wait_seconds": 60.0,
    "admission_queue": 1_000_000,
    "admission_costly_seconds": 1e6,
}
# Sign-up is open, and passwords cost next to nothing.
PEOPLE = {
    "SKEIN_SIGN_UP": "open",
    "SKEIN_ADVANCED_PASSWORD_HASH_MEMORY_KIB": "64",
}
# Each test has a tenant of its own, so after some thousand tests a round over all of them is work: what is due later is
# done by the tests that are about it.
WORKER = {
    # What the worker measures would be taken for what a test measures of another server in the same process.
    "SKEIN_ADVANCED_WORKER_PAUSE_FACTOR": "10000",
    # Its two tenants would disturb every test.
    "SKEIN_CANARY_SECONDS": "0",
}
# What the services of a test's cluster share with auth.
SYSTEM_KEY = "the system key of the clusters that tests run"
# What the secrets of its tenants are encrypted under.
MASTER_KEY = "5e" * 32
# Where the test process's clusters keep what is no table.
ARCHIVES = tempfile.TemporaryDirectory(prefix="skein-test-archives-")
_numbers = itertools.count(1)


def test_environment() -> dict[str, str]:
    """Return the environment of a test's cluster: free ports, nothing of the developer's own settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")}
    ours = {
        **FREE_PORTS,
        **MANY_PEOPLE,
        **IMPATIENCE,
        **PATIENCE,
        **PEOPLE,
        **WORKER,
        "SKEIN_LOG_LEVEL": "warning",
        "SKEIN_ADVANCED_UNPROVEN_CREDENTIALS_PER_SECOND": str(UNPROVEN_PER_SECOND),
        "SKEIN_SYSTEM_KEY": SYSTEM_KEY,
        "SKEIN_MASTER_KEY": MASTER_KEY,
        "SKEIN_DATA_DIR": ARCHIVES.name,
        "SKEIN_PC2_ENABLED": "1",
        **identity_environment(),
    }
    return {**inherited, **ours}


test_environment.__test__ = False  # type: ignore[attr-defined]  # A helper, though its name starts like a test's.


class AuthorizedChannel:
    """A channel whose calls carry a credential, for generated stubs."""

    def __init__(self, channel: aio.Channel, credential: str | Callable[[], str], **metadata: str) -> None:
        """Call with a credential, or with one that is made for each call: it may be good for a minute alone."""
        self._channel = channel
        self._credential = credential
        self._more = tuple(metadata.items())

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        credential = self._credential if isinstance(self._credential, str) else self._credential()
        return (("authorization", f"Bearer {credential}"), *self._more) if credential else ()

    def unary_unary(self, *arguments: Any, **keywords: Any) -> Callable[..., Any]:
        inner: Any = self._channel.unary_unary(*arguments, **keywords)

        def call(request: Any, *, timeout: float | None = None, metadata: tuple[tuple[str, str], ...] = ()) -> Any:
            return inner(request, timeout=timeout or 30.0, metadata=(*self._metadata, *metadata))

        return call

    def unary_stream(self, *arguments: Any, **keywords: Any) -> Callable[..., Any]:
        inner: Any = self._channel.unary_stream(*arguments, **keywords)

        def call(request: Any, *, timeout: float | None = None, metadata: tuple[tuple[str, str], ...] = ()) -> Any:
            return inner(request, timeout=timeout, metadata=(*self._metadata, *metadata))

        return call


@dataclass(frozen=True)
class Stubs(Calls):
    """Every public service, called through the gateway with one credential."""

    channel: aio.Channel

    @classmethod
    def of(cls, channel: aio.Channel, credential: str, **metadata: str) -> Stubs:
        return cls(cast("aio.Channel", AuthorizedChannel(channel, credential, **metadata)))

    @property
    def auth(self) -> auth_pb2_grpc.AuthServiceAsyncStub:
        return auth_pb2_grpc.AuthServiceStub(self.channel)

    @property
    def tenancy(self) -> tenancy_pb2_grpc.TenancyServiceAsyncStub:
        return tenancy_pb2_grpc.TenancyServiceStub(self.channel)

    @property
    def sessions(self) -> session_pb2_grpc.SessionServiceAsyncStub:
        return session_pb2_grpc.SessionServiceStub(self.channel)

    @property
    def memory(self) -> memory_pb2_grpc.MemoryServiceAsyncStub:
        return memory_pb2_grpc.MemoryServiceStub(self.channel)

    @property
    def links(self) -> memory_pb2_grpc.LinkServiceAsyncStub:
        return memory_pb2_grpc.LinkServiceStub(self.channel)

    @property
    def blocks(self) -> blocks_pb2_grpc.BlockServiceAsyncStub:
        return blocks_pb2_grpc.BlockServiceStub(self.channel)

    @property
    def curation(self) -> curation_pb2_grpc.CurationServiceAsyncStub:
        return curation_pb2_grpc.CurationServiceStub(self.channel)

    @property
    def history(self) -> history_pb2_grpc.HistoryServiceAsyncStub:
        return history_pb2_grpc.HistoryServiceStub(self.channel)

    @property
    def snapshots(self) -> snapshots_pb2_grpc.SnapshotServiceAsyncStub:
        return snapshots_pb2_grpc.SnapshotServiceStub(self.channel)

    @property
    def recall(self) -> recall_pb2_grpc.RecallServiceAsyncStub:
        return recall_pb2_grpc.RecallServiceStub(self.channel)

    @property
    def gateway(self) -> gateway_pb2_grpc.GatewayServiceAsyncStub:
        return gateway_pb2_grpc.GatewayServiceStub(self.channel)


@dataclass(frozen=True)
class Tenant(Stubs):
    """A tenant of a test's own, with an API key that may do everything in it."""

    tenant_id: uuid.UUID
    api_key: str


@dataclass(frozen=True)
class Cluster:
    """A cluster that is ready, whatever its form."""

    channel: aio.Channel
    # "127.0.0.1:50050" of the gateway.
    endpoint: str
    # "127.0.0.1:9450" of the gateway's process: /metrics, /livez, /readyz.
    admin: str
    # The same for the process of each service; one address in all when one process runs them all.
    admins: dict[str, str]
    # "127.0.0.1:50051" of each service, and "http".
    addresses: dict[str, str]
    operator_key: str
    postgres: Server
    environment: dict[str, str]
    stock: TenantStock = field(default_factory=TenantStock)
    # What `shared` opened, by service.
    channels: dict[str, aio.Channel] = field(default_factory=dict)

    @property
    def operator(self) -> Stubs:
        """Call as the operator, in no tenant."""
        return Stubs.of(self.channel, self.operator_key)

    @property
    def anonymous(self) -> Stubs:
        """Call without a credential."""
        return Stubs.of(self.channel, "")

    def with_key(self, credential: str, **metadata: str) -> Stubs:
        """Call with a credential of the test's choice."""
        return Stubs.of(self.channel, credential, **metadata)

    def direct(self, service: str, *, caller: str = ALL) -> aio.Channel:
        """Open a channel to a service's own port as another service, or as all; the caller closes it."""
        if service == "gateway":
            # Its port is public.
            return aio.insecure_channel(self.addresses[service])
        return service_channel(self.addresses[service], service, caller=caller)

    def shared(self, service: str) -> aio.Channel:
        """Return one channel for all calls as every service; the cluster closes it. A new one costs a TLS handshake."""
        if service not in self.channels:
            self.channels[service] = self.direct(service)
        return self.channels[service]

    @asynccontextmanager
    async def superuser(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """Look into the database from outside of every rule."""
        connection = await asyncpg.connect(self.postgres.url(user="postgres", database="skein"))
        try:
            yield connection
        finally:
            await connection.close()

    async def new_tenant(self) -> Tenant:
        """Return a tenant that no other test has, and a key for it."""

        async def first() -> tuple[uuid.UUID, str]:
            tenant = await new_tenant(self.channel, self.operator_key)
            return tenant.tenant_id, tenant.api_key

        tenant_id, api_key = await self.stock.take(self.superuser(), first)
        channel = cast("aio.Channel", AuthorizedChannel(self.channel, api_key))
        return Tenant(channel=channel, tenant_id=tenant_id, api_key=api_key)


async def new_tenant(channel: aio.Channel, operator_key: str) -> Tenant:
    """Make a tenant and a key for it, through a gateway."""
    name = f"test {next(_numbers)} {uuid.uuid4().hex[:8]}"
    created = await Stubs.of(channel, operator_key).tenancy.CreateTenant(
        tenancy_pb2.CreateTenantRequest(tenant=tenancy_pb2.Tenant(display_name=name))
    )
    tenant_id = created.tenant.tenant_id
    acting = Stubs.of(channel, operator_key, **{"skein-tenant-id": tenant_id})
    key = await acting.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="test"))
    authorized = cast("aio.Channel", AuthorizedChannel(channel, key.secret))
    return Tenant(channel=authorized, tenant_id=uuid.UUID(tenant_id), api_key=key.secret)


@asynccontextmanager
async def running_cluster(folder: Path, environment: dict[str, str], *, form: str = "") -> AsyncIterator[Cluster]:
    """Run a cluster with these settings until the block ends, in the form that the tests are run in or a given one."""
    # Imported here, because unit tests need none of the services.
    from skein_cluster.processes.multi_process import multi_process_cluster  # noqa: PLC0415
    from skein_cluster.processes.single_process import single_process_cluster  # noqa: PLC0415

    forms = {"one": single_process_cluster, "many": multi_process_cluster}
    async with AsyncExitStack() as stack:
        external = await stack.enter_async_context(cluster_database())
        used = (
            environment | database_environment(external.url(user="postgres", database="skein"))
            if external
            else environment
        )
        run = forms[form or os.environ.get("SKEIN_TEST_FORM", "one")]
        running = await stack.enter_async_context(run(folder, environment=used, durable=False))
        addresses = dict(running.addresses)
        postgres = external or running.postgres
        if LAYER == "keys":
            await switch_off_row_level_security(postgres)
        async with aio.insecure_channel(addresses["gateway"]) as channel:
            cluster = Cluster(
                channel=channel,
                endpoint=addresses["gateway"],
                admin=running.admins["gateway"],
                admins=dict(running.admins),
                addresses=addresses,
                operator_key=running.credentials.operator_key,
                postgres=postgres,
                environment=environment,
            )
            try:
                yield cluster
            finally:
                for shared in cluster.channels.values():
                    await shared.close()


@pytest.fixture(scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Run one cluster for all tests of this worker."""
    async with running_cluster(tmp_path_factory.mktemp("cluster"), test_environment()) as cluster:
        # The services stay for the whole run: a full collection that looks at them takes a third of a second.
        gc.collect()
        gc.freeze()
        yield cluster


@pytest.fixture(scope="session")
async def catalog_of(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Look at the cluster's tables as a superuser.

    Long statements over all tables are planned once, not before each of hundreds of comparisons.
    """
    connection = await asyncpg.connect(
        dsn=cluster.postgres.url(user="postgres", database="skein"),
        max_cacheable_statement_size=0,
        max_cached_statement_lifetime=0,
        server_settings={"plan_cache_mode": "force_generic_plan"},
    )
    yield connection
    await connection.close()


@pytest.fixture(scope="session")
async def backlog_connection(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection that changes documents as a superuser, without triggers."""
    async with cluster.superuser() as connection:
        await connection.execute("SET session_replication_role = replica")
        yield connection


@asynccontextmanager
async def _tenant_for_a_test(
    cluster: Cluster, backlog_connection: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[Tenant]:
    """Yield a fresh tenant, whose texts are not embedded any more after the test.

    The texts of tests of sizes would keep the model busy for half an hour, and later tests waiting.
    """
    tenant = await cluster.new_tenant()
    yield tenant
    drop_backlog = "UPDATE recall.documents SET pending = false WHERE tenant_id = $1 AND pending"
    with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        await backlog_connection.execute(drop_backlog, tenant.tenant_id)


@pytest.fixture
async def tenant(cluster: Cluster, backlog_connection: asyncpg.Connection[asyncpg.Record]) -> AsyncIterator[Tenant]:
    """A fresh tenant."""
    async with _tenant_for_a_test(cluster, backlog_connection) as tenant:
        yield tenant


@pytest.fixture
async def other_tenant(
    cluster: Cluster, backlog_connection: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[Tenant]:
    """Another fresh tenant, whose data no other may see."""
    async with _tenant_for_a_test(cluster, backlog_connection) as tenant:
        yield tenant


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Look into the database as its superuser, who sees all tenants."""
    async with cluster.superuser() as connection:
        yield connection


async def until_all_serve(
    gateway: gateway_pb2_grpc.GatewayServiceAsyncStub, *, but: Iterable[str] = ()
) -> gateway_pb2.GetClusterStatusResponse:
    """Ask until every service says so, but those that cannot: on a machine that stands still, one may be late."""
    async with asyncio.timeout(60):
        while True:
            status = await gateway.GetClusterStatus(gateway_pb2.GetClusterStatusRequest())
            states = {one.state for one in status.services if one.service not in but}
            if states == {gateway_pb2.SERVICE_STATE_SERVING}:
                return status
            await asyncio.sleep(0.05)


async def fault_of(call: Awaitable[Any]) -> aio.AioRpcError:
    """Return how a call fails."""
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    return caught.value


def reason_in(fault: aio.AioRpcError) -> str:
    """Return a fault's ErrorInfo reason; "" if it has none."""
    status = rpc_status.from_call(cast("Any", fault))
    return status_reason(status) if status else ""


def metadata_in(caught: pytest.ExceptionInfo[aio.AioRpcError]) -> dict[str, str]:
    """Return the metadata of the ErrorInfo of a refusal."""
    status = rpc_status.from_call(cast("Any", caught.value))
    info = error_details_pb2.ErrorInfo()
    assert status is not None
    status.details[0].Unpack(info)
    return dict(info.metadata)


@contextmanager
def refused(code: grpc.StatusCode, reason: str) -> Iterator[pytest.ExceptionInfo[aio.AioRpcError]]:
    """Expect the block's call to be refused with this code and this ErrorInfo reason."""
    with pytest.raises(aio.AioRpcError) as caught:
        yield caught
    assert (caught.value.code(), reason_in(caught.value)) == (code, reason), caught.value
