"""The commands that README.md shows are run, with the cluster's own address and key."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from fix_cluster import Cluster, Tenant

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)


async def run(script: str, cluster: Cluster, tenant: Tenant) -> str:
    """Run lines of shell in the clone; return what they print."""
    script = re.sub(r"^KEY=\$\(sed .*$", f"KEY={tenant.api_key}", script, flags=re.MULTILINE)
    for shown, real in (("127.0.0.1:50050", cluster.endpoint), ("127.0.0.1:8080", cluster.addresses["http"])):
        script = script.replace(shown, real)
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euc", script), cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


def test_there_are_commands_to_run() -> None:
    assert len(BLOCKS) == 4


async def test_what_buf_remembers_buf_recalls(cluster: Cluster, tenant: Tenant) -> None:
    block = BLOCKS[0]

    printed = await run(block, cluster, tenant)

    remembered, recalled = (json.loads(each) for each in re.split(r"(?<=\n\})\n", printed.strip()))
    (hit,) = recalled["hits"]
    assert hit["memory"]["memoryId"] == remembered["memories"][0]["memoryId"]


async def test_what_a_token_of_a_service_account_is_good_for(cluster: Cluster, tenant: Tenant) -> None:
    (block,) = (block for block in BLOCKS if "client_credentials" in block)
    # How to call is said once, in the first block.
    helpers = BLOCKS[0].partition("\n\n")[0]

    printed = await run(f"{helpers}\n{block}", cluster, tenant)

    me, recalled = (json.loads(each) for each in re.split(r"(?<=\n\})\n", printed.strip()))
    assert (me["principal"].split(":")[0], me["permissions"]) == ("service_account", ["recall.read"])
    assert {arm["state"] for arm in recalled["arms"]} == {"ARM_STATE_OK"}


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.startswith("curl http")])
async def test_what_curl_asks_is_answered(cluster: Cluster, tenant: Tenant, block: str) -> None:
    printed = await run(
        f"KEY={tenant.api_key}\n{block.replace('curl ', 'curl --silent --fail-with-body ')}", cluster, tenant
    )

    assert {arm["state"] for arm in json.loads(printed)["arms"]} == {"ARM_STATE_OK"}


async def test_what_buf_says_in_connect_is_stored_and_listed(cluster: Cluster, tenant: Tenant) -> None:
    (block,) = (block for block in BLOCKS if block.startswith("connect()"))

    printed = await run(f"KEY={tenant.api_key}\n{block}", cluster, tenant)

    created, listed = (json.loads(each) for each in re.split(r"(?<=\n\})\n", printed.strip()))
    (memory,) = listed["memories"]
    assert memory["memoryId"] == created["memory"]["memoryId"]
