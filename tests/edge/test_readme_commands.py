"""The commands that README.md shows are run, with the cluster's own address and key."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path

import pytest
from fix_cluster import Cluster, Tenant

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)


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


@pytest.mark.parametrize("named_by", ["SKEIN_DATA_DIR", "XDG_DATA_HOME", "HOME"])
async def test_the_key_is_read_from_the_data_folder_wherever_that_is(tmp_path: Path, named_by: str) -> None:
    (line,) = (line for line in BLOCKS[0].splitlines() if line.startswith("KEY="))
    home = tmp_path / "a home"
    folders = {
        "SKEIN_DATA_DIR": home,
        "XDG_DATA_HOME": home / "skein",
        "HOME": home / ".local" / "share" / "skein",
    }
    folders[named_by].mkdir(parents=True)
    credentials = {"endpoint": "127.0.0.1:50050", "api_key": "skein_of_this_folder", "operator_key": "another"}
    (folders[named_by] / "credentials.json").write_text(json.dumps(credentials, indent=2) + "\n", "utf-8")
    environment = {"PATH": os.environ["PATH"], named_by: str(home)}

    process = await asyncio.create_subprocess_exec(
        *("bash", "-euc", f'{line}; echo "$KEY"'), env=environment, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()

    assert out.decode().strip() == "skein_of_this_folder"


async def test_the_python_block_runs_as_printed_and_shows_memories_and_messages(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "credentials.json").write_text(
        json.dumps({"endpoint": cluster.endpoint, "api_key": tenant.api_key}), "utf-8"
    )

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", block),
        env={"PATH": os.environ["PATH"], "SKEIN_DATA_DIR": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    hits = {line[5:] for line in out.decode().splitlines() if re.match(r"\d\.\d\d ", line)}
    assert hits == {"Anna prefers tea to coffee", "Anna takes her tea with lemon"}
    assert "- [1] " in out.decode()


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
