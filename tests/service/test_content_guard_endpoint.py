"""An operator's detector beside the built-in ones: what it finds is treated as the tenant's policy says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused, running_cluster, test_environment
from fix_detector import Detector, running_detector
from fix_metrics import counted
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2

FAILED = "skein_guard_endpoint_failures_total"
PERSON = {"Ann Lee": ("person_name", "personal_data")}


@pytest.fixture(scope="module")
async def screened(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Cluster, Detector]]:
    async with running_detector() as detector:
        environment = {**test_environment(), "SKEIN_GUARD_URL": detector.url, "SKEIN_GUARD_KEY": "its-key"}
        async with running_cluster(tmp_path_factory.mktemp("guarded"), environment, form="one") as cluster:
            yield cluster, detector


@pytest.fixture
async def detector(screened: tuple[Cluster, Detector]) -> Detector:
    """The detector, as if nothing had been asked."""
    detector = screened[1]
    detector.words, detector.wrong_answer = dict(PERSON), None
    detector.texts.clear()
    return detector


@pytest.fixture
async def tenant(screened: tuple[Cluster, Detector]) -> Tenant:
    return await screened[0].new_tenant()


async def guard(tenant: Tenant, **fields: Any) -> None:
    policy = subjects_pb2.Policy(**{f"guard_{name}": value for name, value in fields.items()})
    mask = FieldMask(paths=[f"guard_{name}" for name in fields])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))


async def create(tenant: Tenant, content: str) -> str:
    request = pb.CreateMemoryRequest(memory=pb.Memory(content=content))
    return (await tenant.memory.CreateMemory(request)).memory.content


@pytest.mark.system
async def test_what_the_detector_finds_is_redacted_beside_what_is_built_in(tenant: Tenant, detector: Detector) -> None:
    await guard(tenant, personal_data="redact")

    content = await create(tenant, "Ünï: Ann Lee, ann@example.org")

    assert content == "Ünï: [person_name], [email_address]"
    assert detector.texts == ["Ünï: Ann Lee, ann@example.org"]
    assert detector.keys[-1] == "bearer its-key"


async def test_messages_are_screened_too(tenant: Tenant, detector: Detector) -> None:
    await guard(tenant, personal_data="refuse")
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="I am Ann Lee")
    request = session_pb2.AppendMessagesRequest(session_id="s", create_session=True, messages=[message])

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_REFUSED") as refusal:
        await tenant.sessions.AppendMessages(request)

    assert "person_name" in str(refusal.value)
    assert "Ann Lee" not in str(refusal.value)
    assert detector.texts == ["I am Ann Lee"]


async def test_ignored_kinds_and_other_categories_stay(tenant: Tenant, detector: Detector) -> None:
    detector.words["blue"] = ("code_name", "secret")
    await guard(tenant, personal_data="redact", ignored_kinds=["person_name"])

    assert await create(tenant, "Ann Lee says blue") == "Ann Lee says blue"


async def test_a_tenant_without_a_guard_sends_nothing(tenant: Tenant, detector: Detector) -> None:
    assert await create(tenant, "Ann Lee") == "Ann Lee"
    assert detector.texts == []


@pytest.mark.parametrize(
    "wrong_answer",
    [
        (b"500 Internal Server Error", {"findings": []}),
        (b"200 OK", {"findings": []}),
        (b"200 OK", {"findings": [[{"kind": "x", "category": "secret", "start": 0, "end": 99}]]}),
        (b"200 OK", {"findings": [[{"kind": "Ann Lee", "category": "secret", "start": 0, "end": 1}]]}),
        (b"200 OK", {"findings": [[{"kind": "x", "category": "gossip", "start": 0, "end": 1}]]}),
        (b"200 OK", {"findings": [7]}),
        (b"200 OK", {"found": "Ann Lee"}),
    ],
)
async def test_a_detector_that_fails_lets_nothing_through(
    tenant: Tenant, detector: Detector, wrong_answer: tuple[bytes, Any]
) -> None:
    await guard(tenant, personal_data="redact")
    detector.wrong_answer = wrong_answer
    before = counted(FAILED, service="memory")

    with refused(grpc.StatusCode.UNAVAILABLE, "CONTENT_GUARD_UNAVAILABLE") as refusal:
        await create(tenant, "Ann Lee")

    assert "Ann" not in str(refusal.value)
    assert counted(FAILED, service="memory") == before + 1
    assert not (await tenant.memory.ListMemories(pb.ListMemoriesRequest())).memories


@pytest.mark.system
async def test_a_failure_may_be_let_through_with_what_is_built_in(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Nothing listens on this port.
    environment = {**test_environment(), "SKEIN_GUARD_URL": "http://127.0.0.1:9/find", "SKEIN_GUARD_FAILURE": "pass"}
    async with running_cluster(tmp_path_factory.mktemp("passing"), environment, form="one") as cluster:
        tenant = await cluster.new_tenant()
        await guard(tenant, personal_data="redact")

        assert await create(tenant, "Ann Lee, ann@example.org") == "Ann Lee, [email_address]"
