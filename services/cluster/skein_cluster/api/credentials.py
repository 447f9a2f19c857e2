"""The keys of a cluster on this machine: the system key, the operator's, and a development tenant's API key."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skein.auth.v1 import auth_pb2
from skein_auth.api_keys.model import PREFIX, ApiKeyToken
from skein_client.connection import CREDENTIALS_FILE, Connection, data_dir, read_ca_file
from skein_client.errors import Unauthenticated
from skein_cluster.api.client import open_client, read_credentials
from skein_cluster.api.tenants import ensure_tenant
from skein_cluster.embedded.errors import DataDirUnusable
from skein_importers.organizations import ensure_organization

DEVELOPMENT_NAME = "Development"
DEVELOPMENT_SLUG = "development"
_SECRET_MODE = 0o600


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """How to reach the cluster as the development tenant, and as the operator."""

    # Such as "127.0.0.1:50050".
    endpoint: str
    # Such as "http://127.0.0.1:8080".
    http: str
    api_key: str = dataclasses.field(repr=False)
    tenant_id: str
    operator_key: str = dataclasses.field(repr=False)
    # "127.0.0.1:9451" of /metrics and /readyz by process, for a cluster of `skein up`.
    processes: Mapping[str, str] = dataclasses.field(default_factory=dict)


def make_private(data_dir: Path) -> None:
    """Create the data folder, readable by its owner only, unless it exists. Raises DataDirUnusable.

    For root it can be passed through, though not listed: Postgres runs as another user, and lies in it.
    """
    is_root = os.geteuid() == 0
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o711 if is_root else 0o700)
        if is_root and not os.path.lexists(data_dir / "postgres"):
            data_dir.chmod(data_dir.stat().st_mode | 0o011)
    except OSError as error:
        raise DataDirUnusable(data_dir, f"it cannot be created ({error.strerror}); use another data folder") from None
    if not os.access(data_dir, os.W_OK | os.X_OK):
        raise DataDirUnusable(data_dir, "it cannot be written; use another data folder")


def load_credentials(data_dir: Path) -> dict[str, Any]:
    """Return the credentials of an earlier start; empty earlier_values the first."""
    return read_credentials(data_dir / CREDENTIALS_FILE)


def save_credentials(data_dir: Path, credentials: Credentials) -> Path:
    """Write credentials.json, readable only by its owner, and return its path."""
    path = data_dir / CREDENTIALS_FILE
    _write_secret(path, json.dumps(dataclasses.asdict(credentials), indent=2) + "\n")
    return path


def replace_key(environment: Mapping[str, str], api_key_id: str, secret: str) -> Path | None:
    """Replace a rotated key in credentials.json; return its path, or None when the key is not in it."""
    path = data_dir(environment) / CREDENTIALS_FILE
    values = read_credentials(path)
    old = ApiKeyToken.decode(PREFIX, str(values.get("api_key", "")))
    if not secret or old is None or str(old.token_id) != api_key_id:
        return None
    _write_secret(path, json.dumps({**values, "api_key": secret}, indent=2) + "\n")
    return path


def system_key(data_dir: Path) -> str:
    """Return the secret that services share with auth, created at the first start."""
    path = data_dir / "system.key"
    if not path.exists():
        _write_secret(path, secrets.token_urlsafe(48))
    return path.read_text("utf-8").strip()


def master_key(data_dir: Path) -> str:
    """Return the key that encrypts tenants' secrets, created at the first start."""
    path = data_dir / "master.key"
    if not path.exists():
        _write_secret(path, secrets.token_hex(32))
    return path.read_text("utf-8").strip()


async def ensure_development_credentials(
    addresses: Mapping[str, str], earlier_values: Mapping[str, Any], operator_key: str, environment: Mapping[str, str]
) -> Credentials:
    """Return valid credentials of an earlier start, or new ones for the development tenant.

    Existing rows are found by slug: a killed start, a removed credentials.json or database also lead here.
    """
    is_secure = bool(environment.get("SKEIN_TLS_CERTIFICATE"))
    grpc_scheme, http_scheme = ("https://", "https://") if is_secure else ("", "http://")
    endpoint = f"{grpc_scheme}{reachable_address(addresses['gateway'])}"
    http = f"{http_scheme}{reachable_address(addresses['http'])}"
    base = Connection(endpoint=endpoint, api_key=operator_key, ca_file=read_ca_file(environment))
    tenant_id, api_key = str(earlier_values.get("tenant_id", "")), str(earlier_values.get("api_key", ""))
    if not (tenant_id and api_key and await _is_valid(dataclasses.replace(base, api_key=api_key))):
        async with open_client(base) as operator:
            organization_id = await ensure_organization(operator, DEVELOPMENT_NAME, DEVELOPMENT_SLUG)
            tenant_id = await ensure_tenant(operator, organization_id, DEVELOPMENT_NAME, DEVELOPMENT_SLUG)
        async with open_client(dataclasses.replace(base, tenant_id=tenant_id)) as tenant_client:
            created = await tenant_client.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="skein up"))
        api_key = created.secret
    return Credentials(endpoint=endpoint, http=http, api_key=api_key, tenant_id=tenant_id, operator_key=operator_key)


def reachable_address(address: str) -> str:
    """Return an address for local calls to a server that may listen on every interface."""
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if host in {"0.0.0.0", "[::]", "::", ""} else address  # noqa: S104 - compared, not bound.


async def _is_valid(connection: Connection) -> bool:
    async with open_client(connection) as api:
        with suppress(Unauthenticated):
            await api.auth.GetMe(auth_pb2.GetMeRequest())
            return True
    return False


def _write_secret(path: Path, text: str) -> None:
    temporary = path.with_suffix(".part")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _SECRET_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
