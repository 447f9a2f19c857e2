"""The whole cluster in one process, for `skein up`, `skein demo` and the tests.

Its database is that of SKEIN_DATABASE_URL, else an embedded Postgres in the data folder's `postgres/`. The folder also
contains `system.key` (shared by the services and auth), `master.key` (which encrypts tenants' secrets) and
`credentials.json`. The first start writes the latter: an operator key, a development tenant and its API key.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from skein_auth.api_keys.bootstrap import OperatorKeyRefused, ensure_operator_key
from skein_cluster import registry
from skein_cluster.api import credentials
from skein_cluster.api.credentials import Credentials
from skein_cluster.backup import wal_archive
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.config.database_check import check_database, max_connections
from skein_cluster.embedded.data_dir import refuse_postgres_folder
from skein_cluster.embedded.databases import DATABASE, create_database, has_cluster_database
from skein_cluster.embedded.server import Server
from skein_cluster.processes.ports import check_free
from skein_kit.database.connection_settings import service_url
from skein_kit.database.schema_migrations import Migration, MigrationNotAllowed, migrate
from skein_kit.host.process import PortTaken, run_services
from skein_kit.settings import ProcessSettings

_NO_SERVICES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalCluster:
    """A ready cluster in one process or several."""

    # "127.0.0.1:50051" by service, "http", and names such as "pc2:5570" for the assistants.
    addresses: Mapping[str, str]
    # "127.0.0.1:9450" of /metrics, /livez and /readyz, for the process of each service.
    admins: Mapping[str, str]
    # Pid of each service.
    processes: Mapping[str, int]
    # None: the database is that of SKEIN_DATABASE_URL.
    embedded: Server | None
    credentials: Credentials
    # Log file of each service's process, if any.
    logs: Mapping[str, Path] = field(default_factory=dict)

    @property
    def postgres(self) -> Server:
        """The embedded Postgres. Raises LookupError when the database is that of SKEIN_DATABASE_URL."""
        return _embedded(self.embedded)


@asynccontextmanager
async def single_process_cluster(
    data_dir: Path,
    *,
    environment: Mapping[str, str] | None = None,
    durable: bool = True,
    ready_seconds: float = 60.0,
) -> AsyncIterator[LocalCluster]:
    """Run every service until the block ends.

    Raises PortTaken, and the errors of `prepared_database`.
    """
    async with prepared_database(
        data_dir, _requested_ports, environment=environment, durable=durable, counts=dict.fromkeys(registry.NAMES, 1)
    ) as base:
        check_free(_requested_ports(base.environment))
        settings = ProcessSettings.read(base.environment)
        names = registry.local_names(base.environment)
        host = registry.host_of(settings, base.environment, local_services=names)
        async with run_services(registry.load(names), host) as cluster:
            # pc2 acts in the development tenant, whose key exists only when the others are ready.
            await cluster.wait_ready(ready_seconds, except_={"pc2"})
            created = await base.write_credentials(host.addresses, {"skein": cluster.admin} if cluster.admin else {})
            base.environment.setdefault("SKEIN_PC2_API_KEY", created.api_key)
            await cluster.wait_ready(ready_seconds)
            check_all_open(host.addresses, base.environment)
            yield LocalCluster(
                addresses=host.addresses,
                admins=dict.fromkeys(names, cluster.admin),
                processes=dict.fromkeys(names, os.getpid()),
                embedded=base.embedded,
                credentials=created,
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedDatabase:
    """A migrated database with its keys."""

    data_dir: Path
    # The services' environment, with SKEIN_DATABASE_URL and SKEIN_SYSTEM_KEY.
    environment: dict[str, str]
    # None: the database is that of SKEIN_DATABASE_URL.
    embedded: Server | None
    operator_key: str = field(repr=False)

    @property
    def postgres(self) -> Server:
        """The embedded Postgres. Raises LookupError when the database is that of SKEIN_DATABASE_URL."""
        return _embedded(self.embedded)

    async def write_credentials(
        self, addresses: Mapping[str, str], processes: Mapping[str, str] = MappingProxyType({})
    ) -> Credentials:
        """Create the development tenant and its key if needed, and write credentials.json.

        `processes` has the admin address of each process that serves the gateway's ports.
        """
        created = dataclasses.replace(
            await credentials.ensure_development_credentials(
                addresses, credentials.load_credentials(self.data_dir), self.operator_key, self.environment
            ),
            processes=dict(processes),
        )
        credentials.save_credentials(self.data_dir, created)
        return created


@asynccontextmanager
async def prepared_database(
    data_dir: Path,
    requested_ports: Callable[[Mapping[str, str]], Mapping[str, tuple[str, int]]] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    durable: bool = True,
    counts: Mapping[str, int] = _NO_SERVICES,
) -> AsyncIterator[PreparedDatabase]:
    """Prepare the cluster's database, migrated and with an operator key; run the embedded Postgres if it is that.

    `requested_ports` of the environment must be free before a database is created, which takes seconds. With an
    existing database, a process that uses the data folder is reported first: it probably has the ports too. `counts`
    has the number of processes of each service, for the connections that another database must allow.

    Raises PortTaken, MigrationError, the embedded server's errors, and CommandError for what SKEIN_DATABASE_URL lacks.
    """
    values = dict(os.environ if environment is None else environment)
    settings = ProcessSettings.read(values)
    is_embedded = not settings.database_url
    if requested_ports is not None and not (is_embedded and (data_dir / "postgres" / "PG_VERSION").exists()):
        check_free(requested_ports(values))
    refuse_postgres_folder(data_dir)
    credentials.make_private(data_dir)
    async with AsyncExitStack() as stack:
        server = None
        if is_embedded:
            server = await stack.enter_async_context(
                wal_archive.run_server(data_dir, wal_archive.archive_folder(values), durable=durable, restart=True)
            )
            values["SKEIN_DATABASE_URL"] = url = server.url(user="postgres", database=DATABASE)
            for name in ("SKEIN_DATABASE_DIRECT_URL", "SKEIN_DATABASE_DIRECT_URL_FILE", "SKEIN_DATABASE_POOLED"):
                values.pop(name, None)
            await prepare_database(server)
        else:
            url = settings.database_direct_url or settings.database_url
            await prepare(url, values, counts)
        if not (values.get("SKEIN_SYSTEM_KEY") or values.get("SKEIN_SYSTEM_KEY_FILE")):
            values["SKEIN_SYSTEM_KEY"] = credentials.system_key(data_dir)
        if not (values.get("SKEIN_MASTER_KEY") or values.get("SKEIN_MASTER_KEY_FILE")):
            values["SKEIN_MASTER_KEY"] = credentials.master_key(data_dir)
        operator_key = await _operator_key(
            service_url(url, "auth", values), credentials.load_credentials(data_dir).get("operator_key")
        )
        yield PreparedDatabase(data_dir=data_dir, environment=values, embedded=server, operator_key=operator_key)


async def prepare_database(server: Server) -> list[Migration]:
    """Create the database of an embedded server if needed, migrate it, and return the migrations applied now."""
    if not await has_cluster_database(server):
        await create_database(server, DATABASE, if_missing=True)
    url = server.url(user="postgres", database=DATABASE)
    return await migrate(url, registry.migrations(), registry.WITH_DATABASE)


def _embedded(server: Server | None) -> Server:
    if server is None:
        message = "The database is that of SKEIN_DATABASE_URL."
        raise LookupError(message)
    return server


def _requested_ports(environment: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    settings = ProcessSettings.read(environment)
    return registry.ports(settings, environment) | {"SKEIN_ADMIN_PORT": (settings.host, settings.admin_port)}


def check_all_open(addresses: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raise PortTaken when pc2 could not open one of its ports, because the user has to choose another port."""
    if "pc2" not in registry.local_names(environment):
        return
    for number, (setting, port) in zip(registry.PC2_PORTS, registry.pc2_ports(environment).items(), strict=True):
        if f"pc2:{number}" not in addresses:
            raise PortTaken(f"Port {port} is in use; set {setting} to another port for the assistants' port {number}.")


async def _operator_key(database_url: str, earlier_key: str | None) -> str:
    """Return the operator key of an earlier start if it is still valid, else a new one."""
    if earlier_key is not None:
        with suppress(OperatorKeyRefused):
            return await ensure_operator_key(database_url, display_name="skein up", secret=earlier_key)
    return await ensure_operator_key(database_url, display_name="skein up")


async def prepare(url: str, environment: Mapping[str, str], counts: Mapping[str, int]) -> None:
    """Migrate the database as `skein migrate` does, if the user of `url` may; then check what the services need of it.

    `counts` has the number of processes of each service. Raises MigrationError, and CommandError with what the database
    lacks or when it does not answer.
    """
    try:
        await migrate(
            url, registry.migrations(), registry.WITH_DATABASE, passwords=registry.role_passwords(environment)
        )
    except MigrationNotAllowed:
        # Another user migrates; whether that has been done is checked below.
        pass
    except (OSError, TimeoutError) as error:
        message = f"The database of SKEIN_DATABASE_URL does not answer ({error or 'no answer in time'})."
        raise CommandError(message, ExitCode.UNREACHABLE) from error
    pool_size = ProcessSettings.read(environment).pool_size
    connections = sum(count * max_connections([name], pool_size) for name, count in counts.items())
    problems = (await check_database(registry.NAMES, environment, connections=connections)).problems
    if problems:
        raise CommandError(" ".join(problems), ExitCode.CANNOT_START)
