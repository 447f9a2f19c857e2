from __future__ import annotations

from skein.memory.v1 import curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_importers.id_prefix import add_prefix
from skein_importers.records import Kind, Record, UnreadableRecord


def test_a_prefix_stands_before_an_id_wherever_it_is_referred_to() -> None:
    session = session_pb2.Session(session_id="s", subject_id="u", agent_id="a")
    records: list[Record | UnreadableRecord] = [
        Record(where="", kind=Kind.SUBJECT, item=subjects_pb2.Subject(subject_id="u")),
        Record(where="", kind=Kind.SESSION, item=session),
        Record(where="", kind=Kind.MESSAGE, item=session_pb2.Message(external_id="1", session_id="s", subject_id="u")),
        Record(where="", kind=Kind.ITEM, item=states_pb2.PutSessionItemRequest(session_id="s", key="k")),
        Record(where="", kind=Kind.AGENT_STATE, item=states_pb2.AgentState(agent_id="a")),
        Record(where="", kind=Kind.MEMORY, item=memory_pb2.Memory(external_id="m", session_id="s", key="k")),
        Record(where="", kind=Kind.EMBEDDING, item=recall_pb2.PutEmbeddingRequest(external_id="m", model="e")),
        Record(where="", kind=Kind.LINK, item=memory_pb2.Link(from_memory_id="m", to_memory_id="n", relation="r")),
        Record(where="", kind=Kind.ALIAS, item=curation_pb2.ResolveEntityRequest(alias_memory_id="m")),
        Record(
            where="", kind=Kind.CONFLICT, item=curation_pb2.ResolveConflictRequest(a_memory_id="m", b_memory_id="n")
        ),
        UnreadableRecord(where="7", reason="is nothing"),
    ]

    results = list(add_prefix(records, "x/"))

    assert [one.item if isinstance(one, Record) else one.where for one in results] == [
        subjects_pb2.Subject(subject_id="u"),
        session_pb2.Session(session_id="x/s", subject_id="u", agent_id="a"),
        session_pb2.Message(external_id="x/1", session_id="x/s", subject_id="u"),
        states_pb2.PutSessionItemRequest(session_id="x/s", key="k"),
        states_pb2.AgentState(agent_id="a"),
        memory_pb2.Memory(external_id="x/m", session_id="x/s", key="k"),
        recall_pb2.PutEmbeddingRequest(external_id="x/m", model="e"),
        memory_pb2.Link(from_memory_id="x/m", to_memory_id="x/n", relation="r"),
        curation_pb2.ResolveEntityRequest(alias_memory_id="x/m"),
        curation_pb2.ResolveConflictRequest(a_memory_id="x/m", b_memory_id="x/n"),
        "7",
    ]
    assert session.session_id == "s"
