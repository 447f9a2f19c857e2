"""Clients of the command: which cluster they call, and with which key."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from skein_client.client import Client
from skein_client.connection import CREDENTIALS_FILE, Connection, NotConfigured, data_dir, read_ca_file
from skein_client.errors import Unavailable
from skein_client.retry import RetryPolicy
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_kit.settings import Settings

# A person waits: calls are repeated while a cluster restarts, and a missing cluster is reported soon.
RETRIES = RetryPolicy(attempts=3)
TIMEOUT_SECONDS = 60.0


@asynccontextmanager
async def open_client(connection: Connection) -> AsyncIterator[Client]:
    """Open a client until the block ends; the first call connects. Raises CommandError when no cluster answers."""
    client = Client(
        endpoint=connection.endpoint,
        api_key=connection.api_key,
        tenant_id=connection.tenant_id,
        space_id=connection.space_id,
        timeout=connection.timeout,
        retries=connection.retries,
        ca_file=connection.ca_file,
    )
    async with client as api:
        try:
            yield api
        except Unavailable as error:
            if error.reason:
                raise
            message = (
                f"Nothing answers at {connection.endpoint}. Start a cluster with `skein up`, or set SKEIN_ENDPOINT to "
                "the address of one."
            )
            raise CommandError(message, ExitCode.UNREACHABLE) from error


@asynccontextmanager
async def as_tenant(environment: Mapping[str, str], *, space_id: str = "") -> AsyncIterator[Client]:
    """Call with the tenant's key: SKEIN_API_KEY, or the key of `skein up`. Raises NotConfigured.

    Calls act in the space `space_id`, else in SKEIN_SPACE_ID.
    """
    connection = Connection.from_environment(environment)
    connection = dataclasses.replace(connection, space_id=space_id or connection.space_id)
    async with open_client(dataclasses.replace(connection, timeout=TIMEOUT_SECONDS, retries=RETRIES)) as api:
        yield api


def operator_connection(environment: Mapping[str, str]) -> Connection:
    """Return the connection with SKEIN_OPERATOR_KEY, or with the key that `skein up` wrote. Raises NotConfigured."""
    path = data_dir(environment) / CREDENTIALS_FILE
    saved = read_credentials(path)
    endpoint = environment.get("SKEIN_ENDPOINT") or saved.get("endpoint", "127.0.0.1:50050")
    key = OperatorSettings.read(environment).operator_key
    if not key and endpoint == saved.get("endpoint"):
        key = saved.get("operator_key", "")
    if not key:
        raise NotConfigured(
            f"No operator key for {endpoint}: set SKEIN_OPERATOR_KEY (`skein bootstrap` creates the first one), or run "
            f"`skein up`, which writes {path}."
        )
    ca_file = read_ca_file(environment)
    return Connection(endpoint=endpoint, api_key=key, ca_file=ca_file, timeout=TIMEOUT_SECONDS, retries=RETRIES)


@asynccontextmanager
async def as_operator(environment: Mapping[str, str]) -> AsyncIterator[Client]:
    """Call with the operator's key. Raises NotConfigured."""
    async with open_client(operator_connection(environment)) as api:
        yield api


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorSettings(Settings):
    """Settings of the operator's commands."""

    # The operator's key, for `skein tenants`, `skein models` and `skein bench`; `skein bootstrap` creates one.
    operator_key: str = dataclasses.field(default="", repr=False)


def read_credentials(path: Path) -> dict[str, Any]:
    """Read a credentials.json; empty when there is none. Raises NotConfigured for one that cannot be read."""
    try:
        values = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise NotConfigured(
            f"{path} cannot be read ({error}); set SKEIN_ENDPOINT and a key instead, or remove it."
        ) from None
    return values if isinstance(values, dict) else {}
