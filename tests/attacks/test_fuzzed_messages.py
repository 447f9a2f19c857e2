"""Messages of any kind to every public RPC.

Attack: valid requests with odd values in some fields, and bytes that are no message, as tenant, viewer and stranger.
May be seen: an answer, or a refusal with a documented status and reason; nothing of another tenant.
May be spent: no row of another tenant changes, and the cluster serves as before.
"""

from __future__ import annotations

import asyncio
import json
import os
import zlib
from pathlib import Path

import pytest
from fix_attacks import attack_size
from fix_cluster import Cluster, until_all_serve
from fix_fuzzing import CORPUS, Fuzzer

from skein.memory.v1 import memory_pb2
from skein_gateway.public_methods import PUBLIC_METHODS

# Another seed makes other messages.
SEED = int(os.environ.get("SKEIN_ATTACKS_SEED", "0"))
# Some of the calls of one RPC are made at once, and so meet one another.
AT_ONCE = 8


@pytest.fixture(scope="module")
async def fuzzer(cluster: Cluster) -> Fuzzer:
    return await Fuzzer.create(cluster)


@pytest.mark.system
@pytest.mark.essential
@pytest.mark.timeout(3600)
async def test_no_message_finds_a_defect_or_anything_of_another_tenant(cluster: Cluster, fuzzer: Fuzzer) -> None:
    await fuzzer.finish_rescores()
    before = await fuzzer.victims_rows()

    faults: list[str] = []
    for path in PUBLIC_METHODS:
        number = SEED + zlib.crc32(path.encode())
        attempts = await fuzzer.attempts(path, attack_size(1, 60), number)
        attempts += await fuzzer.extreme_attempts(path, attack_size(0, 200), number)
        for first in range(0, len(attempts), AT_ONCE):
            faults += filter(None, await asyncio.gather(*map(fuzzer.fault, attempts[first : first + AT_ONCE])))
        await fuzzer.renew(path)

    assert faults == []
    assert await fuzzer.victims_rows() == before
    await until_all_serve(cluster.operator.gateway)
    tenant = await cluster.new_tenant()
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="kettle")))


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.json")), ids=lambda file: file.stem)
async def test_messages_that_once_failed_fail_no_more(fuzzer: Fuzzer, file: Path) -> None:
    payload = json.loads(file.read_text("utf-8"))
    if "before" in payload:
        assert await fuzzer.fault(await fuzzer.recorded(payload["before"])) == ""
    attempt = await fuzzer.recorded(payload)

    faults = await asyncio.gather(*(fuzzer.fault(attempt) for _ in range(payload.get("at_once", 1))))

    assert [fault for fault in faults if fault] == []
