"""Workers that are killed at any moment of an extraction lose no fact, and store none twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant
from fix_extraction import current, extract, facts, jobs_of, learning_tenant, say, settings_of
from fix_language_model import CELLO, running_language_model
from fix_language_model import facts as proposals
from google.protobuf.field_mask_pb2 import FieldMask

from skein.session.v1 import session_pb2

# Twelve and fourteen processes, one after another; fifty each in `make soak`.
pytestmark = pytest.mark.timeout(attack_size(600, 3600))

TESTS = Path(__file__).parents[1]
# Lease, retraction and write of the corrected message, two writes, completion: two moments each.
FEWEST = 12
MOMENTS = range(1, attack_size(FEWEST, 50) + 1)
# Each of these has two moments too.
BOXES = [f"Remember that box {number} has the cups" for number in range((len(MOMENTS) - FEWEST) // 2)]


# By rules: the write and the completion. By the model, whose lease begins anew each time: the permission to send a
# message, the model's answer, its write, what was refused, the second message, and the completion.
MOMENTS_WITH_A_MODEL = (3, 4, 5, 6, 5, 6, 7, 8, 9, 10, 11, 12, 18, 19)
# Before each of the further ones, up to fifty in all, another message comes.
FURTHER_MOMENTS = tuple(3 + number % 14 for number in range(attack_size(0, 50 - len(MOMENTS_WITH_A_MODEL))))


async def kill(cluster: Cluster, tenant: Tenant, moment: int, model: str = "") -> int | None:
    """Run a worker that kills itself at a moment; return its exit code."""
    job = {
        "values": settings_of(cluster),
        "addresses": cluster.addresses,
        "tenant_id": str(tenant.tenant_id),
        "moment": moment,
        "model": model,
    }
    killed = await asyncio.create_subprocess_exec(
        sys.executable,
        str(TESTS / "system/killed_extraction.py"),
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    await killed.communicate(json.dumps(job).encode())
    async with cluster.superuser() as connection:
        # As if the time of the leases was over.
        for statement in (
            "UPDATE session.extractions SET lease_end_time = now() WHERE tenant_id = $1",
            "UPDATE session.extraction_messages SET retry_time = now() WHERE tenant_id = $1 AND kind = 'model'",
        ):
            await connection.execute(statement, tenant.tenant_id)
    return killed.returncode


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

    codes = [await kill(cluster, tenant, moment) for moment in MOMENTS]
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


async def test_a_worker_with_a_model_that_answers_otherwise_each_time_loses_and_doubles_nothing(
    cluster: Cluster,
) -> None:
    both = "I live in Porto. I collect old maps."
    further = [f"I keep the tin with number {number} under my bed." for number in range(len(FURTHER_MOMENTS))]
    async with running_language_model() as model:
        tenant = await learning_tenant(cluster, extraction="model", extraction_messages=2)
        # The answer to a repetition differs from the first one.
        invented = {"quote": "I own a yacht"}
        model.says(CELLO, *[proposals({"quote": CELLO}, invented), proposals(invented, {"quote": CELLO})] * 20)
        maps = {"quote": "I collect old maps."}
        model.says(both, *[proposals(maps), proposals({**maps, "type": "note"})] * 20)
        await say(tenant, CELLO, both)

        codes = [await kill(cluster, tenant, moment, model.url) for moment in MOMENTS_WITH_A_MODEL]
        for text, moment in zip(further, FURTHER_MOMENTS, strict=True):
            model.says(text, *[proposals({"quote": text}, invented), proposals(invented, {"quote": text})] * 20)
            await say(tenant, text, "Good morning.")
            codes.append(await kill(cluster, tenant, moment, model.url))
        jobs = jobs_of(settings_of(cluster), cluster.addresses, model=model.fact_model())
        await jobs.read_all(str(tenant.tenant_id))

    assert codes == [-signal.SIGKILL] * (len(MOMENTS_WITH_A_MODEL) + len(FURTHER_MOMENTS))
    expected = ["I collect old maps", "I live in Porto", "I play the cello in a quartet", *further]
    assert sorted(await current(tenant)) == sorted(text.removesuffix(".") for text in expected)
    assert len(await facts(tenant)) == len(expected)
