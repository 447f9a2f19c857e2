"""Secrets among the memories: sealed apart from them, masked, revealed to some, and never anywhere in the clear."""

from __future__ import annotations

import base64
from typing import Any
from uuid import uuid4

import grpc
import pytest
from fix_calls import struct
from fix_cluster import Tenant, refused
from fix_memory import MemoryServer
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein.recall.v1 import recall_pb2
from skein_kit.settings import SettingInvalid
from skein_memory.vault import store

INVALID = grpc.StatusCode.INVALID_ARGUMENT
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
OLD, NEW = "1a" * 32, base64.b64encode(b"\x2b" * 32).decode()
CURRENT, PREVIOUS = "SKEIN_MASTER_KEY", "SKEIN_MASTER_KEY_PREVIOUS"


def vault(secret: str = "correct-horse-battery", **fields: Any) -> pb.Memory:
    return pb.Memory(**{"type": "knowledge_vault", "title": "the wifi", "secret_value": secret, **fields})


def creating(memory: pb.Memory, request_id: str = "") -> pb.CreateMemoryRequest:
    return pb.CreateMemoryRequest(memory=memory, request_id=request_id)


def updating(memory: pb.Memory, *paths: str, request_id: str = "") -> pb.UpdateMemoryRequest:
    return pb.UpdateMemoryRequest(memory=memory, update_mask=FieldMask(paths=paths), request_id=request_id)


async def revealed(memory: Any, memory_id: str, request_id: str = "") -> str:
    response = await memory.RevealSecret(pb.RevealSecretRequest(memory_id=memory_id, request_id=request_id))
    secret: str = response.secret_value
    return secret


async def dumped(memory_server: MemoryServer) -> str:
    """Return every row of every table as text, with what is in bytes once more as the text that it may be."""
    tables = await memory_server.rows(
        "SELECT n.nspname || '.' || quote_ident(c.relname) AS name FROM pg_class c JOIN pg_namespace n"
        " ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
    )
    results = [str(dict(row)) for table in tables for row in await memory_server.rows(f"SELECT * FROM {table['name']}")]  # noqa: S608
    assert len(tables) > 30
    return "\n".join(results)


async def test_a_secret_is_masked_everywhere_and_revealed_to_those_who_may(tenant: Tenant) -> None:
    created = await tenant.memory.CreateMemory(
        creating(vault(data=struct(sensitivity="high", entry_type="credential")), request_id="r")
    )
    again = await tenant.memory.CreateMemory(
        creating(vault(data=struct(sensitivity="high", entry_type="credential")), request_id="r")
    )
    name = created.memory.memory_id
    response = await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=name))
    listed = await tenant.memory.ListMemories(pb.ListMemoriesRequest())
    recalled = await tenant.recall.Recall(recall_pb2.RecallRequest(query="wifi"))
    by_secret = await tenant.recall.Recall(recall_pb2.RecallRequest(query="correct-horse-battery"))

    assert again == created
    assert (created.memory.secret.masked, created.memory.secret.length_class) == ("••••", "medium")
    assert created.memory.data["sensitivity"] == "high"
    for answer in (created, again, response, listed, recalled, by_secret):
        assert "correct-horse" not in str(answer)
    assert [hit.item_id for hit in recalled.hits] == [name]
    assert recalled.hits[0].memory.secret == created.memory.secret
    assert not any(
        component.raw for hit in by_secret.hits for component in hit.components if component.signal == "lexical"
    )
    assert await revealed(tenant.memory, name) == "correct-horse-battery"


async def test_a_memory_without_a_secret_reveals_none(tenant: Tenant) -> None:
    note = await tenant.memory.CreateMemory(creating(pb.Memory(content="plain")))
    deleted = await tenant.memory.CreateMemory(creating(vault()))
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=deleted.memory.memory_id))

    with refused(grpc.StatusCode.NOT_FOUND, "SECRET_NOT_FOUND"):
        await revealed(tenant.memory, note.memory.memory_id)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await revealed(tenant.memory, deleted.memory.memory_id)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await revealed(tenant.memory, str(uuid4()))
    await tenant.memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id=deleted.memory.memory_id))
    assert await revealed(tenant.memory, deleted.memory.memory_id) == "correct-horse-battery"


@pytest.mark.parametrize(
    "memory",
    [
        vault(secret=""),
        pb.Memory(type="knowledge_vault", content="a", secret=pb.MaskedSecret(length_class="short")),
        vault(data=struct(sensitivity="extreme")),
        vault(data=struct(secret_value="in the open")),
        vault(data=struct(colour="red")),
    ],
)
async def test_a_vault_without_a_secret_or_with_one_in_its_data_is_refused(tenant: Tenant, memory: pb.Memory) -> None:
    with refused(INVALID, "MEMORY_DATA_INVALID") as caught:
        await tenant.memory.CreateMemory(creating(memory))

    assert "in the open" not in str(caught.value)


async def test_only_the_vault_takes_secrets(tenant: Tenant) -> None:
    with refused(INVALID, "INVALID_FIELD"):
        await tenant.memory.CreateMemory(creating(vault(type="note", content="c")))
    with refused(INVALID, "INVALID_FIELD"):
        await tenant.memory.CreateMemory(creating(vault(secret="x" * 70_000)))


async def test_a_secret_changes_with_the_mask_alone(tenant: Tenant) -> None:
    name = (await tenant.memory.CreateMemory(creating(vault()))).memory.memory_id

    renamed = await tenant.memory.UpdateMemory(updating(pb.Memory(memory_id=name, title="guests"), "title"))
    kept = await revealed(tenant.memory, name)
    response = await tenant.memory.UpdateMemory(
        updating(pb.Memory(memory_id=name, data=struct(sensitivity="low")), "data")
    )
    changed = await tenant.memory.UpdateMemory(
        updating(pb.Memory(memory_id=name, secret_value="é" * 80), "secret_value")
    )
    with refused(INVALID, "INVALID_FIELD"):
        await tenant.memory.UpdateMemory(updating(pb.Memory(memory_id=name), "secret_value"))

    assert kept == "correct-horse-battery"
    assert renamed.memory.secret == response.memory.secret == pb.MaskedSecret(masked="••••", length_class="medium")
    assert changed.memory.secret.length_class == "long"
    assert changed.memory.data["sensitivity"] == "low"
    assert await revealed(tenant.memory, name) == "é" * 80


async def test_a_memory_that_leaves_the_vault_leaves_its_secret_behind(tenant: Tenant) -> None:
    name = (await tenant.memory.CreateMemory(creating(vault(content="c")))).memory.memory_id

    note = await tenant.memory.UpdateMemory(updating(pb.Memory(memory_id=name, type="note"), "type", "data"))

    assert not note.memory.HasField("secret")
    with refused(grpc.StatusCode.NOT_FOUND, "SECRET_NOT_FOUND"):
        await revealed(tenant.memory, name)
    with refused(INVALID, "MEMORY_DATA_INVALID"):
        await tenant.memory.UpdateMemory(updating(pb.Memory(memory_id=name, type="knowledge_vault"), "type"))


@pytest.mark.system
async def test_no_table_holds_a_secret_in_the_clear_and_each_reading_is_recorded(memory_server: MemoryServer) -> None:
    secrets = ["hush-sesame-one", "hush-sesame-two", "hush-sesame-three"]
    async with memory_server.serving(**{CURRENT: OLD}), memory_server.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        made = await memory.CreateMemory(creating(vault(secrets[0], tags=["t"], external_id="x"), request_id="create"))
        await memory.BatchCreateMemories(
            pb.BatchCreateMemoriesRequest(memories=[vault(secrets[1]), pb.Memory(content="plain")], request_id="batch")
        )
        name = made.memory.memory_id
        changed = pb.Memory(memory_id=name, secret_value=secrets[2], title="new")
        await memory.UpdateMemory(updating(changed, "secret_value", "title", request_id="update"))
        await memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=name))
        await memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id=name, request_id="restore"))
        shown = [await revealed(memory, name, request_id="reveal") for _ in range(2)]
        await memory.RotateTenantKey(pb.RotateTenantKeyRequest(request_id="rotate"))
        shown.append(await revealed(memory, "x"))
        # Of two secrets that were asked to be kept under one request_id the first one is.
        again = await memory.CreateMemory(creating(vault("another", tags=["t"], external_id="x"), request_id="create"))
    everything = await dumped(memory_server)
    events = await memory_server.rows("SELECT entity_id FROM memory.changes WHERE event_type = 'secret_revealed'")

    assert again == made
    assert shown == [secrets[2]] * 3
    for secret in (*secrets, OLD):
        for form in (secret, secret.encode().hex(), base64.b64encode(secret.encode()).decode()):
            assert form not in everything
    assert bytes.fromhex(OLD).decode("latin-1") not in everything
    assert [row["entity_id"] for row in events] == [name] * 3


@pytest.mark.system
async def test_a_request_that_is_repeated_after_the_secret_changed_is_an_event_too(memory_server: MemoryServer) -> None:
    async with memory_server.serving(**{CURRENT: OLD}), memory_server.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        name = (await memory.CreateMemory(creating(vault("before")))).memory.memory_id
        before = await revealed(memory, name, request_id="reveal")
        await memory.UpdateMemory(updating(pb.Memory(memory_id=name, secret_value="after"), "secret_value"))
        after = await revealed(memory, name, request_id="reveal")
    events = await memory_server.rows("SELECT entity_id FROM memory.changes WHERE event_type = 'secret_revealed'")

    assert (before, after) == ("before", "after")
    assert [row["entity_id"] for row in events] == [name, name]


@pytest.mark.system
async def test_without_a_master_key_no_secret_is_stored_and_all_else_works(memory_server: MemoryServer) -> None:
    async with memory_server.serving(), memory_server.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        await memory.CreateMemory(creating(pb.Memory(content="plain")))
        with refused(PRECONDITION, "MASTER_KEY_MISSING"):
            await memory.CreateMemory(creating(vault()))
        with refused(PRECONDITION, "MASTER_KEY_MISSING"):
            await memory.RotateTenantKey(pb.RotateTenantKeyRequest())
    rows = await memory_server.rows("SELECT type FROM memory.memories")

    assert [row["type"] for row in rows] == ["note"]


@pytest.mark.system
async def test_once_there_are_secrets_the_service_does_not_start_without_their_master_key(
    memory_server: MemoryServer,
) -> None:
    async with memory_server.serving(**{CURRENT: OLD}), memory_server.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        name = (await memory.CreateMemory(creating(vault()))).memory.memory_id

    for environment, said in (({}, "Set SKEIN_MASTER_KEY: "), ({CURRENT: NEW}, "neither SKEIN_MASTER_KEY")):
        with pytest.raises(SettingInvalid, match=said):
            async with memory_server.serving(**environment):
                pass
    async with memory_server.serving(**{CURRENT: OLD}), memory_server.channel() as channel:
        assert await revealed(rpc.MemoryServiceStub(channel), name) == "correct-horse-battery"


@pytest.mark.parametrize("text", ["short", "zz" * 32, "00" * 31, "=" * 44])
async def test_a_master_key_that_is_no_key_is_refused_without_being_quoted(
    memory_server: MemoryServer, text: str
) -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_MASTER_KEY should hold 32 bytes") as caught:
        async with memory_server.serving(**{CURRENT: text}):
            pass

    assert text not in str(caught.value)


@pytest.mark.system
async def test_the_master_key_is_changed_without_losing_a_secret(memory_server: MemoryServer) -> None:
    async with memory_server.serving(**{CURRENT: OLD}), memory_server.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        name = (await memory.CreateMemory(creating(vault()))).memory.memory_id
    async with (
        memory_server.serving(**{CURRENT: NEW, PREVIOUS: OLD}),
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
    ):
        before = await revealed(rpc.MemoryServiceStub(channel), name)
        await rpc.MemoryInternalServiceStub(system).DeleteExpired(pb.DeleteExpiredRequest())
    async with memory_server.serving(**{CURRENT: NEW}), memory_server.channel() as channel:
        after = await revealed(rpc.MemoryServiceStub(channel), name)
    used = await memory_server.rows("SELECT fingerprint, key_count FROM memory.master_keys ORDER BY key_count")

    assert before == after == "correct-horse-battery"
    assert [row["key_count"] for row in used] == [0, 1]


@pytest.mark.system
async def test_a_rotation_goes_on_where_it_was_and_ends_with_one_key(
    memory_server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BATCH_SIZE", 2)
    async with (
        memory_server.serving(**{CURRENT: OLD}),
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
    ):
        memory, internal = rpc.MemoryServiceStub(channel), rpc.MemoryInternalServiceStub(system)
        made = await memory.BatchCreateMemories(
            pb.BatchCreateMemoriesRequest(memories=[vault(f"secret {n}") for n in range(7)])
        )
        keys = await memory_server.rows("SELECT key_id FROM memory.tenant_keys")
        first = await memory.RotateTenantKey(pb.RotateTenantKeyRequest(request_id="r"))
        again = await memory.RotateTenantKey(pb.RotateTenantKeyRequest(request_id="r"))
        second = await memory.RotateTenantKey(pb.RotateTenantKeyRequest())
        for _ in range(2):
            await internal.DeleteExpired(pb.DeleteExpiredRequest())
        shown = [await revealed(memory, kept.memory_id) for kept in made.memories]
    remaining = await memory_server.rows("SELECT key_id FROM memory.tenant_keys")
    counted = await memory_server.rows("SELECT key_count FROM memory.master_keys")

    assert (first.reencrypted_count, first.more) == (2, True)
    assert again == first
    assert second.key_id == first.key_id
    assert [str(row["key_id"]) for row in remaining] == [first.key_id]
    assert str(keys[0]["key_id"]) != first.key_id
    assert [row["key_count"] for row in counted] == [1]
    assert shown == [f"secret {n}" for n in range(7)]


async def test_a_secret_that_is_moved_to_another_memory_does_not_open(memory_server: MemoryServer) -> None:
    async with memory_server.serving(**{CURRENT: OLD}), memory_server.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        first = (await memory.CreateMemory(creating(vault("one")))).memory.memory_id
        second = (await memory.CreateMemory(creating(vault("two")))).memory.memory_id
        async with memory_server.database.superuser() as connection:
            await connection.execute(
                "UPDATE memory.secrets AS s SET nonce = o.nonce, ciphertext = o.ciphertext FROM memory.secrets AS o"
                " WHERE s.memory_id = $1 AND o.memory_id = $2",
                first,
                second,
            )
        with refused(PRECONDITION, "SECRET_UNDECRYPTABLE"):
            await revealed(memory, first)
        assert await revealed(memory, second) == "two"
