from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from fix_cluster import test_environment
from fix_command import all_gone, skein

from skein_cluster import registry
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.processes.multi_process import multi_process_cluster, watch_exits

pytestmark = pytest.mark.timeout(240)


async def test_a_cluster_of_processes_answers_tells_which_one_ended_and_leaves_none(tmp_path: Path) -> None:
    async with multi_process_cluster(tmp_path, environment=test_environment(), durable=False) as cluster:
        client = {**test_environment(), "SKEIN_DATA_DIR": str(tmp_path)}
        added = await skein("memories", "add", "The gate code is 4711", "--external-id", "gate", environment=client)
        recalled = await skein("recall", "gate code", "--json", environment=client)
        os.kill(cluster.processes["worker"], signal.SIGKILL)
        first_ended = await anext(watch_exits(cluster))
        os.kill(cluster.processes["auth"], signal.SIGKILL)
        async for name in watch_exits(cluster):
            if name == "auth":
                break
        # No caller is known any more once the gateway's cache has forgotten this one.
        while (shown := await skein("status", "--json", environment=client)).json["services"]:
            assert shown.code == ExitCode.REFUSED
        table = await skein("status", environment=client)

    assert added.code == ExitCode.OK, added.err
    assert recalled.json["hits"][0]["memory"]["external_id"] == "gate"
    assert set(cluster.processes) == set(cluster.admins) == set(registry.NAMES)
    assert len(set(cluster.processes.values())) == len(registry.NAMES)
    assert first_ended == "worker"
    assert shown.code == table.code == ExitCode.REFUSED
    states = {one["name"]: one["ready"] for one in shown.json["processes"]}
    assert (states["auth"], states["session"]) == (False, True)
    assert shown.json["error"]
    auth = next(line for line in table.out.splitlines() if line.strip().startswith("auth "))
    assert "does not answer" in auth
    assert "does not answer for itself" in table.err
    assert await all_gone({*cluster.processes.values(), cluster.postgres.pid})


async def test_a_process_that_cannot_start_ends_the_others_and_is_quoted(tmp_path: Path) -> None:
    environment = {**test_environment(), "SKEIN_SYSTEM_KEY": "too short"}

    # Two services need the key; the one that ends first is quoted.
    with pytest.raises(
        CommandError, match=r"^(auth|worker) ended with 3\. SKEIN_SYSTEM_KEY (needs|should hold) at least"
    ):
        async with multi_process_cluster(tmp_path, environment=environment, durable=False):
            pass
