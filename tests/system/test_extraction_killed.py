"""Workers that are killed at any moment of an extraction lose no fact, and store none twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fix_attacks import attack_size
from fix_extraction import current, extract, facts, learning_tenant, say, settings_of
from google.protobuf.field_mask_pb2 import FieldMask

from skein.session.v1 import session_pb2

if TYPE_CHECKING:
    from fix_cluster import Cluster

# Twelve processes, one after another; fifty in `make soak`.
pytestmark = pytest.mark.timeout(600)

TESTS = Path(__file__).parents[1]
# Lease, retraction and write of the corrected message, two writes, completion: two moments each.
FEWEST = 12
MOMENTS = range(1, attack_size(FEWEST, 50) + 1)
# Each of these has two moments too.
BOXES = [f"Remember that box {number} has the cups" for number in range((len(MOMENTS) - FEWEST) // 2)]


async def test_a_worker_that_is_killed_at_any_moment_loses_nothing_and_doubles_nothing(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, "I live in Porto. Remember that the key lies under the mat.")
    await extract(cluster, tenant)
    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(
            message=session_pb2.Message(
                message_id=message.message_id, content="I live in Lisbon. Remember that the key lies in the shed."
            ),
            update_mask=FieldMask(paths=["content"]),
        )
    )
    await say(tenant, "I'm allergic to peanuts.", "Remember that the bins go out on Monday.", *BOXES)

    codes = []
    for moment in MOMENTS:
        job = {
            "values": settings_of(cluster),
            "addresses": cluster.addresses,
            "tenant_id": str(tenant.tenant_id),
            "moment": moment,
        }
        killed = await asyncio.create_subprocess_exec(
            sys.executable,
            str(TESTS / "system/killed_extraction.py"),
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        await killed.communicate(json.dumps(job).encode())
        codes.append(killed.returncode)
        async with cluster.superuser() as connection:
            # As if the minute of the lease was over.
            await connection.execute(
                "UPDATE session.extractions SET lease_end_time = now() WHERE tenant_id = $1", tenant.tenant_id
            )
    await extract(cluster, tenant)

    # The last one was killed after the completion.
    assert codes == [-signal.SIGKILL] * len(MOMENTS)
    assert len(await facts(tenant)) == 2 + 4 + len(BOXES)
    assert sorted(set(await current(tenant)) - set(BOXES)) == [
        "I live in Lisbon",
        "I'm allergic to peanuts",
        "Remember that the bins go out on Monday",
        "Remember that the key lies in the shed",
    ]
