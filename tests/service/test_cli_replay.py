"""`skein replay`, and `skein receipts` of contexts: answers made again, and files that are verified offline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein
from fix_contexts import build_with_receipt, context_request, replay_context
from fix_receipts import recall_beside_a_purged_message, recall_with_receipt

from skein.memory.v1 import memory_pb2
from skein_cluster.cli.exit_codes import ExitCode


@pytest.fixture
async def environment(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    """Return the environment of a caller with the tenant's key; all answers have receipts."""
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}


async def change(tenant: Tenant, memory_id: str) -> None:
    memory = memory_pb2.Memory(memory_id=memory_id, content="The kettle was sold.")
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["content"]}))


@pytest.mark.system
async def test_replay_prints_the_text_of_a_context_and_the_hits_of_a_recall(
    tenant: Tenant, environment: dict[str, str]
) -> None:
    memory_id = await tenant.remember("The kettle is red.")
    request = context_request("the kettle")
    request.ClearField("session_id")
    context = await build_with_receipt(tenant, request)
    recall = await recall_with_receipt(tenant, "the kettle", min_relevance=0)
    await change(tenant, memory_id)

    of_context = await skein("replay", context.receipt_id, environment=environment)
    of_recall = await skein("replay", recall.receipt_id, environment=environment)
    packed = await skein("context", "the kettle", environment=environment)

    assert (of_context.code, of_context.out.rstrip("\n")) == (ExitCode.OK, context.text), of_context.err
    assert "The answer is the same." in of_context.err
    assert of_recall.code == ExitCode.OK
    assert "The kettle is red." in of_recall.out
    assert "Receipt " in packed.err


async def test_replay_says_why_an_answer_is_not_the_same(tenant: Tenant, environment: dict[str, str]) -> None:
    response = await recall_beside_a_purged_message(tenant)

    run = await skein("replay", response.receipt_id, environment=environment)

    assert run.code == ExitCode.REFUSED
    assert "missing: others_purged 1\n" in run.err
    assert "In the attic." in run.out


@pytest.mark.system
async def test_the_file_of_a_context_is_verified_offline_and_a_changed_one_is_not(
    tenant: Tenant, environment: dict[str, str], tmp_path: Path
) -> None:
    await tenant.remember("The kettle is red.")
    request = context_request("the kettle")
    request.ClearField("session_id")
    context = await build_with_receipt(tenant, request)
    await replay_context(tenant, context.receipt_id)
    file, keys = tmp_path / "receipt.json", tmp_path / "keys.json"
    await skein("receipts", "get", context.receipt_id, "--output", str(file), environment=environment)
    await skein("certificates", "keys", "--output", str(keys), environment=environment)

    async def verify() -> tuple[int, str]:
        run = await skein("receipts", "verify", str(file), "--keys", str(keys), environment=test_environment())
        return run.code, run.out + run.err

    code, text = await verify()
    assert (code, f"{context.token_count} tokens" in text) == (ExitCode.OK, True), text

    original = json.loads(file.read_text())
    for name, value in original["context"].items():
        changed = {**original["context"], name: ("B" if value[0] == "A" else "A") + value[1:]}
        file.write_text(json.dumps({**original, "context": changed}, separators=(",", ":"), sort_keys=True))
        code, text = await verify()
        assert code == ExitCode.REFUSED, name
        assert "context" in text
