"""What memories were made of, and the trust that follows from it."""

from __future__ import annotations

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_lineage import (
    AGENT,
    DOCUMENT,
    MEMORY,
    MESSAGE,
    PERSON,
    QUESTION,
    create,
    impacted,
    lineage,
    named,
    of,
    rate,
    recalled,
    rescore,
    trust_of,
    vouch,
    writer,
)
from google.protobuf.timestamp_pb2 import Timestamp

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import archives_pb2, memory_pb2, scores_pb2, snapshots_pb2
from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1.memory_pb2 import SourceReference
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2


async def test_the_chain_of_a_memory_ends_in_messages_documents_and_declared_origins(tenant: Tenant) -> None:
    said = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="I drink green tea.")
    appended = await tenant.gateway.Remember(gateway_pb2.RememberRequest(session_id="kitchen", messages=[said]))
    message = SourceReference(kind=MESSAGE, id=appended.messages[0].message_id)
    fact = await create(tenant, "Anna drinks green tea.", message, named(DOCUMENT, "House rules"))
    summary = await create(tenant, "Of Anna: tea.", of(fact), named(PERSON, "Berta"))

    response = await lineage(tenant, summary)

    kinds = [(node.kind, node.id or node.name, node.is_origin) for node in response.nodes]
    assert kinds == [
        (MEMORY, summary.memory_id, False),
        (MEMORY, fact.memory_id, False),
        (PERSON, "Berta", True),
        (MESSAGE, message.id, True),
        (DOCUMENT, "House rules", True),
    ]
    assert [(edge.memory_number, edge.source_number) for edge in response.edges] == [(0, 1), (0, 2), (1, 3), (1, 4)]
    assert response.nodes[3].label == "kitchen"
    assert {node.trust for node in response.nodes} == {0.5}
    assert not response.truncated


async def test_a_memory_names_the_characters_of_the_message_that_say_it(tenant: Tenant) -> None:
    said = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="Hi 👋, I drink green tea.")
    appended = await tenant.gateway.Remember(gateway_pb2.RememberRequest(session_id="kitchen", messages=[said]))
    start = said.content.index("I drink")
    end, message_id = len(said.content) - 1, appended.messages[0].message_id
    source = SourceReference(kind=MESSAGE, id=message_id, start_character=start, end_character=end)

    memory = await create(tenant, "Anna drinks green tea.", source, named(DOCUMENT, "House rules"))

    edges = (await lineage(tenant, memory)).edges
    assert [(edge.start_character, edge.end_character) for edge in edges] == [(start, end), (0, 0)]


async def test_a_reader_who_does_not_see_the_message_sees_no_characters_of_it(tenant: Tenant) -> None:
    session = await tenant.create_session("diary", subject_id="anna")
    said = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="I drink green tea.")
    (message,) = await tenant.append(session.session_id, said)
    source = SourceReference(kind=MESSAGE, id=message.message_id, start_character=2, end_character=17)
    memory = await create(tenant, "Tea.", source)

    response = await lineage(tenant, memory, visible_to=memory_pb2.ScopeContext(subject_id="berta"))

    assert [node.state for node in response.nodes] == [pb.LINEAGE_STATE_SHOWN, pb.LINEAGE_STATE_HIDDEN]
    assert [(edge.start_character, edge.end_character) for edge in response.edges] == [(0, 0)]


async def test_characters_that_the_message_does_not_have_are_refused(tenant: Tenant) -> None:
    said = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="I drink tea.")
    appended = await tenant.gateway.Remember(gateway_pb2.RememberRequest(session_id="kitchen", messages=[said]))
    message_id = appended.messages[0].message_id

    for start, end in ((0, 13), (5, 5), (7, 3), (-1, 4), (4, 0)):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            source = SourceReference(kind=MESSAGE, id=message_id, start_character=start, end_character=end)
            await create(tenant, "Tea.", source)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await create(tenant, "Tea.", SourceReference(kind=DOCUMENT, name="House rules", end_character=4))


async def test_what_is_not_there_cannot_be_a_source(tenant: Tenant) -> None:
    unknown = "01890a5d-ac96-774b-bcce-b302099a8057"

    for kind in (MEMORY, MESSAGE):
        with refused(grpc.StatusCode.NOT_FOUND, "SOURCE_NOT_FOUND"):
            await create(tenant, "Made of nothing.", SourceReference(kind=kind, id=unknown))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await create(tenant, "Made of spaces.", named(AGENT, "  "))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await create(tenant, "An agent has a name.", SourceReference(kind=AGENT, id=unknown))


async def test_a_memory_is_never_made_of_itself(tenant: Tenant) -> None:
    first = await create(tenant, "First.")
    second = await create(tenant, "Second.", of(first))
    third = await create(tenant, "Third.", of(second))

    for source in (first, third):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "LINEAGE_CYCLE"):
            await tenant.memory.UpdateMemory(
                memory_pb2.UpdateMemoryRequest(
                    memory=memory_pb2.Memory(memory_id=first.memory_id, derived_from=[of(source)]),
                    update_mask={"paths": ["derived_from"]},
                )
            )

    assert len((await lineage(tenant, first)).nodes) == 1


async def test_an_update_replaces_the_sources(tenant: Tenant) -> None:
    memory = await create(tenant, "Made of one.", named(AGENT, "one"))

    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(
            memory=memory_pb2.Memory(memory_id=memory.memory_id, derived_from=[named(AGENT, "two")]),
            update_mask={"paths": ["derived_from"]},
        )
    )

    assert [node.name for node in (await lineage(tenant, memory)).nodes] == ["", "two"]


async def test_trust_is_that_of_the_weakest_link(tenant: Tenant) -> None:
    await vouch(tenant)
    await rate(tenant, "the clinic", 0.9)
    await rate(tenant, "the parrot", 0.2)
    told = await create(tenant, "Anna is allergic to nuts.", named(AGENT, "the clinic"), source="the parrot")
    known = await create(tenant, "Anna is allergic to milk.", named(AGENT, "The  Clinic"), confidence=0.1)
    both = await create(tenant, "Anna is allergic.", of(told), of(known), confidence=1.0)

    assert await trust_of(tenant, told) == pytest.approx(0.2)
    assert await trust_of(tenant, known) == pytest.approx(0.9)
    assert await trust_of(tenant, both) == pytest.approx(0.2)


@pytest.mark.system
async def test_independent_origins_confirm_each_other_and_one_origin_does_not_confirm_itself(tenant: Tenant) -> None:
    await vouch(tenant)
    await rate(tenant, "clinic", 0.8)
    await rate(tenant, "school", 0.7)
    clinic = [await create(tenant, f"Letter {number}.", named(DOCUMENT, "clinic")) for number in range(3)]
    school = await create(tenant, "A note.", named(DOCUMENT, "school"))
    unrated = await create(tenant, "A rumour.", named(AGENT, "a neighbour"))

    repeated = await create(tenant, "By one.", *map(of, clinic))
    confirmed = await create(tenant, "By both.", *map(of, clinic), of(school))
    hearsay = await create(tenant, "By one, and a rumour.", of(clinic[0]), of(unrated))

    assert await trust_of(tenant, repeated) == pytest.approx(0.8)
    assert await trust_of(tenant, confirmed) == pytest.approx(1 - 0.5 * 0.4 * 0.6)
    assert await trust_of(tenant, hearsay) == pytest.approx(0.8)


@pytest.mark.system
async def test_a_distrusted_writer_gains_nothing_by_naming_good_sources(cluster: Cluster, tenant: Tenant) -> None:
    await vouch(tenant)
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.1)
    await rate(tenant, "clinic", 0.9)
    truth = await create(tenant, "Anna drinks green tea in the morning.", named(DOCUMENT, "clinic"))

    lie = await create(mallory, "Anna drinks black coffee in the morning.", of(truth), named(DOCUMENT, "clinic"))
    link = memory_pb2.Link(from_memory_id=lie.memory_id, to_memory_id=truth.memory_id, relation="supersedes")
    await mallory.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))
    hits = await recalled(tenant)

    assert await trust_of(tenant, lie) == pytest.approx(0.1)
    places = {hit.item_id: place for place, hit in enumerate(hits)}
    # A distrusted memory supersedes none.
    assert places[truth.memory_id] < places[lie.memory_id]
    found = hits[places[lie.memory_id]]
    assert [found.trust, hits[places[truth.memory_id]].trust] == pytest.approx([0.1, 0.9])
    parts = {part.signal: part.value * part.weight for part in found.components}
    assert sum(parts.values()) == pytest.approx(found.score)
    assert parts["trust"] < 0


async def test_a_new_text_is_as_good_as_its_writer(cluster: Cluster, tenant: Tenant) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.1)
    memory = await create(tenant, "Anna drinks tea.")
    changed = memory_pb2.Memory(memory_id=memory.memory_id, content="Anna drinks gin.")
    text = {"paths": ["content"]}

    await mallory.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=text))
    forged = await trust_of(tenant, memory)
    # A change that leaves the text does not make it another's.
    tagged = memory_pb2.Memory(memory_id=memory.memory_id, tags=["drinks"])
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=tagged, update_mask={"paths": ["tags"]}))
    touched = await trust_of(tenant, memory)
    changed.content = "Anna drinks water."
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=text))

    assert [forged, touched] == pytest.approx([0.1, 0.1])
    assert await trust_of(tenant, memory) == 0.5


async def test_a_rating_reaches_all_that_derives_from_the_source(cluster: Cluster, tenant: Tenant) -> None:
    told = await create(tenant, "Anna drinks coffee in the morning.", source="parrot")
    derived = await create(tenant, "In the morning Anna is awake, by coffee.", of(told))
    other = await create(tenant, "In the morning Anna drinks green tea.")

    await rate(tenant, "Parrot", 0.2)
    await rescore(cluster, tenant)
    distrusted = {hit.item_id: hit.trust for hit in await recalled(tenant) if hit.HasField("trust")}
    await tenant.curation.DeleteSourceTrust(pb.DeleteSourceTrustRequest(source="parrot"))
    await rescore(cluster, tenant)

    assert distrusted == pytest.approx({told.memory_id: 0.2, derived.memory_id: 0.2})
    hits = await recalled(tenant)
    assert not any(hit.HasField("trust") for hit in hits)
    assert {hit.item_id for hit in hits} == {told.memory_id, derived.memory_id, other.memory_id}


@pytest.mark.system
async def test_a_least_trust_leaves_out_what_is_below(tenant: Tenant) -> None:
    await vouch(tenant)
    await rate(tenant, "clinic", 0.9)
    await rate(tenant, "parrot", 0.2)
    good = await create(tenant, "Anna drinks green tea in the morning.", named(DOCUMENT, "clinic"))
    plain = await create(tenant, "Anna drinks water in the morning.", named(AGENT, "a neighbour"))
    bad = await create(tenant, "Anna drinks coffee in the morning.", named(AGENT, "parrot"))

    async def ids(least: float) -> set[str]:
        return {hit.item_id for hit in await recalled(tenant, min_trust=least)}

    assert await ids(0.0) == {good.memory_id, plain.memory_id, bad.memory_id}
    assert await ids(0.5) == {good.memory_id, plain.memory_id}
    assert await ids(0.6) == {good.memory_id}
    context = await tenant.gateway.BuildContext(
        gateway_pb2.BuildContextRequest(
            recall=gateway_pb2.RecallRequest(query=QUESTION, min_trust=0.6), cite_origins=True
        )
    )
    (citation,) = context.citations
    assert citation.item_id == good.memory_id
    assert citation.trust == pytest.approx(0.9)
    assert [origin.name for origin in citation.origins] == ["clinic"]


@pytest.mark.system
async def test_an_erased_source_is_named_as_erased_and_what_derives_from_it_is_listed(
    cluster: Cluster, tenant: Tenant
) -> None:
    await rate(tenant, "clinic", 0.9)
    letter = await create(tenant, "A letter.", named(DOCUMENT, "clinic"))
    fact = await create(tenant, "Anna drinks green tea in the morning.", of(letter))
    summary = await create(tenant, "Tea.", of(fact))

    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection={"memory_ids": [letter.memory_id]}))
    await rescore(cluster, tenant)

    nodes = (await lineage(tenant, summary)).nodes
    assert [node.state for node in nodes] == [pb.LINEAGE_STATE_SHOWN] * 2 + [pb.LINEAGE_STATE_ERASED]
    assert (nodes[2].id, nodes[2].label, nodes[2].written_by) == ("", "", "")
    listed = {one.memory_id: one for one in await impacted(tenant, of(letter))}
    assert set(listed) == {fact.memory_id, summary.memory_id}
    assert listed[fact.memory_id].has_erased_source
    assert {one.trust for one in listed.values()} == {0.5}


@pytest.mark.system
async def test_an_erased_message_keeps_its_trust_alone(cluster: Cluster, tenant: Tenant) -> None:
    said = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="I drink gin.", name="parrot")
    appended = await tenant.gateway.Remember(gateway_pb2.RememberRequest(session_id="kitchen", messages=[said]))
    message = SourceReference(kind=MESSAGE, id=appended.messages[0].message_id)
    await rate(tenant, "Parrot", 0.2)
    memory = await create(tenant, "Anna drinks gin.", message)
    before = await trust_of(tenant, memory)

    await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="kitchen"))
    await rescore(cluster, tenant)

    nodes = (await lineage(tenant, memory)).nodes
    assert [node.state for node in nodes] == [pb.LINEAGE_STATE_SHOWN, pb.LINEAGE_STATE_ERASED]
    assert [before, nodes[0].trust, nodes[1].trust] == pytest.approx([0.2, 0.2, 0.2])
    (listed,) = await impacted(tenant, message)
    assert (listed.memory_id, listed.has_erased_source) == (memory.memory_id, True)


@pytest.mark.system
async def test_trust_does_not_rise_while_a_source_is_in_cold_storage(cluster: Cluster, tenant: Tenant) -> None:
    await vouch(tenant)
    await rate(tenant, "parrot", 0.2)
    long_ago, now = {"seconds": 1_577_836_800}, Timestamp()
    source = await create(tenant, "Anna drinks gin.", source="parrot", create_time=long_ago, session_id="old")
    memory = await create(tenant, "Gin for Anna.", of(source))
    now.GetCurrentTime()
    archive = archives_pb2.ArchiveMemoriesRequest(idle_since_time=now, session_id="old")
    archived = await tenant.history.ArchiveMemories(archive)

    await rate(tenant, "parrot", 0.9)
    await rescore(cluster, tenant)
    (away,) = await impacted(tenant, of(source))
    state = (await lineage(tenant, memory)).nodes[1].state
    request = archives_pb2.UnarchiveMemoriesRequest(archive_id=archived.archive.archive_id)
    await tenant.history.UnarchiveMemories(request)
    await rescore(cluster, tenant)
    (back,) = await impacted(tenant, of(source))

    assert state == pb.LINEAGE_STATE_HIDDEN
    assert [away.trust, back.trust] == pytest.approx([0.2, 0.9])


@pytest.mark.system
async def test_what_a_name_touched_is_listed_page_by_page(cluster: Cluster, tenant: Tenant) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    written = [await create(mallory, f"Number {number}.") for number in range(3)]
    derived = await create(tenant, "Of number 1.", of(written[1]))
    declared = await create(tenant, "By the parrot.", named(AGENT, "Parrot"))
    sourced = await create(tenant, "From the parrot.", source="parrot")

    by_writer = {one.memory_id for one in await impacted(tenant, named(AGENT, principal))}
    by_name = {one.memory_id for one in await impacted(tenant, named(AGENT, "parrot"))}

    assert {one.memory_id for one in written} | {derived.memory_id} < by_writer
    assert declared.memory_id not in by_writer
    assert by_name == {declared.memory_id, sourced.memory_id}


async def test_a_source_that_the_reader_may_not_see_is_hidden(tenant: Tenant) -> None:
    secret = await create(
        tenant, "Berta's diary.", named(PERSON, "Berta"), scope=memory_pb2.SCOPE_USER, subject_id="berta"
    )
    memory = await create(tenant, "Someone is ill.", of(secret))

    seen = (await lineage(tenant, memory, visible_to={"subject_id": "berta"})).nodes
    hidden = await lineage(tenant, memory, visible_to={"subject_id": "anna"})

    assert [node.state for node in seen] == [pb.LINEAGE_STATE_SHOWN] * 3
    assert [node.state for node in hidden.nodes] == [pb.LINEAGE_STATE_SHOWN, pb.LINEAGE_STATE_HIDDEN]
    assert (hidden.nodes[1].id, hidden.nodes[1].label, hidden.nodes[1].written_by) == ("", "", "")
    assert "berta" not in str(hidden).lower()


async def test_a_merge_records_its_parts_and_is_worth_the_weakest(cluster: Cluster, tenant: Tenant) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.1)
    truth = await create(tenant, "Anna drinks green tea.")
    lie = await create(mallory, "Anna drinks gin.")
    child = await create(tenant, "Tea it is.", of(truth))

    await tenant.memory.MergeMemories(
        scores_pb2.MergeMemoriesRequest(memory_ids=[truth.memory_id, child.memory_id, lie.memory_id])
    )

    response = await lineage(tenant, truth)
    assert response.nodes[0].trust == pytest.approx(0.1)
    # The child derives from the memory that it is merged into: what it was made of is named in its place.
    assert {node.id for node in response.nodes if node.kind == MEMORY} == {truth.memory_id, lie.memory_id}
    assert {node.name for node in response.nodes if node.kind == AGENT} == {truth.created_by}


async def test_consolidation_keeps_the_trusted_copy_and_a_distrusted_copy_takes_nothing_from_it(
    cluster: Cluster, tenant: Tenant
) -> None:
    await vouch(tenant)
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.1)
    await rate(tenant, "clinic", 0.8)
    truth = await create(tenant, "Anna drinks green tea.", named(DOCUMENT, "clinic"))
    copies = [
        await create(mallory, content, importance=1.0, confidence=1.0)
        for content in ("Anna drinks green tea.", "Anna drinks green tea.")
    ]

    response = await tenant.memory.ConsolidateMemories(scores_pb2.ConsolidateMemoriesRequest())

    (group,) = response.groups
    assert group.kept_memory_id == truth.memory_id
    assert set(group.archived_memory_ids) == {copy.memory_id for copy in copies}
    kept = await lineage(tenant, truth)
    assert kept.nodes[0].trust == pytest.approx(0.8)
    roles = [edge.role for edge in kept.edges if edge.memory_number == 0]
    assert roles == [pb.SOURCE_ROLE_PART, pb.SOURCE_ROLE_REPEAT, pb.SOURCE_ROLE_REPEAT]


async def test_an_agent_does_not_rate_itself(cluster: Cluster, tenant: Tenant) -> None:
    permissions = ["memory.read", "memory.write"]
    request = auth_pb2.CreateApiKeyRequest(display_name="mallory", permissions=permissions)
    key = await tenant.auth.CreateApiKey(request)
    mallory = cluster.with_key(key.secret)
    line = '{"source_trust": {"source_key": "parrot", "trust": 1.0}}'

    for call in (
        mallory.curation.SetSourceTrust(pb.SetSourceTrustRequest(source="parrot", trust=1.0)),
        mallory.curation.DeleteSourceTrust(pb.DeleteSourceTrustRequest(source="parrot")),
        mallory.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=line)),
    ):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await call


@pytest.mark.system
async def test_many_lies_do_not_crowd_the_truth_out(cluster: Cluster, tenant: Tenant) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.05)
    truth = await create(tenant, "In the morning it is always green tea, said Anna.")
    lies = [
        memory_pb2.Memory(content=f"What does Anna drink in the morning? Anna drinks coffee number {number}.")
        for number in range(450)
    ]
    for start in range(0, len(lies), 150):
        await mallory.memory.BatchCreateMemories(
            memory_pb2.BatchCreateMemoriesRequest(memories=lies[start : start + 150], defer_embedding=True)
        )

    hits = await recalled(tenant, limit=5, mode=recall_pb2.SEARCH_MODE_KEYWORD)

    assert hits[0].item_id == truth.memory_id


async def test_an_export_brings_the_sources_along(cluster: Cluster, tenant: Tenant) -> None:
    first = await create(tenant, "First.", named(DOCUMENT, "a book"))
    second = await create(tenant, "Second.", of(first))
    export = await tenant.snapshots.ExportData(snapshots_pb2.ExportDataRequest())
    other = await cluster.new_tenant()

    await other.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=export.lines))

    nodes = (await lineage(other, second)).nodes
    assert [node.id or node.name for node in nodes] == [second.memory_id, first.memory_id, "a book"]


async def test_an_import_of_another_system_names_it_as_the_origin(tenant: Tenant) -> None:
    document = '{"format": "memoryvault_export_v1", "memories": [{"id": "m1", "content": "Anna drinks tea."}]}'
    vault = snapshots_pb2.IMPORT_FORMAT_MEMORYVAULT_EXPORT_V1

    await tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=document, format=vault))

    response = await tenant.curation.GetLineage(pb.GetLineageRequest(memory_ids=["m1"]))
    assert [(node.kind, node.name) for node in response.nodes[1:]] == [(memory_pb2.SOURCE_KIND_IMPORT, "MemoryVault")]
