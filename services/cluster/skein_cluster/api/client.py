"""Calls of the command to a cluster: which one, with which key, and every public service's stub."""

from __future__ import annotations

import dataclasses
import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from grpc import aio

from skein.auth.v1 import auth_pb2_grpc
from skein.gateway.v1 import gateway_pb2_grpc
from skein.memory.v1 import blocks_pb2_grpc, curation_pb2_grpc, history_pb2_grpc, memory_pb2_grpc, snapshots_pb2_grpc
from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_client.channels import AsyncChannel, async_channel
from skein_client.connection import CREDENTIALS_FILE, Connection, NotConfigured, data_dir, read_ca_file
from skein_client.errors import Unavailable
from skein_client.retry import RetryPolicy
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_kit.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

# A person waits: a cluster that restarts is tried again, one that is not there is reported soon.
RETRIES = RetryPolicy(attempts=3)


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterClient:
    """The public services of a cluster, called with one credential. Refusals are raised as skein_client's errors."""

    channel: aio.Channel
    connection: Connection

    @property
    def auth(self) -> auth_pb2_grpc.AuthServiceAsyncStub:
        """API keys."""
        return auth_pb2_grpc.AuthServiceStub(self.channel)

    @property
    def tenancy(self) -> tenancy_pb2_grpc.TenancyServiceAsyncStub:
        """Organizations, tenants, agents."""
        return tenancy_pb2_grpc.TenancyServiceStub(self.channel)

    @property
    def sessions(self) -> session_pb2_grpc.SessionServiceAsyncStub:
        """Sessions and messages."""
        return session_pb2_grpc.SessionServiceStub(self.channel)

    @property
    def memories(self) -> memory_pb2_grpc.MemoryServiceAsyncStub:
        """Memories."""
        return memory_pb2_grpc.MemoryServiceStub(self.channel)

    @property
    def history(self) -> history_pb2_grpc.HistoryServiceAsyncStub:
        """What happened, who saw it, and what lies in cold storage."""
        return history_pb2_grpc.HistoryServiceStub(self.channel)

    @property
    def links(self) -> memory_pb2_grpc.LinkServiceAsyncStub:
        """Links between memories."""
        return memory_pb2_grpc.LinkServiceStub(self.channel)

    @property
    def blocks(self) -> blocks_pb2_grpc.BlockServiceAsyncStub:
        """Core memory: the texts that agents carry in every prompt."""
        return blocks_pb2_grpc.BlockServiceStub(self.channel)

    @property
    def curation(self) -> curation_pb2_grpc.CurationServiceAsyncStub:
        """Conflicts, aliases, trust in sources."""
        return curation_pb2_grpc.CurationServiceStub(self.channel)

    @property
    def recall(self) -> recall_pb2_grpc.RecallServiceAsyncStub:
        """The search service by itself, and its models."""
        return recall_pb2_grpc.RecallServiceStub(self.channel)

    @property
    def snapshots(self) -> snapshots_pb2_grpc.SnapshotServiceAsyncStub:
        """Copies of a whole memory, export and import."""
        return snapshots_pb2_grpc.SnapshotServiceStub(self.channel)

    @property
    def gateway(self) -> gateway_pb2_grpc.GatewayServiceAsyncStub:
        """Remember, recall, status."""
        return gateway_pb2_grpc.GatewayServiceStub(self.channel)


@asynccontextmanager
async def open_client(connection: Connection) -> AsyncIterator[ClusterClient]:
    """Open a channel until the block ends; the first call connects."""
    async with async_channel(connection) as channel:
        api = ClusterClient(channel=cast("aio.Channel", AsyncChannel(channel, connection)), connection=connection)
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
async def as_tenant(environment: Mapping[str, str]) -> AsyncIterator[ClusterClient]:
    """Call with the tenant's key: SKEIN_API_KEY, or the one that `skein up` wrote. Raises NotConfigured."""
    connection = Connection.from_environment(environment)
    async with open_client(dataclasses.replace(connection, timeout=60.0, retries=RETRIES)) as api:
        yield api


@asynccontextmanager
async def as_operator(environment: Mapping[str, str]) -> AsyncIterator[ClusterClient]:
    """Call with the operator's key: SKEIN_OPERATOR_KEY, or the one that `skein up` wrote. Raises NotConfigured."""
    path = data_dir(environment) / CREDENTIALS_FILE
    saved = read_credentials(path)
    endpoint = environment.get("SKEIN_ENDPOINT") or saved.get("endpoint", "127.0.0.1:50050")
    key = OperatorSettings.read(environment).operator_key
    if not key and endpoint == saved.get("endpoint"):
        key = saved.get("operator_key", "")
    if not key:
        message = (
            f"No operator key for {endpoint}: set SKEIN_OPERATOR_KEY (`skein bootstrap` makes the first one), or run "
            f"`skein up`, which writes {path}."
        )
        raise NotConfigured(message)
    connection = Connection(endpoint=endpoint, api_key=key, ca_file=read_ca_file(environment))
    async with open_client(dataclasses.replace(connection, timeout=60.0, retries=RETRIES)) as api:
        yield api


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorSettings(Settings):
    """What an operator's commands are told."""

    # The operator's key, for `skein tenants`, `skein models` and `skein bench`; `skein bootstrap` makes one.
    operator_key: str = dataclasses.field(default="", repr=False)


def read_credentials(path: Path) -> dict[str, Any]:
    """Read a credentials.json; empty when there is none. Raises NotConfigured for one that cannot be read."""
    try:
        values = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        message = f"{path} cannot be read ({error}); set SKEIN_ENDPOINT and a key instead, or remove it."
        raise NotConfigured(message) from None
    return values if isinstance(values, dict) else {}
