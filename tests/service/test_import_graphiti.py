"""Moving in from Graphiti and Zep: entities, facts with their time of validity, episodes, and conversations."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import changed, move_in, outcome, refusal_of, refusals, remaining_counts
from google.protobuf.json_format import MessageToDict

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2

AT = "2026-03-02T07:12:00Z"
ANNA, GRAZ, VIENNA, TALK, HOME = "node-anna", "node-graz", "node-vienna", "episode-1", "community-1"
NODE: dict[str, Any] = {"group_id": "anna", "labels": [], "created_at": AT, "name_embedding": None, "summary": "",
                        "attributes": {}}  # fmt: skip
EDGE: dict[str, Any] = {"group_id": "anna", "created_at": AT, "fact_embedding": None, "episodes": [],
                        "expired_at": None, "valid_at": None, "invalid_at": None, "reference_time": None,
                        "attributes": {}, "source_node_uuid": ANNA}  # fmt: skip
# Graphiti's models as model_dump(mode="json") writes them.
GRAPH: dict[str, Any] = {
    "nodes": [
        {**NODE, "uuid": ANNA, "name": "Anna", "labels": ["Entity", "Person"], "summary": "Lives in Graz",
         "attributes": {"age": 41}, "name_embedding": [0.1, 0.2]},
        {**NODE, "uuid": GRAZ, "name": "Graz"},
        {**NODE, "uuid": VIENNA, "name": "Vienna"},
        {**NODE, "uuid": "node-nameless", "name": ""},
    ],
    "edges": [
        {**EDGE, "uuid": "edge-1", "name": "LIVES_IN", "fact": "Anna lives in Vienna", "target_node_uuid": VIENNA,
         "valid_at": "2019-01-01T00:00:00Z", "invalid_at": "2024-05-01T00:00:00Z", "expired_at": AT},
        {**EDGE, "uuid": "edge-2", "name": "LIVES_IN", "fact": "Anna lives in Graz", "target_node_uuid": GRAZ,
         "valid_at": "2024-05-01T00:00:00Z", "episodes": [TALK, "episode-gone"]},
        {**EDGE, "uuid": "edge-3", "name": "WORKS_IN", "fact": "", "target_node_uuid": "node-gone", "expired_at": AT},
        {**EDGE, "uuid": "edge-4", "name": "VISITED", "fact": "Anna visited Vienna", "target_node_uuid": VIENNA,
         "valid_at": AT, "invalid_at": AT},
    ],
    "episodes": [
        {"uuid": TALK, "name": "talk", "group_id": "anna", "labels": [], "created_at": AT, "source": "message",
         "source_description": "chat", "content": "Anna: I moved to Graz", "valid_at": "2024-05-02T09:00:00Z",
         "entity_edges": ["edge-2"], "episode_metadata": None},
    ],
    "communities": [{**NODE, "uuid": HOME, "name": "Home", "summary": "Anna and where she lives"}],
    "community_edges": [{"uuid": "l1", "group_id": "anna", "source_node_uuid": HOME, "target_node_uuid": ANNA,
                         "created_at": AT}],
    "episodic_edges": [{"uuid": "l2", "group_id": "anna", "source_node_uuid": TALK, "target_node_uuid": GRAZ},
                       {"uuid": "l3", "group_id": "anna", "source_node_uuid": TALK, "target_node_uuid": "node-gone"}],
    "sagas": [{"uuid": "saga-1"}],
}  # fmt: skip
# What Zep's API returns.
ZEP: dict[str, Any] = {
    "users": [{"uuid": "user-1", "user_id": "anna", "first_name": "Anna", "last_name": "Berger",
               "email": "anna@example.org", "metadata": {"plan": "home"}, "created_at": AT}],
    "threads": [{"uuid": "thread-1", "thread_id": "t1", "user_uuid": "user-1", "created_at": AT}],
    "messages": [{"uuid_": "message-1", "thread_uuid": "thread-1", "role": "user", "name": "Anna", "processed": True,
                  "content": "Where are the keys?", "created_at": AT, "metadata": {"mood": "calm"}}],
    "nodes": [{"uuid": ANNA, "name": "Anna", "user_uuid": "user-1", "created_at": AT, "score": 0.5,
               "episode_uuids": [], "episode_uuids_truncated": False}],
    "edges": [{"uuid": "edge-1", "name": "HAS", "fact": "Anna has keys", "source_node_uuid": ANNA,
               "target_node_uuid": ANNA, "user_uuid": "user-1", "episode_uuids": [TALK], "created_at": AT}],
    "episodes": [{"uuid": TALK, "content": "Anna: keys", "source": "message", "reference_time": AT,
                  "user_uuid": "user-1", "thread_uuid": "thread-1", "created_at": AT}],
}  # fmt: skip


def a_file(path: Path, document: Any) -> str:
    path.write_text(json.dumps(document), "utf-8")
    return str(path)


async def links_of(tenant: Tenant, external_id: str) -> set[tuple[str, str]]:
    """Return the relations of a memory's links, with the content of their targets."""
    request = memory_pb2.ListLinksRequest(memory_id=external_id, direction=memory_pb2.LINK_DIRECTION_OUTGOING)
    return {
        (link.relation, (await tenant.get_memory(link.to_memory_id)).external_id)
        for link in (await tenant.links.ListLinks(request)).links
    }


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


async def test_facts_keep_their_time_of_validity_and_their_entities(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    done = await move_in(cluster, tenant, "graphiti-json", a_file(tmp_path / "graph.json", GRAPH))

    assert done.code == 1, done.err
    assert refusals(done.json) == {"nodes node-nameless": "name is empty"}
    vienna, graz = await tenant.get_memory("edge-1"), await tenant.get_memory("edge-2")
    assert (vienna.type, vienna.content, vienna.subject_id) == ("fact", "Anna lives in Vienna", "anna")
    assert vienna.valid_from_time.ToDatetime(tzinfo=UTC) == at("2019-01-01T00:00:00Z")
    assert vienna.valid_to_time.ToDatetime(tzinfo=UTC) == at("2024-05-01T00:00:00Z")
    assert not graz.HasField("valid_to_time")
    assert MessageToDict(vienna.metadata) == {"graphiti": {"relation": "LIVES_IN", "expired_at": AT}}
    assert await links_of(tenant, "edge-2") == {("subject", ANNA), ("object", GRAZ), ("derived_from", TALK)}
    assert await links_of(tenant, HOME) == {("has_member", ANNA)}
    assert await links_of(tenant, TALK) == {("mentions", GRAZ)}
    anna = await tenant.get_memory(ANNA)
    assert (anna.type, anna.title, anna.content) == ("entity", "Anna", "Anna: Lives in Graz")
    assert (list(anna.tags), MessageToDict(anna.metadata)) == (["Entity", "Person"], {"age": 41.0})
    talk = await tenant.get_memory(TALK)
    assert (talk.type, talk.source, talk.content) == ("episode", "chat", "Anna: I moved to Graz")
    assert talk.valid_from_time.ToDatetime(tzinfo=UTC) == at("2024-05-02T09:00:00Z")


async def test_what_has_no_place_is_named(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    done = await move_in(cluster, tenant, "graphiti-json", a_file(tmp_path / "graph.json", GRAPH))

    assert remaining_counts(done.json) == {"episodic_edges": 1, "sagas": 1}
    assert changed(done.json, "edges", "episodes") == {"no such episode in the file: the link is left out": 1}
    assert changed(done.json, "edges", "target_node_uuid") == {"no such node in the file: the link is left out": 1}
    assert changed(done.json, "edges", "valid_at") == {"not before invalid_at: kept as metadata.graphiti": 1}
    assert changed(done.json, "nodes", "name_embedding") == {"made again by the cluster: the graph names no model": 1}
    works = await tenant.get_memory("edge-3")
    assert works.content == "Anna works in"
    assert works.valid_to_time.ToDatetime(tzinfo=UTC) == at(AT)


@pytest.mark.system
async def test_a_repeated_import_writes_nothing_and_compares_equal(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = a_file(tmp_path / "graph.json", GRAPH)

    dry = await move_in(cluster, tenant, "graphiti-json", source, "--dry-run")
    first = await move_in(cluster, tenant, "graphiti-json", source)
    again = await move_in(cluster, tenant, "graphiti-json", source)
    compared = await move_in(cluster, tenant, "graphiti-json", source, "--compare")

    for kind, count in (("memory", 9), ("link", 10)):
        assert outcome(dry.json, kind)[0] == count
        assert (outcome(first.json, kind), outcome(again.json, kind)) == ((count, count, 0), (count, 0, count))
    assert (compared.code, compared.json["missing"], compared.json["different"]) == (0, {}, [])


@pytest.mark.system
async def test_zep_s_people_and_conversations_come_with_their_graph(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = a_file(tmp_path / "zep.json", ZEP)

    first = await move_in(cluster, tenant, "graphiti-json", source)
    again = await move_in(cluster, tenant, "graphiti-json", source)

    assert (first.code, sum(again.json["written"].values())) == (0, 0), first.err
    subject = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="anna"))).subject
    assert subject.display_name == "Anna Berger"
    assert MessageToDict(subject.profile) == {"plan": "home", "email": "anna@example.org"}
    session = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="t1"))).session
    assert session.subject_id == "anna"
    messages = (await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="t1"))).messages
    assert [(message.external_id, message.content) for message in messages] == [("message-1", "Where are the keys?")]
    assert (await tenant.get_memory("edge-1")).subject_id == "anna"
    assert await links_of(tenant, "edge-1") == {("subject", ANNA), ("object", ANNA), ("derived_from", TALK)}


async def test_another_document_is_refused(tmp_path: Path) -> None:
    assert "is no graph of Graphiti or Zep" in await refusal_of("graphiti-json", a_file(tmp_path / "x.json", {"a": 1}))
