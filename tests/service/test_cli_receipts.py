"""`skein receipts`: list, save, verify offline, replay, compare."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein
from fix_receipts import get_receipt, recall_with_receipt

from skein.memory.v1 import memory_pb2
from skein_cluster.cli.exit_codes import ExitCode
from skein_kit.ids import now


@pytest.fixture
def environment(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    """Return the environment of a caller with the tenant's key."""
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}


@pytest.mark.system
async def test_a_saved_receipt_is_verified_without_a_cluster(
    tenant: Tenant, environment: dict[str, str], tmp_path: Path
) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await tenant.remember("The kettle is red.")
    response = await recall_with_receipt(tenant, "which colour has the kettle?")
    file, keys = tmp_path / "receipt.json", tmp_path / "keys.json"

    got = await skein("receipts", "get", response.receipt_id, "--output", str(file), environment=environment)
    listed = await skein("certificates", "keys", "--output", str(keys), environment=environment)
    assert (got.code, listed.code) == (ExitCode.OK, ExitCode.OK), (got.err, listed.err)
    offline = test_environment()
    valid = await skein("receipts", "verify", str(file), "--keys", str(keys), environment=offline)
    as_json = await skein("receipts", "verify", str(file), "--keys", str(keys), "--json", environment=offline)

    assert valid.code == ExitCode.OK, valid.err
    assert response.receipt_id in valid.out
    assert response.formula in valid.out
    assert as_json.json["valid"] is True
    assert as_json.json["receipt"]["formula"] == response.formula

    original = file.read_bytes()
    fields = json.loads(original)
    for name, value in {
        "query": "which colour has the violin?",
        "tenant_id": "00000000-0000-7000-8000-000000000000",
        "format": "skein-recall-receipt/2",
    }.items():
        file.write_bytes(original.replace(json.dumps(fields[name]).encode(), json.dumps(value).encode()))
        changed = await skein("receipts", "verify", str(file), "--keys", str(keys), environment=offline)
        assert changed.code == ExitCode.REFUSED, name
        assert "not valid" in changed.err


@pytest.mark.system
async def test_receipts_are_found_by_time_and_principal_and_replayed(
    tenant: Tenant, environment: dict[str, str]
) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await tenant.remember("The kettle is red.")
    first = await recall_with_receipt(tenant, "which colour has the kettle?")
    # Receipts are told apart by the milliseconds in their ids.
    between = datetime.fromtimestamp(((UUID(first.receipt_id).int >> 80) + 1) / 1000, UTC)
    while now() <= between:
        await asyncio.sleep(0.001)
    second = await tenant.search("which colour has the kettle?")
    principal = (await get_receipt(tenant, second.receipt_id)).principal

    listed = await skein(
        *("receipts", "list", "--principal", principal, "--until", between.isoformat(), "--json"),
        environment=environment,
    )
    shown = await skein("receipts", "list", "--since", between.isoformat(), environment=environment)
    replayed = await skein("replay", first.receipt_id, environment=environment)

    assert [one["receipt_id"] for one in listed.json["receipts"]] == [first.receipt_id]
    assert second.receipt_id in shown.out
    assert first.receipt_id not in shown.out
    assert "kettle?" in shown.out
    assert (replayed.code, "The answer is the same." in replayed.err) == (ExitCode.OK, True)


async def test_an_unknown_receipt_is_refused(tenant: Tenant, environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "receipt.json"

    got = await skein("receipts", "get", str(tenant.tenant_id), "--output", str(file), environment=environment)

    assert got.code != ExitCode.OK
    assert "RECEIPT_NOT_FOUND" in got.err or "receipt" in got.err.lower()
    assert not file.exists()


@pytest.mark.system
async def test_the_difference_of_two_answers_names_the_event_of_each_item(
    tenant: Tenant, environment: dict[str, str]
) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    memory_id = await tenant.remember("The kettle is red.")
    first = await recall_with_receipt(tenant, "kettle", min_relevance=0)
    memory = memory_pb2.Memory(memory_id=memory_id, content="The kettle, the red kettle, was sold.")
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["content"]}))
    second = await tenant.search("kettle", min_relevance=0, limit=3)

    arguments = ("receipts", "diff", first.receipt_id, second.receipt_id)
    text = await skein(*arguments, environment=environment)
    as_json = await skein(*arguments, "--json", environment=environment)

    assert (text.code, as_json.code) == (ExitCode.OK, ExitCode.OK), (text.err, as_json.err)
    assert "memory_updated" in text.out
    assert "differs: request" in text.out
    (hit,) = as_json.json["hits"]
    assert (hit["item_id"], hit["cause"], hit["revision"], hit["other_revision"]) == (memory_id, "item", "1", "2")
