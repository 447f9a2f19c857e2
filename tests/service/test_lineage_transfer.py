"""Exports and imports keep the lineage of memories, and no import raises a trust."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from fix_cluster import Cluster, Stubs, Tenant
from fix_lineage import AGENT, DOCUMENT, create, lineage, named, of, rate, rescore, trust_of, vouch, writer

from skein.memory.v1 import curation_pb2, memory_pb2, scores_pb2, snapshots_pb2
from skein.session.v1 import session_pb2


async def transfer(source: Stubs, target: Stubs) -> None:
    export = await source.snapshots.ExportData(snapshots_pb2.ExportDataRequest())
    answer = await target.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=export.lines))
    assert not answer.errors


async def rewrite(caller: Stubs, memory: memory_pb2.Memory, **fields: str) -> None:
    changed = memory_pb2.Memory(memory_id=memory.memory_id, **fields)  # type: ignore[arg-type] # fields of a text.
    await caller.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=changed, update_mask={"paths": list(fields)})
    )


async def edges(tenant: Stubs, memory: memory_pb2.Memory) -> set[tuple[str, str]]:
    """Return what derives from what in the lineage of a memory, by ids and names."""
    response = await lineage(tenant, memory)
    names = {node.number: node.id or node.name for node in response.nodes}
    return {(names[edge.memory_number], names[edge.source_number]) for edge in response.edges}


@pytest.mark.system
async def test_a_round_trip_keeps_the_chains_and_the_trust_of_what_distrusted_principals_wrote(
    cluster: Cluster, tenant: Tenant
) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.1)
    await rate(tenant, "clinic", 0.3)
    lie = await create(mallory, "Anna drinks gin.")
    summary = await create(tenant, "Of Anna: gin.", of(lie), named(DOCUMENT, "House rules"))
    reported = await create(tenant, "Anna is ill.", named(AGENT, "clinic"))
    rewritten = await create(tenant, "Anna drinks tea.")
    await rewrite(mallory, rewritten, content="Anna drinks rum.")
    await rewrite(tenant, rewritten, title="Drinks")
    memories = [lie, summary, reported, rewritten]
    before = [await trust_of(tenant, memory) for memory in memories]
    chains = await edges(tenant, summary)
    other = await cluster.new_tenant()

    await transfer(tenant, other)
    await rescore(cluster, other)

    assert before == pytest.approx([0.1, 0.1, 0.3, 0.1])
    assert [await trust_of(other, memory) for memory in memories] == pytest.approx(before)
    assert await edges(other, summary) == chains
    assert (await lineage(other, lie)).nodes[0].written_by == principal


async def test_a_round_trip_keeps_the_characters_of_a_message(cluster: Cluster, tenant: Tenant) -> None:
    said = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="Hello, I drink tea.")
    session = await tenant.create_session("kitchen")
    (message,) = await tenant.append(session.session_id, said)
    kind = memory_pb2.SOURCE_KIND_MESSAGE
    source = memory_pb2.SourceReference(kind=kind, id=message.message_id, start_character=7, end_character=18)
    memory = await create(tenant, "Anna drinks tea.", source)
    export = await tenant.snapshots.ExportData(snapshots_pb2.ExportDataRequest())
    other, third = await cluster.new_tenant(), await cluster.new_tenant()

    await transfer(tenant, other)
    await transfer(other, third)

    exported = [json.loads(line) for line in export.lines.splitlines()]
    (source_of_export,) = next(
        line["memory"]["derived_from"]
        for line in exported
        if line.get("memory", {}).get("memory_id") == memory.memory_id
    )
    assert (source_of_export["start_character"], source_of_export["end_character"]) == (7, 18)
    again = (await third.snapshots.ExportData(snapshots_pb2.ExportDataRequest())).lines
    assert '"start_character": 7' in again or '"start_character":7' in again


@pytest.mark.system
async def test_a_second_round_trip_and_a_repeated_import_change_no_trust(cluster: Cluster, tenant: Tenant) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.1)
    lie = await create(mallory, "Anna drinks gin.")
    second, third = await cluster.new_tenant(), await cluster.new_tenant()

    await transfer(tenant, second)
    await transfer(tenant, second)
    await transfer(second, third)
    await transfer(third, tenant)
    for one in (tenant, second, third):
        await rescore(cluster, one)

    assert [await trust_of(one, lie) for one in (tenant, second, third)] == pytest.approx([0.1] * 3)


@pytest.mark.system
async def test_an_importer_that_names_a_trusted_writer_gains_nothing(cluster: Cluster, tenant: Tenant) -> None:
    await vouch(tenant)
    owner = (await create(tenant, "Anna drinks tea.")).created_by
    mallory, principal = await writer(cluster, tenant, "mallory")
    memory: dict[str, Any] = {"content": "Anna drinks gin.", "created_by": owner, "external_id": "gin"}

    await mallory.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=json.dumps({"memory": memory})))
    unrated = (await lineage(tenant, memory_pb2.Memory(memory_id="gin"))).nodes[0].trust
    await rate(tenant, principal, 0.1)
    await rescore(cluster, tenant)
    rated = (await lineage(tenant, memory_pb2.Memory(memory_id="gin"))).nodes[0].trust

    assert [unrated, rated] == pytest.approx([0.5, 0.1])


async def test_the_rating_of_an_imported_writer_counts_in_every_form_of_unicode(
    cluster: Cluster, tenant: Tenant
) -> None:
    name = unicodedata.normalize("NFD", "jürgen")
    memory: dict[str, Any] = {"content": "Anna drinks gin.", "created_by": name, "external_id": "gin"}
    await tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=json.dumps({"memory": memory})))

    await rate(tenant, name, 0.1)
    await rescore(cluster, tenant)

    assert await trust_of(tenant, memory_pb2.Memory(memory_id="gin")) == pytest.approx(0.1)


@pytest.mark.system
async def test_a_memory_of_many_sources_is_imported_with_as_many_as_an_import_takes(
    cluster: Cluster, tenant: Tenant
) -> None:
    parts = [
        await create(tenant, f"Part {number}.", *(named(DOCUMENT, f"page {number} {page}") for page in range(30)))
        for number in range(3)
    ]
    for other in parts[1:]:
        whole = await create(tenant, f"Whole of {other.content}", *other.derived_from)
        await tenant.memory.MergeMemories(
            scores_pb2.MergeMemoriesRequest(memory_ids=[parts[0].memory_id, other.memory_id, whole.memory_id])
        )
    target = await cluster.new_tenant()

    await transfer(tenant, target)

    request = curation_pb2.GetLineageRequest(memory_ids=[parts[0].memory_id])
    response = await target.curation.GetLineage(request)
    assert len([edge for edge in response.edges if edge.memory_number == 0]) <= 50
    assert response.nodes[0].state == curation_pb2.LINEAGE_STATE_SHOWN
