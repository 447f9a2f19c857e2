"""The keys of a cluster on this machine: the system key, the operator's, and a development tenant's API key."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skein.auth.v1 import auth_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_client.connection import CREDENTIALS_FILE, Connection
from skein_client.errors import AlreadyExists, Unauthenticated
from skein_client.pages import items
from skein_cluster.calling import calling, read_credentials
from skein_kit.postgres import DataDirUnusable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from skein_cluster.calling import Api

NAME = "Development"
SLUG = "development"
_SECRET_MODE = 0o600


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """How to reach the cluster as the development tenant, and as the operator."""

    # "127.0.0.1:50050" or the like.
    endpoint: str
    # "http://127.0.0.1:8080" or the like.
    http: str
    api_key: str = dataclasses.field(repr=False)
    tenant_id: str
    operator_key: str = dataclasses.field(repr=False)


def make_private(data_dir: Path) -> None:
    """Make the data folder, for its owner alone, unless it exists. Raises DataDirUnusable."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise DataDirUnusable(data_dir, f"it cannot be made ({error.strerror}); use another data folder") from None
    if not os.access(data_dir, os.W_OK | os.X_OK):
        raise DataDirUnusable(data_dir, "it cannot be written; use another data folder")


def saved(data_dir: Path) -> dict[str, Any]:
    """Return what an earlier start wrote; empty before the first."""
    return read_credentials(data_dir / CREDENTIALS_FILE)


def save(data_dir: Path, credentials: Credentials) -> Path:
    """Write credentials.json, readable by its owner alone, and return its path."""
    path = data_dir / CREDENTIALS_FILE
    _write_secret(path, json.dumps(dataclasses.asdict(credentials), indent=2) + "\n")
    return path


def system_key(data_dir: Path) -> str:
    """Return the secret that services share with auth, made at the first start."""
    path = data_dir / "system.key"
    if not path.exists():
        _write_secret(path, secrets.token_urlsafe(48))
    return path.read_text("utf-8").strip()


async def development(addresses: Mapping[str, str], before: Mapping[str, Any], operator_key: str) -> Credentials:
    """Return credentials that work: those of an earlier start, or new ones for the development tenant.

    A start that was killed half-way, a removed credentials.json and a removed database all end here, so what exists
    already is found by its slug.
    """
    endpoint, http = reachable(addresses["gateway"]), f"http://{reachable(addresses['http'])}"
    tenant_id, api_key = str(before.get("tenant_id", "")), str(before.get("api_key", ""))
    if not (tenant_id and api_key and await _works(endpoint, api_key)):
        async with calling(Connection(endpoint=endpoint, api_key=operator_key)) as operator:
            tenant_id = await _tenant(operator, await _organization(operator))
        async with calling(Connection(endpoint=endpoint, api_key=operator_key, tenant_id=tenant_id)) as acting:
            made = await acting.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="skein up"))
        api_key = made.secret
    return Credentials(endpoint=endpoint, http=http, api_key=api_key, tenant_id=tenant_id, operator_key=operator_key)


def reachable(address: str) -> str:
    """Return the address at which something that listens on every interface can be called from here."""
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if host in {"0.0.0.0", "[::]", "::", ""} else address  # noqa: S104 - compared, not bound.


async def _works(endpoint: str, api_key: str) -> bool:
    async with calling(Connection(endpoint=endpoint, api_key=api_key)) as api:
        with suppress(Unauthenticated):
            await api.auth.GetMe(auth_pb2.GetMeRequest())
            return True
    return False


async def _organization(operator: Api) -> str:
    wanted = tenancy_pb2.Organization(display_name=NAME, slug=SLUG)
    try:
        made = await operator.tenancy.CreateOrganization(tenancy_pb2.CreateOrganizationRequest(organization=wanted))
    except AlreadyExists:
        request = tenancy_pb2.ListOrganizationsRequest(page_size=1000)
        async for organization in items(operator.tenancy.ListOrganizations, request, "organizations"):
            if organization.slug == SLUG:
                return str(organization.organization_id)
        raise
    return made.organization.organization_id


async def _tenant(operator: Api, organization_id: str) -> str:
    wanted = tenancy_pb2.Tenant(organization_id=organization_id, display_name=NAME, slug=SLUG)
    try:
        made = await operator.tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=wanted))
    except AlreadyExists:
        request = tenancy_pb2.ListTenantsRequest(page_size=1000, organization_id=organization_id)
        async for tenant in items(operator.tenancy.ListTenants, request, "tenants"):
            if tenant.slug == SLUG:
                return str(tenant.tenant_id)
        raise
    return made.tenant.tenant_id


def _write_secret(path: Path, text: str) -> None:
    temporary = path.with_suffix(".part")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _SECRET_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
