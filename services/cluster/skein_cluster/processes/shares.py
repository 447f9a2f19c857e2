"""The share of each of several processes of one machine: connections of Postgres, memory, threads. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from skein_auth.settings import AuthSettings
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.config.database_check import max_connections
from skein_cluster.embedded.server_settings import MAX_CONNECTIONS
from skein_recall.settings import RecallSettings

# Services that run in every process, and those that run once: pc2's ZeroMQ ports cannot be shared.
REPLICATED = ("auth", "tenancy", "session", "memory", "recall", "gateway")
SINGLE = ("worker", "pc2")
# Postgres' superuser_reserved_connections, and connections for backups and operators.
_SPARE_CONNECTIONS = 3 + 10


def check_connections(processes: int, pool_size: int) -> None:
    """Raise CommandError when the pools of this many processes exceed the embedded Postgres' connections."""
    available = MAX_CONNECTIONS - _SPARE_CONNECTIONS
    needed = _needed_connections(processes, pool_size)
    if needed <= available:
        return
    fitting = [size for size in range(1, pool_size) if _needed_connections(processes, size) <= available]
    remedy = (
        f"Set SKEIN_POOL_SIZE to {fitting[-1]} or less, or run fewer processes" if fitting else "Run fewer processes"
    )
    raise CommandError(
        f"{processes} processes with SKEIN_POOL_SIZE={pool_size} may open {needed} connections, and the embedded "
        f"Postgres has {available} for them. {remedy}.",
        ExitCode.CANNOT_START,
    )


def divided_settings(environment: Mapping[str, str], processes: int) -> dict[str, str]:
    """Return the settings of each process that divide memory and threads among them. Raises SettingInvalid."""
    recall, auth = RecallSettings.read(environment), AuthSettings.read(environment)
    return {
        # 0 stays 0: no cache.
        "SKEIN_RECALL_HELD_MEGABYTES": str(-(-recall.held_megabytes // processes)),
        "SKEIN_RECALL_HELD_WORD_MEGABYTES": str(-(-recall.held_word_megabytes // processes)),
        "SKEIN_RECALL_EMBEDDER_THREADS": str(max(1, recall.embedder_threads // processes)),
        "SKEIN_RECALL_EMBEDDER_BULK_THREADS": str(max(1, recall.embedder_bulk_threads // processes)),
        "SKEIN_PASSWORD_HASH_THREADS": str(max(1, auth.password_hash_threads // processes)),
    }


def _needed_connections(processes: int, pool_size: int) -> int:
    return processes * max_connections(REPLICATED, pool_size) + max_connections(SINGLE, pool_size)
