"""schemathesis, a fuzzer that others wrote, asks a cluster for all that its /openapi.json describes.

Attack: valid and invalid bodies and headers for each method, with a tenant's key, a person's sign-in and no credential.
May be seen: what the document says of the method, and no failure of the server.
May be spent: the cluster serves as before.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import httpx
import pytest
from fix_attacks import attack_size
from fix_cluster import Cluster, until_all_serve
from fix_fuzzing import NAMED
from fix_world import World

from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit.identity.permissions import ACCESS_RULES, ACCOUNT

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".edge/schemathesis/bin/schemathesis"
CONFIGURATION = Path(__file__).with_name("openapi") / "schemathesis.toml"
# Another seed makes other calls.
SEED = os.environ.get("SKEIN_ATTACKS_SEED", "1")
PHASES = ("examples,fuzzing", "examples,coverage,fuzzing,stateful")
# They end the session that they are called with.
ENDING = {"SignOut", "ChangePassword", "DeactivateMe", "DeleteMe", "RevokeAuthSession", "LeaveTenant"}


async def fuzz(cluster: Cluster, world: World, credential: str, *options: str, examples: int) -> str:
    """Run schemathesis until it has made that many calls of each kind to each method; return what it printed."""
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM.relative_to(ROOT)} is missing; run these tests with: make test-edge")
    things = {name: await world.thing(name) for name in NAMED}
    names = {re.sub(r"_(\w)", lambda part: part[1].upper(), name): thing for name, thing in things.items()}
    settings = {
        "SKEIN_CREDENTIAL": credential,
        "SKEIN_THINGS": json.dumps(names),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(PROGRAM.parents[1] / "hypothesis"),
    }
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM),
        *("--config-file", str(CONFIGURATION), "run", f"http://{cluster.addresses['http']}/openapi.json"),
        *("--phases", PHASES[attack_size(0, 1)], "--max-examples", str(examples), "--seed", SEED),
        *("--workers", "2", "--no-color", *options),
        cwd=CONFIGURATION.parent,
        env={**os.environ, **settings},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        printed = (await process.communicate())[0].decode()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, printed[-20_000:]
    return printed


def called_count(printed: str) -> int:
    """Return how many methods were called."""
    items = re.search(r"^\s+Tested: (\d+)", printed, re.MULTILINE)
    assert items is not None, printed
    return int(items[1])


@pytest.mark.timeout(7200)
async def test_no_call_with_a_tenants_key_gets_an_answer_beyond_the_document(cluster: Cluster) -> None:
    world = await World.new(cluster)
    async with httpx.AsyncClient(base_url=f"http://{cluster.addresses['http']}", trust_env=False, timeout=60) as http:
        paths = (await http.get("/openapi.json")).json()["paths"]

    printed = await fuzz(cluster, world, world.tenant.api_key, examples=attack_size(3, 100))

    assert called_count(printed) == len(paths)
    await until_all_serve(cluster.operator.gateway)


@pytest.mark.timeout(7200)
async def test_no_call_of_a_person_gets_an_answer_beyond_the_document(cluster: Cluster) -> None:
    world = await World.new(cluster)
    own = [path for path in PUBLIC_METHODS if ACCESS_RULES[path].permission == ACCOUNT]
    paths = [path for path in own if path.rpartition("/")[2] not in ENDING]
    chosen = [option for path in paths for option in ("--include-path", path)]

    printed = await fuzz(cluster, world, (await world.owner()).access_token, *chosen, examples=attack_size(5, 100))

    assert called_count(printed) == len(paths)
    await until_all_serve(cluster.operator.gateway)
