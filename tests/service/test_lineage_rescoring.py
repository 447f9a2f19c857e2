"""A rating computes again what the source made, under any spelling of its name, and what derives from it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fix_cluster import Cluster, Stubs, Tenant
from fix_lineage import AGENT, DOCUMENT, MESSAGE, create, named, of, rate, recalled, rescore, vouch, writer

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import archives_pb2, curation_pb2, memory_pb2
from skein.memory.v1.memory_pb2 import SourceReference
from skein.session.v1 import session_pb2
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import to_timestamp


async def said(caller: Stubs, content: str, **fields: str) -> SourceReference:
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=content, **fields)  # type: ignore[arg-type] # texts.
    request = gateway_pb2.RememberRequest(session_id="kitchen", messages=[message])
    return SourceReference(kind=MESSAGE, id=(await caller.gateway.Remember(request)).messages[0].message_id)


async def stored_trusts(tenant: Stubs, memories: Sequence[memory_pb2.Memory]) -> list[float]:
    """Return the trust by which memories are ranked."""
    hits = {hit.item_id: hit for hit in await recalled(tenant, limit=50)}
    return [hits[one.memory_id].trust if hits[one.memory_id].HasField("trust") else 0.5 for one in memories]


@pytest.mark.system
async def test_a_rating_reaches_what_names_the_source_in_any_spelling_and_what_derives_from_it(
    cluster: Cluster, tenant: Tenant
) -> None:
    made = [
        await create(tenant, "Anna drinks gin, says one.", source="Parrot  TWO"),
        await create(tenant, "Anna drinks rum, says one.", source="parrot two"),
        await create(tenant, "Anna drinks ale, says one.", source_agent=" PARROT two"),
        await create(tenant, "Anna drinks wine, says one.", named(AGENT, "parrot Two")),
        await create(tenant, "Anna drinks beer, it was said.", await said(tenant, "Beer.", name="Parrot Two")),
        await create(tenant, "Anna drinks port, it was said.", await said(tenant, "Port.", sender_id="parrot two")),
    ]
    derived = [await create(tenant, "Of Anna: gin.", of(made[0])), await create(tenant, "Of Anna: beer.", of(made[4]))]
    derived.append(await create(tenant, "In short: Anna and gin.", of(derived[0])))
    others = [await create(tenant, "Anna drinks tea.", source="parrot"), await create(tenant, "Anna drinks milk.")]
    memories = [*made, *derived, *others]

    await rate(tenant, "PARROT TWO", 0.2)
    await rescore(cluster, tenant)
    lowered = await stored_trusts(tenant, memories)
    await tenant.curation.DeleteSourceTrust(curation_pb2.DeleteSourceTrustRequest(source="parrot two"))
    await rescore(cluster, tenant)

    assert lowered == pytest.approx([0.2] * (len(made) + len(derived)) + [0.5] * len(others))
    assert await stored_trusts(tenant, memories) == [0.5] * len(memories)


async def test_a_rating_of_a_principal_reaches_what_it_wrote_and_what_it_changed(
    cluster: Cluster, tenant: Tenant
) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    written = await create(mallory, "Anna drinks gin.")
    message = await said(mallory, "Anna drinks rum.")
    reported = await create(tenant, "Anna drinks rum, it was said.", message)
    honest = await create(tenant, "Anna drinks tea.")

    await rate(tenant, principal, 0.1)
    await rescore(cluster, tenant)

    assert await stored_trusts(tenant, [written, reported, honest]) == pytest.approx([0.1, 0.1, 0.5])


@pytest.mark.system
async def test_trust_is_computed_again_when_a_rating_parts_two_texts_of_one_source(
    cluster: Cluster, tenant: Tenant
) -> None:
    await vouch(tenant)
    await rate(tenant, "clinic", 0.8)
    first = await create(tenant, "Anna drinks tea, says the clinic.", named(DOCUMENT, "clinic"))
    second = await create(tenant, "Anna drinks green tea.", named(DOCUMENT, "clinic"), source="school")
    both = await create(tenant, "Anna and her tea.", of(first), of(second))
    before = await stored_trusts(tenant, [first, second, both])

    await rate(tenant, "school", 0.7)
    await rescore(cluster, tenant)

    assert before == pytest.approx([0.8, 0.8, 0.8])
    assert await stored_trusts(tenant, [first, second, both]) == pytest.approx([0.8, 0.7, 1 - 0.5 * 0.4 * 0.6])


@pytest.mark.system
async def test_a_memory_in_cold_storage_while_its_writer_was_rated_comes_back_distrusted(
    cluster: Cluster, tenant: Tenant
) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    lie = await create(mallory, "Anna drinks gin.", create_time={"seconds": 1_577_836_800}, session_id="old")
    request = archives_pb2.ArchiveMemoriesRequest(idle_since_time=to_timestamp(now()), session_id="old")
    archived = await tenant.history.ArchiveMemories(request)
    await rate(tenant, principal, 0.1)
    await rescore(cluster, tenant)

    archive_id = archived.archive.archive_id
    await tenant.history.UnarchiveMemories(archives_pb2.UnarchiveMemoriesRequest(archive_id=archive_id))

    assert await stored_trusts(tenant, [lie]) == pytest.approx([0.1])
