"""Policies: their defaults, and that nothing is accepted which no policy has."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused, test_environment
from fix_command import skein
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2 as pb
from skein_cluster.cli.exit_codes import ExitCode

DEFAULTS = pb.Policy(
    decay_days=30,
    max_inferred_edges=360,
    min_link_suggestion_score=0.25,
    retention_days=3650,
    private_mode=True,
    snapshot_retention=50,
    path_max_hops=5,
    subgraph_default_radius=2,
    importance_formula=pb.IMPORTANCE_FORMULA_DYNAMIC,
    webhook_max_failures=20,
    capacity_strategic=100,
    capacity_tactical=500,
    capacity_operational=2000,
    capacity_contextual=5000,
    search_language="english",
    recall_fusion="scores",
    recall_min_relevance=0.03,
    recall_min_best_relevance=0.07,
    recall_token_vectors=True,
    expiry_grace_hours=24,
    guard_secrets="keep",
    guard_personal_data="keep",
    approval="none",
    approval_expiry_days=30,
    recall_receipts="off",
    time_zone="UTC",
    embedding_model="",
    extraction="off",
    extraction_messages=20,
    extraction_quiet_seconds=30,
    revision=1,
)
# A field that no policy has: number 1000, the varint 1.
UNKNOWN = b"\xc0\x3e\x01"


def change(request_id: str = "", **values: Any) -> pb.UpdatePolicyRequest:
    fields = [name for name in values if name != "revision"]
    return pb.UpdatePolicyRequest(
        policy=pb.Policy(**values), update_mask=FieldMask(paths=fields), request_id=request_id
    )


async def read(tenant: Tenant) -> pb.Policy:
    return (await tenant.tenancy.GetPolicy(pb.GetPolicyRequest())).policy


async def test_an_unchanged_policy_has_the_defaults(tenant: Tenant) -> None:
    assert await read(tenant) == DEFAULTS


async def test_only_the_masked_fields_of_a_policy_change(tenant: Tenant) -> None:
    updated = await tenant.tenancy.UpdatePolicy(
        change(
            private_mode=False,
            decay_days=7,
            max_inferred_edges=0,
            memory_types=["note", "fact"],
            importance_formula=pb.IMPORTANCE_FORMULA_WEIGHTED,
            revision=1,
        )
    )

    expected = pb.Policy()
    expected.CopyFrom(DEFAULTS)
    expected.private_mode, expected.decay_days, expected.max_inferred_edges = False, 7, 0
    expected.memory_types.extend(["note", "fact"])
    expected.importance_formula = pb.IMPORTANCE_FORMULA_WEIGHTED
    expected.revision = 2
    expected.update_time.CopyFrom(updated.policy.update_time)
    assert updated.policy == expected
    assert await read(tenant) == expected


async def test_what_cannot_be_zero_goes_back_to_its_default(tenant: Tenant) -> None:
    await tenant.tenancy.UpdatePolicy(change(decay_days=7, importance_formula=pb.IMPORTANCE_FORMULA_WEIGHTED))

    updated = await tenant.tenancy.UpdatePolicy(change(decay_days=0, importance_formula=0))

    assert (updated.policy.decay_days, updated.policy.importance_formula) == (30, pb.IMPORTANCE_FORMULA_DYNAMIC)


@pytest.mark.parametrize("values", [{"decay_days": 3651}, {"path_max_hops": 9}, {"min_link_suggestion_score": 1.5}])
async def test_a_value_out_of_bounds_is_refused(tenant: Tenant, values: dict[str, Any]) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.tenancy.UpdatePolicy(change(**values))


async def test_a_mask_must_name_fields_of_a_policy(tenant: Tenant) -> None:
    for paths, reason in (
        ([], "UPDATE_MASK_INVALID"),
        (["revision"], "UPDATE_MASK_INVALID"),
        (["decay_days", "forget_everything"], "POLICY_FIELD_UNKNOWN"),
    ):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, reason):
            await tenant.tenancy.UpdatePolicy(
                pb.UpdatePolicyRequest(policy=pb.Policy(decay_days=1), update_mask=FieldMask(paths=paths))
            )
    assert await read(tenant) == DEFAULTS


async def test_unknown_fields_in_binary_are_refused(tenant: Tenant) -> None:
    in_policy = change(decay_days=7)
    in_policy.policy.MergeFromString(UNKNOWN)
    beside_policy = change(decay_days=7)
    beside_policy.MergeFromString(UNKNOWN)

    for request in (in_policy, beside_policy):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "POLICY_FIELD_UNKNOWN"):
            await tenant.tenancy.UpdatePolicy(request)
    assert await read(tenant) == DEFAULTS


async def test_a_stale_policy_is_refused(tenant: Tenant) -> None:
    await tenant.tenancy.UpdatePolicy(change(decay_days=7, revision=1))

    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await tenant.tenancy.UpdatePolicy(change(decay_days=8, revision=1))
    assert (await read(tenant)).decay_days == 7


async def test_of_first_changes_at_once_each_counts(tenant: Tenant) -> None:
    await asyncio.gather(*(tenant.tenancy.UpdatePolicy(change(decay_days=days)) for days in range(1, 6)))

    assert (await read(tenant)).revision == 6


@pytest.mark.system
async def test_services_act_by_a_changed_policy_within_a_second(tenant: Tenant) -> None:
    note = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="c", type="note"))
    await tenant.memory.CreateMemory(note)
    await tenant.tenancy.UpdatePolicy(change(memory_types=["fact"]))
    clock = asyncio.get_running_loop().time
    changed = last_accepted = clock()

    while True:
        began = clock()
        try:
            await tenant.memory.CreateMemory(note)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT  # noqa: PT017 - the refusal ends the wait.
            break
        last_accepted = began

    # Half a second for a policy that was being read while it changed.
    assert last_accepted - changed < 1.5


async def test_a_model_that_the_operator_does_not_offer_is_refused_with_those_that_he_does(
    cluster: Cluster, tenant: Tenant
) -> None:
    offered, other = f"offered-{uuid.uuid4().hex[:8]}", f"other-{uuid.uuid4().hex[:8]}"
    for name in (offered, other):
        model = recall_pb2.EmbeddingModel(model=name, provider="caller", dimensions=8)
        await cluster.operator.recall.RegisterEmbeddingModel(
            recall_pb2.RegisterEmbeddingModelRequest(embedding_model=model)
        )
    await cluster.operator.recall.OfferEmbeddingModel(recall_pb2.OfferEmbeddingModelRequest(model=offered))

    for name in (other, "nobody-s"):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "EMBEDDING_MODEL_NOT_OFFERED") as caught:
            await tenant.tenancy.UpdatePolicy(change(embedding_model=name))
        assert offered in str(caught.value) + str(caught.value.trailing_metadata())
    await tenant.tenancy.UpdatePolicy(change(embedding_model=offered))
    request = recall_pb2.OfferEmbeddingModelRequest(model=offered, withdraw=True)
    await cluster.operator.recall.OfferEmbeddingModel(request)

    # What it chose before stays, whatever else changes.
    kept = await tenant.tenancy.UpdatePolicy(change(embedding_model=offered, decay_days=8))
    assert kept.policy.embedding_model == offered
    assert (await tenant.tenancy.UpdatePolicy(change(embedding_model=""))).policy.embedding_model == ""
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "EMBEDDING_MODEL_NOT_OFFERED"):
        await tenant.tenancy.UpdatePolicy(change(embedding_model=offered))


@pytest.mark.system
async def test_the_command_shows_a_policy_and_changes_fields_of_every_kind(cluster: Cluster, tenant: Tenant) -> None:
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}
    changes = (
        *("extraction=rules", "extraction_messages=1", "memory_types=note,fact", "private_mode=false"),
        *("importance_formula=weighted", 'recall_weights={"dense": 0.5}', "recall_min_relevance=0.1"),
    )

    shown = await skein("policy", environment=environment)
    changed = await skein("policy", *changes, "--json", environment=environment)

    stored = (await tenant.tenancy.GetPolicy(pb.GetPolicyRequest())).policy
    assert "extraction_quiet_seconds" in shown.out
    assert changed.json["extraction"] == stored.extraction == "rules"
    assert (stored.extraction_messages, list(stored.memory_types)) == (1, ["note", "fact"])
    assert (stored.private_mode, stored.recall_min_relevance) == (False, 0.1)
    assert stored.importance_formula == pb.IMPORTANCE_FORMULA_WEIGHTED
    assert dict(stored.recall_weights) == {"dense": 0.5}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("tea=green", ExitCode.USAGE),
        ("extraction", ExitCode.USAGE),
        ("decay_days=soon", ExitCode.USAGE),
        ("importance_formula=tea", ExitCode.USAGE),
        ("revision=7", ExitCode.REFUSED),
        ("extraction=magic", ExitCode.REFUSED),
    ],
)
async def test_the_command_refuses_what_is_no_change_of_a_policy(
    cluster: Cluster, tenant: Tenant, change: str, code: ExitCode
) -> None:
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}

    ended = await skein("policy", change, environment=environment)

    assert (ended.code, ended.out) == (code, "")
