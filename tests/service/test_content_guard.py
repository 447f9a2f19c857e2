"""The content guard: what a tenant's policy does with secrets and personal data in texts that callers write."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from fix_metrics import counted
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2

TOKEN = "ghp_" + "a1B2" * 9
LABELS = {"service": "memory", "kind": "payment_card", "action": "count"}
CARD = "4111 1111 1111 1111"


async def guard(tenant: Tenant, **fields: Any) -> None:
    policy = subjects_pb2.Policy(**{f"guard_{name}": value for name, value in fields.items()})
    mask = FieldMask(paths=[f"guard_{name}" for name in fields])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))


async def create(tenant: Tenant, content: str, request_id: str = "", **fields: Any) -> pb.Memory:
    request = pb.CreateMemoryRequest(memory=pb.Memory(content=content, **fields), request_id=request_id)
    return (await tenant.memory.CreateMemory(request)).memory


async def count_of(tenant: Tenant) -> int:
    return len((await tenant.memory.ListMemories(pb.ListMemoriesRequest())).memories)


async def test_without_a_policy_every_text_is_stored_as_it_is(tenant: Tenant) -> None:
    assert (await create(tenant, f"the token is {TOKEN}")).content == f"the token is {TOKEN}"


async def test_a_refused_write_names_field_and_kind_and_stores_nothing(tenant: Tenant) -> None:
    await guard(tenant, secrets="refuse")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_REFUSED") as refusal:
        await tenant.memory.BatchCreateMemories(
            pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content="tea"), pb.Memory(content=f"it is {TOKEN}")])
        )

    assert "memories[1].content" in str(refusal.value)
    assert "github_token" in str(refusal.value)
    assert TOKEN not in str(refusal.value)
    assert await count_of(tenant) == 0


@pytest.mark.system
async def test_redacted_texts_hold_the_kind_everywhere(tenant: Tenant) -> None:
    await guard(tenant, secrets="redact", personal_data="redact", ignored_kinds=["email_address"])

    memory = await create(
        tenant, f"token {TOKEN}, card {CARD}, jane@example.com", title=TOKEN, metadata_json=f'{{"note":"{CARD}"}}'
    )
    await tenant.memory.UpdateMemory(
        pb.UpdateMemoryRequest(
            memory=pb.Memory(memory_id=memory.memory_id, content=f"now {TOKEN}"),
            update_mask=FieldMask(paths=["content"]),
        )
    )
    changed = (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory.memory_id))).memory
    appended = await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(
            session_id="s",
            create_session=True,
            messages=[session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"use {TOKEN}")],
        )
    )
    block = await tenant.blocks.CreateBlock(
        blocks_pb2.CreateBlockRequest(block=blocks_pb2.Block(label="human", value="x"))
    )
    written = await tenant.blocks.AppendToBlock(
        blocks_pb2.AppendToBlockRequest(block_id=block.block.block_id, text=f"pays by {CARD}")
    )
    found = await tenant.recall.Recall(recall_pb2.RecallRequest(query=TOKEN))

    assert memory.content == "token [github_token], card [payment_card], jane@example.com"
    assert memory.title == "[github_token]"
    assert json_format.MessageToDict(memory.metadata) == {"note": "[payment_card]"}
    assert changed.content == "now [github_token]"
    assert [message.content for message in appended.messages] == ["use [github_token]"]
    assert written.block.value.endswith("pays by [payment_card]")
    assert TOKEN not in str(found)


async def test_the_gateway_s_remember_is_screened(tenant: Tenant) -> None:
    await guard(tenant, secrets="redact")

    response = await tenant.gateway.Remember(
        gateway_pb2.RememberRequest(memories=[pb.Memory(content=f"the token is {TOKEN}")])
    )

    assert TOKEN not in str(response)
    assert TOKEN not in str(await tenant.memory.ListMemories(pb.ListMemoriesRequest()))


async def test_a_sealed_secret_moves_to_the_vault_for_the_same_readers(tenant: Tenant) -> None:
    await guard(tenant, secrets="seal")

    memory = await create(
        tenant, f"deploy with {TOKEN}; again {TOKEN}", request_id="r", scope=pb.SCOPE_USER, subject_id="jane"
    )
    again = await create(
        tenant, f"deploy with {TOKEN}; again {TOKEN}", request_id="r", scope=pb.SCOPE_USER, subject_id="jane"
    )
    vault_id = memory.content.partition("[github_token: vault ")[2].partition("]")[0]
    sealed = (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=vault_id))).memory
    revealed = await tenant.memory.RevealSecret(pb.RevealSecretRequest(memory_id=vault_id))

    assert memory.content == f"deploy with [github_token: vault {vault_id}]; again [github_token: vault {vault_id}]"
    assert again == memory
    assert await count_of(tenant) == 2
    assert (sealed.type, sealed.scope, sealed.subject_id) == ("knowledge_vault", pb.SCOPE_USER, "jane")
    assert revealed.secret_value == TOKEN


async def test_an_update_seals_the_secret_that_it_brings(tenant: Tenant) -> None:
    await guard(tenant, secrets="seal")
    memory = await create(tenant, "the deploy token", agent_id="a", scope=pb.SCOPE_AGENT)

    updated = await tenant.memory.UpdateMemory(
        pb.UpdateMemoryRequest(
            memory=pb.Memory(memory_id=memory.memory_id, content=f"the deploy token is {TOKEN}"),
            update_mask=FieldMask(paths=["content"]),
        )
    )
    vault_id = updated.memory.content.partition("vault ")[2].removesuffix("]")
    sealed = (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=vault_id))).memory
    revealed = await tenant.memory.RevealSecret(pb.RevealSecretRequest(memory_id=vault_id))

    assert (sealed.scope, sealed.agent_id) == (pb.SCOPE_AGENT, "a")
    assert revealed.secret_value == TOKEN


async def test_counted_findings_are_stored_and_show_in_a_metric_by_kind(tenant: Tenant) -> None:
    await guard(tenant, personal_data="count")
    before = counted("skein_guard_findings_total", **LABELS)

    memory = await create(tenant, f"card {CARD}")

    assert memory.content == f"card {CARD}"
    assert counted("skein_guard_findings_total", **LABELS) == before + 1


@pytest.mark.parametrize("field", ["secrets", "personal_data"])
async def test_an_unknown_action_is_refused(tenant: Tenant, field: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await guard(tenant, **{field: "shout"})


async def test_an_item_that_is_left_out_brings_no_secret_into_the_vault(tenant: Tenant) -> None:
    await guard(tenant, secrets="seal")
    await create(tenant, "green", type="fact", key="colour")
    memories = [
        pb.Memory(content=f"blue with {TOKEN}", type="fact", key="colour"),
        pb.Memory(content=f"tea with {TOKEN[:-1]}7"),
    ]

    response = await tenant.memory.BatchCreateMemories(
        pb.BatchCreateMemoriesRequest(memories=memories, on_conflict=pb.ON_CONFLICT_RETURN)
    )

    assert list(response.existing_indexes) == [0]
    # The fact, the note about tea, and the secret of the latter.
    assert await count_of(tenant) == 3
