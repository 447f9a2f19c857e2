"""The whole cluster in one process over an embedded Postgres: what `skein up`, `skein demo` and the tests run.

Its data folder holds `postgres/`, `system.key` (what the services share with auth) and `credentials.json`, which the
first start writes: an operator key, a development tenant and an API key for it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2, tenancy_pb2_grpc
from skein_auth.bootstrap import ensure_operator_key
from skein_cluster import registry
from skein_kit import postgres
from skein_kit.migrate import migrate
from skein_kit.service import Running, running
from skein_kit.settings import ProcessSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from skein_kit.postgres import Server

DATABASE = "skein"
_SECRET_MODE = 0o600


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """How to reach the cluster as the development tenant, and as the operator."""

    # Host and port of the gateway's gRPC door.
    endpoint: str
    # Address of its HTTP door.
    http: str
    api_key: str = dataclasses.field(repr=False)
    tenant_id: str
    operator_key: str = dataclasses.field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Embedded:
    """A cluster that is ready."""

    running: Running
    postgres: Server
    credentials: Credentials


@asynccontextmanager
async def embedded_cluster(
    data_dir: Path,
    *,
    environment: Mapping[str, str] | None = None,
    durable: bool = True,
    ready_seconds: float = 60.0,
) -> AsyncIterator[Embedded]:
    """Run every service over an embedded Postgres until the block ends.

    Raises PortTaken, and the embedded server's errors; either says what to do.
    """
    _make_folder(data_dir)
    values = dict(os.environ if environment is None else environment)
    values.setdefault("SKEIN_SYSTEM_KEY", _system_key(data_dir / "system.key"))
    async with postgres.running_server(data_dir / "postgres", durable=durable) as server:
        await prepare(server)
        values["SKEIN_DATABASE_URL"] = server.url(user="postgres", database=DATABASE)
        settings = ProcessSettings.read(values)
        saved = _read(data_dir / "credentials.json")
        operator_key = await ensure_operator_key(
            settings.database_url, display_name="skein up", secret=saved.get("operator_key")
        )
        host = registry.host_of(settings, values)
        async with running(registry.load(), host) as cluster:
            # pc2 speaks for the development tenant, whose key exists only once the others are ready.
            await cluster.wait_ready(ready_seconds, but={"pc2"})
            credentials = await _credentials(cluster, saved, operator_key)
            _write_secret(data_dir / "credentials.json", json.dumps(dataclasses.asdict(credentials), indent=2) + "\n")
            values.setdefault("SKEIN_PC2_API_KEY", credentials.api_key)
            await cluster.wait_ready(ready_seconds)
            yield Embedded(running=cluster, postgres=server, credentials=credentials)


async def prepare(server: Server) -> None:
    """Create the database if it is missing, and bring its schema to the newest version."""
    await postgres.create_database(server, DATABASE, if_missing=True)
    url = server.url(user="postgres", database=DATABASE)
    await migrate(url, registry.migrations(), registry.WITH_DATABASE)


async def _credentials(cluster: Running, saved: Mapping[str, str], operator_key: str) -> Credentials:
    endpoint, http = cluster.host.addresses["gateway"], f"http://{cluster.host.addresses['http']}"
    if "api_key" in saved:
        return Credentials(
            endpoint=endpoint,
            http=http,
            api_key=saved["api_key"],
            tenant_id=saved["tenant_id"],
            operator_key=operator_key,
        )
    operator = {"authorization": f"Bearer {operator_key}"}
    tenancy: Any = tenancy_pb2_grpc.TenancyServiceStub(cluster.host.channel("gateway"))
    auth: Any = auth_pb2_grpc.AuthServiceStub(cluster.host.channel("gateway"))
    organization = await tenancy.CreateOrganization(
        tenancy_pb2.CreateOrganizationRequest(
            organization=tenancy_pb2.Organization(display_name="Development", slug="development"),
            request_id="skein-up",
        ),
        metadata=operator,
    )
    tenant = await tenancy.CreateTenant(
        tenancy_pb2.CreateTenantRequest(
            tenant=tenancy_pb2.Tenant(
                organization_id=organization.organization.organization_id,
                display_name="Development",
                slug="development",
            ),
            request_id="skein-up",
        ),
        metadata=operator,
    )
    tenant_id = tenant.tenant.tenant_id
    key = await auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="skein up"),
        metadata={**operator, "skein-tenant-id": tenant_id},
    )
    return Credentials(endpoint=endpoint, http=http, api_key=key.secret, tenant_id=tenant_id, operator_key=operator_key)


def _make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def _system_key(path: Path) -> str:
    if not path.exists():
        _write_secret(path, secrets.token_urlsafe(48))
    return path.read_text("utf-8").strip()


def _read(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    values: dict[str, str] = json.loads(path.read_text("utf-8"))
    return values


def _write_secret(path: Path, text: str) -> None:
    temporary = path.with_suffix(".part")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _SECRET_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
