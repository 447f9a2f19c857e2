"""Which test modules the workers of pytest-xdist begin with: the slow ones.

With --dist worksteal each worker gets an equal part of the list, and a worker without tests takes half of what another
has left. So each part begins with its share of the slow modules: late in a part, one would run alone at the end, or be
halved, and then two workers make its fixtures. With --dist loadfile the slow modules are simply the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import pytest

T = TypeVar("T")
# Those that take twenty seconds or more, the slowest first, as `--durations=0` shows them.
SLOW = (
    "tests/system/test_fleet.py",
    "tests/system/test_several.py",
    "tests/system/test_backup_command.py",
    "tests/system/test_up.py",
    "tests/system/test_context_replay.py",
    "tests/system/test_pending_vectors.py",
    "tests/system/test_recall_words_held.py",
    "tests/system/test_models_online.py",
    "tests/system/test_models_endpoint.py",
    "tests/system/test_postgres.py",
    "tests/service/test_auth_exchange_people.py",
    "tests/system/test_up_shared_ports.py",
    "tests/system/test_observability.py",
    "tests/system/test_layers.py",
    "tests/system/test_session_cold_purging.py",
    "tests/system/test_faults_network.py",
    "tests/service/test_isolation.py",
    "tests/system/test_external_database.py",
    "tests/system/test_streams.py",
    "tests/system/test_floods.py",
    "tests/system/test_recall_plan.py",
    "tests/service/test_tenant_deletion.py",
    "tests/service/test_recall_held.py",
    "tests/service/test_webhooks.py",
    "tests/unit/test_embedder.py",
    "tests/unit/test_ranking.py",
    "tests/system/test_faults_postgres.py",
    "tests/system/test_backup.py",
    "tests/system/test_up_tls.py",
    "tests/service/test_memory_order.py",
    "tests/system/test_up_processes.py",
    "tests/service/test_pc2.py",
    "tests/service/test_recall_replay_changes.py",
    "tests/service/test_recall_as_of.py",
    "tests/system/test_identities.py",
    "tests/service/test_console_pages.py",
    "tests/attacks/test_fuzzed_messages.py",
    "tests/service/test_cli_hooks.py",
    "tests/system/test_faults_disk.py",
    "tests/service/test_langgraph.py",
    "tests/schema/test_no_scans.py",
    "tests/service/test_memory_as_of.py",
    "tests/service/test_openapi.py",
    "tests/service/test_access_log.py",
    "tests/service/test_session_erasure.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put slow modules first where there are several workers."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        modules: dict[str, list[pytest.Item]] = {}
        for item in items:
            modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
        parts = worker["workercount"] if config.getoption("dist") == "worksteal" else 1
        items[:] = ordered(modules, SLOW, parts)


def ordered(modules: Mapping[str, list[T]], slow: Iterable[str], parts: int) -> list[T]:
    """Return the items of all modules so that each of so many equal parts begins with whole slow modules.

    The slow modules are dealt out in their order, those that are not there left out; the others stay in theirs.
    """
    dealt = [name for name in slow if name in modules]
    heads = [[item for name in dealt[part::parts] for item in modules[name]] for part in range(parts)]
    rest = [item for name, module in modules.items() if name not in dealt for item in module]
    total = sum(map(len, modules.values()))
    result: list[T] = []
    for part, head in enumerate(heads):
        # As xdist cuts the list.
        size = (total - len(result)) // (parts - part)
        room = max(size - len(head), 0)
        result += head + rest[:room]
        del rest[:room]
    return result + rest
