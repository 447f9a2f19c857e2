from __future__ import annotations

from datetime import UTC, datetime

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2
from skein_cluster.cli.exit_codes import ExitCode


@pytest.fixture
def environment(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    """Return the environment of a caller with the tenant's key."""
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}


async def test_recall_and_context_answer_as_of_a_time(tenant: Tenant, environment: dict[str, str]) -> None:
    paris = memory_pb2.Memory(content="Ada lives in Paris", external_id="home")
    paris.valid_to_time.FromDatetime(datetime(2020, 1, 1, tzinfo=UTC))
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=paris))
    known = datetime.now(UTC).isoformat()
    rome = memory_pb2.Memory(memory_id="home", content="Ada lives in Rome")
    mask = FieldMask(paths=["content"])
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=rome, update_mask=mask))
    query = ("where does Ada live?", "--valid-at", "2019-06-01")

    then = await skein("recall", *query, "--as-of", known, environment=environment)
    today = await skein("recall", *query, environment=environment)
    packed = await skein("context", *query, "--as-of", known, "--plain", environment=environment)
    early = await skein("recall", "Ada", "--as-of", "2001-01-01 12:00Z", environment=environment)
    wrong = await skein("recall", "Ada", "--as-of", "yesterday", environment=environment)

    assert "Paris" in then.out
    assert "Rome" not in then.out
    assert f"As it was known on {known[:19].replace('T', ' ')} UTC." in then.err
    assert "Rome" in today.out
    assert today.err == ""
    assert "Paris" in packed.out
    assert (early.code, early.out) == (ExitCode.REFUSED, "")
    assert "the earliest as_of_time is" in " ".join(early.err.split())
    assert wrong.code == ExitCode.USAGE
