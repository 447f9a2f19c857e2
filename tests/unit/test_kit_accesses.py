"""What the access log keeps of a call: ids, numbers and lengths, never words."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from fix_catalogue import over

from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein_kit.access_log.event import MAX_MEMORIES, AccessEvent, access_event, has_query_field, method_operation
from skein_kit.calls.call import CLAIMED_AGENT_KEY, Call
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import new_ids

AT = datetime(2026, 3, 1, tzinfo=UTC)
TENANT, OTHER = new_ids(AT, 2)
IDS = [str(id_) for id_ in new_ids(AT, MAX_MEMORIES + 20)]
SECRET = "the dentist is on Tuesday"


def recorded(request: object, response: object = None, *, method: str = "GetMemory", **options: object) -> AccessEvent:
    call = Call(
        path=f"/skein.memory.v1.MemoryService/{method}", metadata={CLAIMED_AGENT_KEY: "maid"}, deadline=None, peer=""
    )
    call.client_address = "192.0.2.7"
    call.caller = Caller(principal="key:1", tenant_id=TENANT, permissions=frozenset(), agent_id="butler")
    tenant_id: UUID = options.pop("tenant_id", TENANT)  # type: ignore[assignment]
    return access_event(call, tenant_id, request, response, at=AT, **options)  # type: ignore[arg-type]


def parameters_of(access: AccessEvent) -> dict[str, object]:
    payload: dict[str, object] = json.loads(access.request_data or "{}")
    return payload


@over(
    ("method", "operation"),
    [
        ("GetMemory", "read"), ("ListMemories", "read"), ("BatchGetMemories", "read"), ("ExplainScore", "read"),
        ("CreateMemory", "create"), ("AppendMessages", "create"), ("UpsertLink", "create"),
        ("UpdateMemory", "update"), ("ReinforceMemory", "update"), ("UndeleteMemory", "update"),
        ("DeleteMemory", "delete"), ("PurgeMemories", "delete"), ("DeleteMemories", "delete"),
        ("Recall", "search"), ("SearchMessages", "search"),
        ("TraverseLinks", "read"), ("FindPaths", "read"), ("SuggestLinks", "read"), ("FindSimilar", "search"),
    ],
)  # fmt: skip
def test_a_method_s_name_says_what_it_does(method: str, operation: str) -> None:
    assert method_operation(method) == operation


def test_no_word_of_a_request_is_kept() -> None:
    memory = pb.Memory(content=SECRET, title=SECRET, tags=[SECRET], key=SECRET, source=SECRET, session_id="s1")
    memory.data.update({"where": SECRET})
    memory.metadata.update({SECRET: 1})

    access = recorded(pb.CreateMemoryRequest(memory=memory, request_id=SECRET), method="CreateMemory")

    assert SECRET not in repr(access)
    assert parameters_of(access)["memory"] == {
        "title": {"length": len(SECRET)},
        "key": {"length": len(SECRET)},
        "content": {"length": len(SECRET)},
        "data": {},
        "tags": {"count": 1},
        "source": {"length": len(SECRET)},
        "session_id": {"length": 2},
        "metadata": {},
    }
    assert (access.session_id, access.agent_id, access.claimed_agent_id) == (None, "butler", "maid")


def test_the_session_of_a_call_is_its_object_and_never_a_memory_s_or_a_filter_s() -> None:
    where = pb.MemoryFilter(session_id="s1", agent_id="cook", subject_id="ada")

    listed = recorded(pb.ListMemoriesRequest(filter=where), method="ListMemories")
    read = recorded(session_pb2.GetSessionRequest(session_id="s2"), method="GetSession")
    opened = recorded(
        session_pb2.CreateSessionRequest(session=session_pb2.Session(session_id="s3", agent_id="cook")),
        method="CreateSession",
    )

    assert (listed.session_id, listed.agent_id, listed.subject_id) == (None, "butler", "ada")
    assert [(access.session_id, access.agent_id) for access in (read, opened)] == [("s2", "butler"), ("s3", "butler")]


def test_a_search_is_known_again_by_a_hash_under_the_tenant_s_key() -> None:
    request = recall_pb2.RecallRequest(query=SECRET, limit=3)

    first, again = (recorded(request, method="Recall", query_key=b"1" * 32) for _ in range(2))
    under_another = recorded(request, method="Recall", query_key=b"2" * 32)

    assert SECRET not in repr(first)
    assert first.request_data == again.request_data != under_another.request_data
    assert parameters_of(first)["limit"] == 3


def test_without_a_key_a_search_leaves_only_the_length_of_its_words() -> None:
    access = recorded(recall_pb2.RecallRequest(query=SECRET), method="Recall")

    assert parameters_of(access)["query"] == {"length": len(SECRET)}


def test_requests_with_a_query_are_recognized() -> None:
    kinds = recall_pb2.RecallRequest, session_pb2.SearchMessagesRequest, pb.GetMemoryRequest, pb.CreateMemoryRequest

    assert [has_query_field(kind.DESCRIPTOR) for kind in kinds] == [True, True, False, False]


@pytest.mark.parametrize(
    ("name", "kept"), [(IDS[0], IDS[0]), ("ann@example.org", {"length": 15})], ids=["a UUID", "another name"]
)
def test_only_uuids_are_kept_of_ids_because_callers_choose_the_others(name: str, kept: object) -> None:
    assert parameters_of(recorded(pb.GetMemoryRequest(memory_id=name)))["memory_id"] == kept


@over("method", ["PurgeMemories", "DeleteMemories", "PurgeSubject", "PurgeSession"])
def test_a_call_that_erases_does_not_name_whom(method: str) -> None:
    of_ann = pb.MemorySelection(filter=pb.MemoryFilter(subject_id="ann"))
    requests = {
        "PurgeSubject": states_pb2.PurgeSubjectRequest(subject_id="ann"),
        "PurgeSession": states_pb2.PurgeSessionRequest(session_id="ann"),
    }

    access = recorded(requests.get(method, pb.PurgeMemoriesRequest(selection=of_ann)), method=method)

    assert "ann" not in repr(access)


def test_a_tenant_may_want_the_words_of_searches() -> None:
    access = recorded(recall_pb2.RecallRequest(query=SECRET), method="Recall", with_query=True)

    assert parameters_of(access)["query"] == SECRET


def test_it_names_the_memories_asked_for_and_those_answered_once_each() -> None:
    request = pb.BatchGetMemoriesRequest(memory_ids=[*IDS[:2], "an external id"])
    response = pb.BatchGetMemoriesResponse(memories=[pb.Memory(memory_id=id_) for id_ in IDS[1:3]])

    access = recorded(request, response, method="BatchGetMemories")

    assert list(access.memory_ids) == IDS[:3]
    assert (access.item_count, access.success, access.error_reason) == (3, True, None)


def test_a_call_that_touches_many_names_the_first_and_counts_all() -> None:
    response = pb.ListMemoriesResponse(memories=[pb.Memory(memory_id=id_) for id_ in IDS])

    access = recorded(pb.ListMemoriesRequest(), response, method="ListMemories")

    assert (len(access.memory_ids), access.item_count) == (MAX_MEMORIES, len(IDS))
    assert len(access.rows(new_ids(AT, access.row_count))) == MAX_MEMORIES


def test_a_refusal_has_its_reason_and_one_row_though_it_touched_nothing() -> None:
    access = recorded(pb.GetMemoryRequest(memory_id="nobody's"), error=("NOT_FOUND", "MEMORY_NOT_FOUND"))

    assert (access.success, access.error_reason, access.memory_ids, access.row_count) == (
        False,
        "MEMORY_NOT_FOUND",
        (),
        1,
    )
    assert access.rows(new_ids(AT, 1))[0]["memory_id"] is None


def test_recalled_and_read_memories_count_as_used_and_listed_ones_do_not() -> None:
    memory = pb.Memory(memory_id=IDS[0])
    hit = recall_pb2.Hit(memory=memory)

    results = [
        list(recorded(pb.GetMemoryRequest(), response).used_memory_ids)
        for response in (
            pb.GetMemoryResponse(memory=memory),
            recall_pb2.RecallResponse(hits=[hit]),
            pb.ListMemoriesResponse(memories=[memory]),
            pb.CreateMemoryResponse(memory=memory),
        )
    ]

    assert results == [[IDS[0]], [IDS[0]], [], []]
