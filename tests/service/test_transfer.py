from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from fix_calls import struct
from fix_cluster import Tenant, refused
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from skein.memory.v1 import blocks_pb2, curation_pb2, memory_pb2
from skein.memory.v1 import snapshots_pb2 as pb
from skein.recall.v1 import recall_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT
VAULT = pb.IMPORT_FORMAT_MEMORYVAULT_EXPORT_V1
# What is the importer's, not the exporter's.
RECORD = {
    "revision", "record_time", "created_by", "updated_by", "link_id", "resolution_id", "character_count",
    "nearly_full", "source_trust_id", "content_hash", "writers",
}  # fmt: skip


async def exported(tenant: Tenant, page_size: int = 3) -> list[str]:
    """Read a whole export in small portions; return its lines."""
    request, text = pb.ExportDataRequest(page_size=page_size), ""
    while True:
        page = await tenant.snapshots.ExportData(request)
        assert page.item_count <= page_size
        text += page.lines
        if not page.next_page_token:
            return text.splitlines()
        request.page_token = page.next_page_token


async def imported(tenant: Tenant, lines: Any, **fields: Any) -> pb.ImportDataResponse:
    text = lines if isinstance(lines, str) else "\n".join(lines)
    return await tenant.snapshots.ImportData(pb.ImportDataRequest(lines=text, **fields))


def line(kind: str, **fields: Any) -> str:
    return json.dumps({kind: fields})


def items(lines: list[str]) -> list[Any]:
    """Return what lines say, without what is the importer's, in one order."""
    payloads = [json.loads(text) for text in lines[1:]]

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(inner) for name, inner in value.items() if name not in RECORD}
        return value

    return sorted((bare(item) for item in payloads), key=lambda item: json.dumps(item, sort_keys=True))


def errors(response: pb.ImportDataResponse) -> list[tuple[int, str, str]]:
    return [(error.line, error.kind, error.reason) for error in response.errors]


async def listed(tenant: Tenant) -> list[memory_pb2.Memory]:
    page = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(show_archived=True))
    return list(page.memories)


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
MEMORY = st.builds(
    lambda content, title, tags, source, confidence, importance, metadata, scope, archived, subject_id: (
        memory_pb2.Memory(
            content=f"x{content}",
            title=title,
            tags=sorted(tags),
            source=source,
            confidence=confidence,
            importance=importance,
            metadata=None if metadata is None else struct(**metadata),
            scope=scope if subject_id else memory_pb2.SCOPE_GLOBAL,
            archive_time={"seconds": 1_700_000_000} if archived else None,
            create_time={"seconds": 1_600_000_000},
            subject_id=subject_id,
        )
    ),
    TEXT,
    TEXT,
    st.sets(TEXT.filter(bool), max_size=3),
    TEXT,
    st.floats(0, 1),
    st.floats(0, 1),
    st.none() | st.dictionaries(TEXT, st.none() | st.booleans() | st.floats(-9, 9) | TEXT | st.lists(TEXT), max_size=3),
    st.sampled_from([memory_pb2.SCOPE_GLOBAL, memory_pb2.SCOPE_USER]),
    st.booleans(),
    TEXT,
)


async def fill(
    tenant: Tenant, memories: list[memory_pb2.Memory], pairs: list[tuple[int, int]], texts: list[str]
) -> None:
    made = await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    ids = [memory.memory_id for memory in made.memories]
    for start, end in {(a % len(ids), b % len(ids)) for a, b in pairs}:
        if start == end:
            continue
        linked = memory_pb2.Link(from_memory_id=ids[start], to_memory_id=ids[end], label=texts[0], weight=0.25)
        await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=linked))
    for n, text in enumerate(texts):
        block = blocks_pb2.Block(block_id=f"block {n}", label=f"label {n}", value=text, metadata=struct(a=text))
        await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="agent"))
        trust = curation_pb2.SetSourceTrustRequest(source=f"source {n}", trust=0.25, notes=text)
        await tenant.curation.SetSourceTrust(trust)
    if len(ids) > 1:
        await tenant.curation.ResolveEntity(
            curation_pb2.ResolveEntityRequest(alias_memory_id=ids[0], canonical_memory_id=ids[1], confidence=0.5)
        )
        conflict = curation_pb2.ResolveConflictRequest(
            a_memory_id=ids[0], b_memory_id=ids[1], status=curation_pb2.CONFLICT_STATUS_DISMISSED, note=texts[0]
        )
        await tenant.curation.ResolveConflict(conflict)


# Without shrinking, as each example takes two tenants.
@pytest.mark.system
@settings(
    max_examples=8,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    memories=st.lists(MEMORY, min_size=1, max_size=8),
    pairs=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=5),
    texts=st.lists(TEXT, min_size=1, max_size=3),
)
async def test_a_round_trip_loses_nothing(
    cluster: Any, memories: list[memory_pb2.Memory], pairs: list[tuple[int, int]], texts: list[str]
) -> None:
    one, other = await cluster.new_tenant(), await cluster.new_tenant()
    await fill(one, memories, pairs, texts)

    lines = await exported(one)
    done = await imported(other, lines)

    assert errors(done) == []
    assert items(await exported(other, 1000)) == items(lines)
    again = await imported(other, lines)
    assert not again.counts.created
    assert not again.counts.updated
    assert items(await exported(other)) == items(lines)


async def test_an_export_begins_with_a_header_and_is_as_of_its_beginning(tenant: Tenant) -> None:
    names = [f"n{n}" for n in range(6)]
    made = await tenant.memory.BatchCreateMemories(
        memory_pb2.BatchCreateMemoriesRequest(
            memories=[memory_pb2.Memory(content=name, external_id=name) for name in names]
        )
    )
    linked = memory_pb2.Link(from_memory_id="n0", to_memory_id="n1")
    link = (await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=linked))).link
    request = pb.ExportDataRequest(page_size=2)
    first = await tenant.snapshots.ExportData(request)

    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="later")))
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id="n5"))
    mask = {"paths": ["content"]}
    changed = memory_pb2.Memory(memory_id="n4", content="changed")
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=mask))
    await tenant.links.DeleteLink(memory_pb2.DeleteLinkRequest(link_id=link.link_id))
    lines, token = first.lines, first.next_page_token
    while token:
        page = await tenant.snapshots.ExportData(pb.ExportDataRequest(page_size=2, page_token=token))
        assert page.as_of_time == first.as_of_time
        lines, token = lines + page.lines, page.next_page_token

    header, *rest = [json.loads(text) for text in lines.splitlines()]
    assert (header["format"], header["secrets"]) == ("skein_export_v1", "masked")
    assert [entry["memory"]["content"] for entry in rest if "memory" in entry] == names
    assert [entry["link"]["link_id"] for entry in rest if "link" in entry] == [link.link_id]
    assert [entry["memory"]["memory_id"] for entry in rest[:6]] == [memory.memory_id for memory in made.memories]


async def test_an_imported_fact_takes_the_place_of_one_with_its_key_and_subject_alone(tenant: Tenant) -> None:
    for who in ("ann", "bob"):
        fact = memory_pb2.Memory(type="fact", key="Phone", content="old", subject_id=who)
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=fact))

    done = await imported(
        tenant,
        [
            line("memory", type="fact", key="Phone", content="new", subject_id="ann"),
            line("memory", type="fact", key="PHONE", content="new", subject_id="bob"),
            line("memory", type="fact", key="phone", content="new"),
        ],
        mode=pb.IMPORT_MODE_OVERWRITE,
    )

    assert errors(done) == []
    assert (dict(done.counts.updated), dict(done.counts.created)) == ({"memory": 2}, {"memory": 1})
    facts = {(one.subject_id, one.key, one.content) for one in await listed(tenant)}
    assert facts == {("ann", "Phone", "new"), ("bob", "PHONE", "new"), ("", "phone", "new")}


async def test_modes_say_what_becomes_of_what_is_there(tenant: Tenant) -> None:
    await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="old", external_id="m", tags=["a"]))
    )
    given_line = line("memory", content="new", external_id="m", tags=["b"])

    async def after(mode: pb.ImportMode, **fields: Any) -> tuple[str, list[str]]:
        await imported(tenant, line("memory", content="new", external_id="m", tags=["b"], **fields), mode=mode)
        read = await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id="m"))
        return read.memory.content, list(read.memory.tags)

    dry = await imported(tenant, given_line, mode=pb.IMPORT_MODE_OVERWRITE, dry_run=True)
    assert dict(dry.counts.updated) == {"memory": 1}
    assert await after(pb.IMPORT_MODE_SKIP_EXISTING) == ("old", ["a"])
    assert await after(pb.IMPORT_MODE_MERGE) == ("old", ["a", "b"])
    assert await after(pb.IMPORT_MODE_MERGE, update_time="2100-01-01T00:00:00Z") == ("new", ["a", "b"])
    assert await after(pb.IMPORT_MODE_OVERWRITE) == ("new", ["b"])


async def test_lines_at_fault_are_named_and_the_others_stored(tenant: Tenant) -> None:
    done = await imported(
        tenant,
        [
            '{"format": "skein_export_v1"}',
            "not json",
            line("memory", content="good", external_id="m"),
            line("memory", content=" "),
            line("memory", content="x", no_such_field=1),
            line("link", from_memory_id="m", to_memory_id="nobody"),
            line("no_kind", a=1),
            line("memory", content="twice", external_id="m"),
            line("memory", content="x", confidence=7),
            line("block", block={"block_id": "b", "label": "human", "value": "x" * 2001}),
            line("alias", alias_memory_id="m", canonical_memory_id="m", confidence=1),
            "",
        ],
    )

    assert errors(done) == [
        (2, "", "LINE_INVALID"),
        (4, "memory", "CONTENT_EMPTY"),
        (5, "memory", "LINE_INVALID"),
        (6, "link", "MEMORY_NOT_FOUND"),
        (7, "", "LINE_INVALID"),
        (8, "memory", "DUPLICATE_IN_BATCH"),
        (9, "memory", "INVALID_FIELD"),
        (10, "block", "BLOCK_TOO_LONG"),
        (11, "alias", "ALIAS_CYCLE"),
    ]
    assert dict(done.counts.created) == {"memory": 1}
    assert [memory.content for memory in await listed(tenant)] == ["good"]


async def test_another_format_is_refused(tenant: Tenant) -> None:
    for text, kind in (
        ('{"format": "other"}', pb.IMPORT_FORMAT_SKEIN_EXPORT_V1),
        ("nonsense", VAULT),
        ("[]", VAULT),
        ("{}", VAULT),
        ('{"format": "other", "memories": []}', VAULT),
        ('{"memories": 5}', VAULT),
    ):
        with refused(INVALID, "IMPORT_FORMAT_UNKNOWN"):
            await imported(tenant, text, format=kind)
    with refused(INVALID, "INVALID_FIELD"):
        await imported(tenant, "\n".join([line("memory", content="x")] * 1001))


@pytest.mark.system
async def test_memoryvault_s_export_is_read(tenant: Tenant) -> None:
    first, second = "0b5c2a2e-7d6f-4d0c-9a43-3f0a6f0d9c11", "1b5c2a2e-7d6f-4d0c-9a43-3f0a6f0d9c11"
    document = {
        "schema": "memoryvault_export_v1",
        "memories": [
            {
                "id": first, "type": "fact", "key": "tea", "title": None, "content": "likes tea", "tags": "a, b,a,",
                "source": "calendar", "confidence": 0.9, "importance": 0.8, "archived_at": None,
                "created_at": 1_600_000_000, "updated_at": 1_600_000_100,
            },
            {
                "id": second, "type": "journal", "title": "t", "content": "a day", "tags": None,
                "archived_at": 1_650_000_000, "created_at": 1_600_000_000, "updated_at": 1_600_000_000,
            },
            {"id": "broken"},
        ],
        "links": [{"id": "x", "from_id": first, "to_id": second, "relation_type": "supports", "label": "l",
                   "created_at": 1_600_000_000}],
        "source_trust": [{"source_key": "calendar", "trust": 0.75, "notes": "n"}],
        "aliases": [{"canonical_memory_id": first, "alias_memory_id": second, "note": "n", "confidence": 0.9}],
        "conflict_resolutions": [{"pair_key": "x", "a_id": first, "b_id": second, "status": "superseded",
                                  "canonical_id": first, "note": "n"}],
    }  # fmt: skip

    done = await imported(tenant, json.dumps(document), format=VAULT)

    assert errors(done) == [(3, "memory", "LINE_INVALID")]
    assert dict(done.counts.created) == {"memory": 2, "link": 1, "source_trust": 1, "alias": 1, "conflict": 1}
    read = (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=first))).memory
    assert (read.type, read.key, read.content, list(read.tags)) == ("fact", "tea", "likes tea", ["a", "b"])
    assert (read.confidence, read.importance, read.create_time.seconds) == (0.9, 0.8, 1_600_000_000)
    other = (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=second))).memory
    assert (other.type, other.archive_time.seconds) == ("journal", 1_650_000_000)
    links = (await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id=first))).links
    assert [(link.relation, link.label) for link in links] == [("supports", "l")]
    again = await imported(tenant, json.dumps(document), format=VAULT)
    assert not again.counts.created
    assert not again.counts.updated


async def test_a_purged_memory_is_not_imported(tenant: Tenant) -> None:
    made = await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="secret")))
    lines = await exported(tenant)
    await tenant.memory.PurgeMemories(
        memory_pb2.PurgeMemoriesRequest(selection=memory_pb2.MemorySelection(memory_ids=[made.memory.memory_id]))
    )

    done = await imported(tenant, lines)

    assert errors(done) == [(2, "memory", "PURGED")]
    assert await listed(tenant) == []


async def test_an_import_may_name_nothing_of_another_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    made = await other_tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="theirs"))
    )
    memory_id = made.memory.memory_id

    own = line("memory", memory_id=memory_id, content="mine", create_time=made.memory.create_time.ToJsonString())
    done = await imported(tenant, [own], mode=pb.IMPORT_MODE_OVERWRITE)

    assert dict(done.counts.created) == {"memory": 1}
    assert [memory.content for memory in await listed(other_tenant)] == ["theirs"]
    assert [(memory.content, memory.memory_id) for memory in await listed(tenant)] == [("mine", memory_id)]
    linked = await imported(other_tenant, line("link", from_memory_id=memory_id, to_memory_id=memory_id))
    assert errors(linked) == [(1, "link", "LINK_TO_ITSELF")]


async def test_an_imported_memory_is_recalled_by_its_words(tenant: Tenant) -> None:
    await imported(tenant, line("memory", content="the kettle is red"))

    response = await tenant.recall.Recall(recall_pb2.RecallRequest(query="kettle"))

    assert [hit.memory.content for hit in response.hits] == ["the kettle is red"]


@pytest.mark.system
@pytest.mark.parametrize("size", [1, 1000])
async def test_portions_stay_within_what_clients_take(tenant: Tenant, size: int) -> None:
    memories = [memory_pb2.Memory(content="語" * 100_000) for _ in range(13)]
    for start in range(0, 13, 5):
        await tenant.memory.BatchCreateMemories(
            memory_pb2.BatchCreateMemoriesRequest(memories=memories[start : start + 5])
        )

    assert len(await exported(tenant, size)) == 14


async def test_a_secret_stays_where_it_is(tenant: Tenant, other_tenant: Tenant) -> None:
    vault = memory_pb2.Memory(type="knowledge_vault", title="the door", secret_value="open sesame")
    made = await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=vault))
    lines = await exported(tenant)

    done = await imported(other_tenant, lines)
    await imported(tenant, lines, mode=pb.IMPORT_MODE_OVERWRITE)

    assert "sesame" not in "".join(lines)
    assert dict(done.counts.created) == {"memory": 1}
    name = made.memory.memory_id
    revealed = await tenant.memory.RevealSecret(memory_pb2.RevealSecretRequest(memory_id=name))
    assert revealed.secret_value == "open sesame"
    with refused(grpc.StatusCode.NOT_FOUND, "SECRET_NOT_FOUND"):
        await other_tenant.memory.RevealSecret(memory_pb2.RevealSecretRequest(memory_id=name))


@pytest.mark.parametrize("kind", ["knowledge_vault", "note"])
async def test_an_item_that_brings_a_secret_is_refused_by_name(tenant: Tenant, kind: str) -> None:
    with_secret = line("memory", type=kind, title="the door", content="c", secret_value="open sesame")

    done = await imported(tenant, [with_secret, line("memory", content="plain")])

    (error,) = done.errors
    assert (error.line, error.kind, error.reason, error.field) == (1, "memory", "SECRET_NOT_IMPORTED", "secret_value")
    assert [memory.content for memory in await listed(tenant)] == ["plain"]
