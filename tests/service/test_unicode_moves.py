"""Rows from before names had one form of Unicode: an export and an import make them plain, and lose none."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_cluster.cli.exit_codes import ExitCode

PERSON = "jürgen"
DECOMPOSED = unicodedata.normalize("NFD", PERSON)
# Stored under a plain name, which becomes the decomposed one afterwards: the API would store it in its one form.
PLANTED = "planted"
# Columns of names, and the arrays.
COLUMNS = {
    "memory.memories": ("subject_id", "key", "source"),
    "memory.tags": ("tag",),
    "memory.fact_keys": ("subject_id", "key", "folded_key"),
    "memory.blocks": ("subject_id", "label"),
    "tenancy.subjects": ("subject_id",),
}


async def plant(cluster: Cluster, tenant: Tenant) -> None:
    """Give the rows that are named "planted" the decomposed name."""
    async with cluster.superuser() as connection:
        for table, columns in COLUMNS.items():
            changes = ", ".join(f"{column} = replace({column}, '{PLANTED}', $2)" for column in columns)
            update = f"UPDATE {table} SET {changes} WHERE tenant_id = $1"  # noqa: S608 - constants.
            await connection.execute(update, tenant.tenant_id, DECOMPOSED)


def environment_of(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}


async def create(tenant: Tenant, content: str, **fields: Any) -> None:
    memory = memory_pb2.Memory(content=content, **fields)
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))


def renamed(line: str) -> str:
    """Return a memory's line of an export with another key."""
    return json.dumps({**json.loads(line), "key": f"{PERSON} 2"})


@pytest.mark.system
async def test_an_export_and_an_import_make_names_plain_and_report_what_falls_together(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, tmp_path: Path
) -> None:
    for name in (PLANTED, PERSON):
        subject = subjects_pb2.Subject(subject_id=name, display_name=f"the {name}")
        await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
        await create(tenant, f"{name} drinks tea", subject_id=name, type="fact", key=name, tags=[name], source=name)
    block = blocks_pb2.Block(block_id="b", label=PLANTED, subject_id=PLANTED, value="likes tea")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))
    await plant(cluster, tenant)
    file = tmp_path / "export.jsonl"

    await skein("export", "-o", str(file), environment=environment_of(cluster, tenant))
    elsewhere = environment_of(cluster, other_tenant)
    imported = await skein("import", "jsonl", str(file), "--json", environment=elsewhere)
    (refused,) = imported.json["refused"]
    lines = file.read_text(encoding="utf-8").splitlines()
    place = int(refused["where"].removeprefix("line ")) - 1
    file.write_text("\n".join([*lines[:place], renamed(lines[place]), *lines[place + 1 :]]), encoding="utf-8")
    again = await skein("import", "jsonl", str(file), "--json", environment=elsewhere)

    assert imported.code == ExitCode.REFUSED
    assert f"key: {PERSON}" in refused["reason"]
    assert imported.json["skipped"]["subject"] == 1
    assert again.code == ExitCode.OK
    memories = (await other_tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    assert sorted((memory.content, memory.subject_id, *memory.tags, memory.source) for memory in memories) == [
        (f"{PERSON} drinks tea", PERSON, PERSON, PERSON),
        (f"{PLANTED} drinks tea", PERSON, PERSON, PERSON),
    ]
    assert sorted(memory.key for memory in memories) == [PERSON, f"{PERSON} 2"]
    (block,) = (await other_tenant.blocks.ListBlocks(blocks_pb2.ListBlocksRequest())).blocks
    assert (block.label, block.subject_id) == (PERSON, PERSON)
    (subject,) = (await other_tenant.tenancy.ListSubjects(subjects_pb2.ListSubjectsRequest())).subjects
    assert subject.subject_id == PERSON
