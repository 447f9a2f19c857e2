"""The gateway's fan-out over branches that a test plays: faults, time limits, cancelling."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, fault_of, reason_in, refused
from fix_gateway import Gateway, gateway_before, hit
from grpc import aio

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import blocks_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit import errors
from skein_kit.calls.call import Call
from skein_recall.errors import ModelUnavailable

MEMORIES = recall_pb2.ITEM_KIND_MEMORY
MESSAGES = recall_pb2.ITEM_KIND_MESSAGE
# A named subject, so that every branch has something to ask for.
ANNA = pb.RecallRequest(query="tea", filter={"visible_to": {"agent_id": "butler", "subject_id": "anna"}})
BLOCK = blocks_pb2.Block(block_id="b", label="human", value="tea at five")
OK, LATE, GONE = pb.BRANCH_STATE_OK, pb.BRANCH_STATE_TIMED_OUT, pb.BRANCH_STATE_UNAVAILABLE


class QueryEmpty(errors.InvalidArgument):
    """Recall needs a text or a vector."""

    reason = "QUERY_EMPTY"


class SubjectNotFound(errors.NotFound):
    """There is no such subject."""

    reason = "SUBJECT_NOT_FOUND"


async def never(_request: Any, _call: Call) -> Any:
    await asyncio.Event().wait()
    raise AssertionError


def saying(response: Any) -> Any:
    async def answer(_request: Any, _call: Call) -> Any:
        return response

    return answer


def finding(*hits: recall_pb2.Hit, **fields: Any) -> Any:
    return saying(recall_pb2.RecallResponse(hits=hits, model="m", **fields))


def refusing(refusal: errors.RpcError) -> Any:
    async def answer(_request: Any, _call: Call) -> Any:
        raise refusal

    return answer


def blocks(*values: str, **fields: Any) -> Any:
    blocks = [blocks_pb2.Block(block_id=value, label="human", value=value, **fields) for value in values]
    return saying(blocks_pb2.ListAgentBlocksResponse(blocks=blocks))


def profile(**fields: Any) -> Any:
    return saying(subjects_pb2.GetSubjectResponse(subject=subjects_pb2.Subject(subject_id="anna", **fields)))


def endless(ended: asyncio.Semaphore, begun: asyncio.Semaphore | None = None) -> Any:
    async def answer(_request: Any, _call: Call) -> Any:
        if begun is not None:
            begun.release()
        try:
            await asyncio.Event().wait()
        finally:
            ended.release()
        raise AssertionError

    return answer


def states(response: pb.RecallResponse) -> list[tuple[pb.Branch, pb.BranchState, int]]:
    return [(branch.branch, branch.state, branch.hit_count) for branch in response.branches]


@pytest.mark.parametrize("in_process", [True, False], ids=["in process", "over sockets"])
async def test_both_kinds_are_asked_for_with_one_call(cluster: Cluster, tenant: Tenant, in_process: bool) -> None:  # noqa: FBT001 - a parameter.
    found = finding(hit("c", 0.9, MESSAGES), hit("b", 0.5), hit("d", 0.4), dense_path="exact", formula="scores-9")
    request = pb.RecallRequest(
        query="tea",
        limit=3,
        min_similarity=0.2,
        filter={"session_id": "s"},
        show_superseded=True,
        weights={"dense": 2.0},
        fusion="ranks",
    )

    async with gateway_before(cluster, tenant, {"Recall": found}, in_process=in_process) as gateway:
        response = await gateway.gateway.Recall(request)
        (recall_request,) = gateway.scripted.requests["Recall"]

    assert [found.item_id for found in response.hits] == ["c", "b", "d"]
    assert (response.model, response.dense_path, response.formula) == ("m", "exact", "scores-9")
    assert recall_request == recall_pb2.RecallRequest(
        query="tea",
        limit=3,
        kinds=[MEMORIES, MESSAGES],
        min_similarity=0.2,
        filter={"session_id": "s"},
        show_superseded=True,
        weights={"dense": 2.0},
        fusion="ranks",
    )
    assert [(branch.branch, branch.hit_count) for branch in response.branches] == [
        (pb.BRANCH_MEMORIES, 2),
        (pb.BRANCH_MESSAGES, 1),
    ]
    assert response.branches[0].elapsed == response.branches[1].elapsed
    assert response.branches[0].elapsed.ToMicroseconds() > 0


async def test_only_the_branches_wanted_are_asked(cluster: Cluster, tenant: Tenant) -> None:
    request = pb.RecallRequest(query="tea", branches=[pb.BRANCH_MESSAGES], filter=ANNA.filter)

    async with gateway_before(cluster, tenant, {"Recall": finding()}) as gateway:
        response = await gateway.gateway.Recall(request)
        requests = gateway.scripted.requests["Recall"]

    assert [branch.branch for branch in response.branches] == [pb.BRANCH_MESSAGES]
    assert [list(part.kinds) for part in requests] == [[MESSAGES]]


async def test_the_best_of_all_branches_are_returned_with_the_profile(cluster: Cluster, tenant: Tenant) -> None:
    script = {
        "Recall": finding(hit("a", 0.9), hit("b", 0.2)),
        "ListAgentBlocks": blocks("Anna drinks tea", "Be brief"),
        "GetSubject": profile(display_name="Anna"),
    }

    async with gateway_before(cluster, tenant, script) as gateway:
        response = await gateway.gateway.Recall(ANNA)
        requests = gateway.scripted.requests

    assert [found.item_id for found in response.hits] == ["a", "Anna drinks tea", "b"]
    assert response.hits[1].block.value == "Anna drinks tea"
    assert response.profile.display_name == "Anna"
    assert states(response) == [
        (pb.BRANCH_MEMORIES, OK, 2),
        (pb.BRANCH_MESSAGES, OK, 0),
        (pb.BRANCH_BLOCKS, OK, 1),
        (pb.BRANCH_PROFILE, OK, 0),
    ]
    (of_agent,) = requests["ListAgentBlocks"]
    assert (of_agent.agent_id, of_agent.subject_id, of_agent.hide_other_subjects) == ("butler", "anna", True)
    assert [part.subject_id for part in requests["GetSubject"]] == ["anna"]


async def test_the_limit_holds_for_all_branches_together(cluster: Cluster, tenant: Tenant) -> None:
    script = {
        "Recall": finding(hit("a", 0.3), hit("b", 0.2)),
        "ListAgentBlocks": blocks("tea one", "tea two"),
        "GetSubject": profile(),
    }

    async with gateway_before(cluster, tenant, script) as gateway:
        response = await gateway.gateway.Recall(pb.RecallRequest(query="tea", limit=2, filter=ANNA.filter))

    assert [found.item_id for found in response.hits] == ["tea one", "tea two"]


async def test_a_subject_may_lack_a_profile(cluster: Cluster, tenant: Tenant) -> None:
    script = {"Recall": finding(), "ListAgentBlocks": blocks(), "GetSubject": refusing(SubjectNotFound())}

    async with gateway_before(cluster, tenant, script) as gateway:
        response = await gateway.gateway.Recall(ANNA)

    assert not response.HasField("profile")
    assert response.branches[3].state == OK


async def test_an_branch_without_a_question_is_skipped(cluster: Cluster, tenant: Tenant) -> None:
    request = pb.RecallRequest(
        query="tea", branches=[pb.BRANCH_PROFILE, pb.BRANCH_BLOCKS, pb.BRANCH_MEMORIES], filter={"types": ["fact"]}
    )

    async with gateway_before(cluster, tenant, {"Recall": finding(hit("a", 0.5))}) as gateway:
        response = await gateway.gateway.Recall(request)
        alone = await gateway.gateway.Recall(pb.RecallRequest(branches=[pb.BRANCH_BLOCKS]))

    skipped = pb.BRANCH_STATE_SKIPPED
    assert states(response) == [
        (pb.BRANCH_MEMORIES, OK, 1),
        (pb.BRANCH_BLOCKS, skipped, 0),
        (pb.BRANCH_PROFILE, skipped, 0),
    ]
    assert states(alone) == [(pb.BRANCH_BLOCKS, skipped, 0)]
    assert not response.incomplete


async def test_without_an_agent_the_tenants_blocks_are_looked_through(cluster: Cluster, tenant: Tenant) -> None:
    about = [
        blocks_pb2.Block(block_id="nobody", value="tea at five"),
        blocks_pb2.Block(block_id="ben", subject_id="ben", value="Ben drinks tea"),
    ]
    script = {"ListBlocks": saying(blocks_pb2.ListBlocksResponse(blocks=about, next_page_token="more"))}

    async with gateway_before(cluster, tenant, script) as gateway:
        response = await gateway.gateway.Recall(pb.RecallRequest(query="tea", branches=[pb.BRANCH_BLOCKS]))

    assert [found.item_id for found in response.hits] == ["nobody"]
    assert response.branches[0].filter_truncated


async def test_blocks_pass_the_time_that_is_asked_for(cluster: Cluster, tenant: Tenant) -> None:
    script = {"ListBlocks": blocks("tea", create_time={"seconds": 100})}

    async def recall(**fields: Any) -> pb.RecallResponse:
        return await gateway.gateway.Recall(pb.RecallRequest(query="tea", branches=[pb.BRANCH_BLOCKS], filter=fields))

    async with gateway_before(cluster, tenant, script) as gateway:
        passing = await recall(start_time={"seconds": 100}, end_time={"seconds": 101})
        early, late = await recall(start_time={"seconds": 101}), await recall(end_time={"seconds": 100})

    assert len(passing.hits) == 1
    assert [(len(one.hits), one.branches[0].filter_emptied) for one in (early, late)] == [(0, True), (0, True)]


async def test_a_late_branch_is_named_and_the_rest_is_returned(cluster: Cluster, tenant: Tenant) -> None:
    script = {"Recall": finding(hit("a", 0.5)), "ListAgentBlocks": never, "GetSubject": profile()}

    async with gateway_before(cluster, tenant, script, SKEIN_ADVANCED_GATEWAY_RECALL_BRANCH_SECONDS="0.2") as gateway:
        # While a machine stands still for a moment, the others are late as well: then it is asked again.
        async with asyncio.timeout(60):
            while len((response := await gateway.gateway.Recall(ANNA)).incomplete) > 1:
                pass

    assert [found.item_id for found in response.hits] == ["a"]
    assert response.incomplete == [pb.BRANCH_BLOCKS]
    assert response.branches[2].state == LATE
    assert response.branches[2].elapsed.ToMilliseconds() >= 200


async def test_blocks_and_profile_come_back_while_the_search_is_away(cluster: Cluster, tenant: Tenant) -> None:
    script = {
        "Recall": refusing(errors.DatabaseBusy()),
        "ListAgentBlocks": blocks("Anna drinks tea"),
        "GetSubject": profile(display_name="Anna"),
    }

    async with gateway_before(cluster, tenant, script) as gateway:
        response = await gateway.gateway.Recall(ANNA)

    assert [found.item_id for found in response.hits] == ["Anna drinks tea"]
    assert response.profile.display_name == "Anna"
    assert response.incomplete == [pb.BRANCH_MEMORIES, pb.BRANCH_MESSAGES]
    assert [branch.state for branch in response.branches] == [GONE, GONE, OK, OK]


@pytest.mark.system
@pytest.mark.parametrize("in_process", [True, False], ids=["in process", "over sockets"])
async def test_a_late_branch_leaves_time_to_answer(cluster: Cluster, tenant: Tenant, in_process: bool) -> None:  # noqa: FBT001 - a parameter.
    script = {"Recall": finding(hit("a", 0.5)), "ListAgentBlocks": never, "GetSubject": profile()}

    async with gateway_before(cluster, tenant, script, in_process=in_process) as gateway:
        await gateway.auth.GetMe({})  # type: ignore[arg-type]  # The identity is known before the short call.
        response = pb.RecallResponse()
        # While a machine stands still for a moment, nothing is in time: then it is asked again.
        async with asyncio.timeout(60):
            while list(response.incomplete) != [pb.BRANCH_BLOCKS]:
                with contextlib.suppress(aio.AioRpcError):
                    response = await gateway.gateway.Recall(ANNA, timeout=1.0)

    assert response.incomplete == [pb.BRANCH_BLOCKS]


@pytest.mark.system
@pytest.mark.parametrize(
    ("fault", "seconds", "code", "reason"),
    [
        (refusing(errors.DatabaseBusy()), "60", grpc.StatusCode.UNAVAILABLE, "RECALL_INCOMPLETE"),
        (never, "0.2", grpc.StatusCode.DEADLINE_EXCEEDED, "RECALL_TIMED_OUT"),
    ],
)
async def test_recall_fails_on_a_missing_branch_when_the_caller_wants_all_of_them(
    cluster: Cluster, tenant: Tenant, fault: Any, seconds: str, code: grpc.StatusCode, reason: str
) -> None:
    script = {"Recall": finding(hit("a", 0.5)), "ListAgentBlocks": blocks(), "GetSubject": fault}
    request = pb.RecallRequest(query="tea", filter=ANNA.filter, on_partial=pb.ON_PARTIAL_FAIL)

    async with gateway_before(cluster, tenant, script, SKEIN_ADVANCED_GATEWAY_RECALL_BRANCH_SECONDS=seconds) as gateway:
        # While a machine stands still for a moment, every branch is late: then it is asked again.
        async with asyncio.timeout(60):
            while reason_in(fault := await fault_of(gateway.gateway.Recall(request))) == "DEADLINE_EXCEEDED":
                pass
        with refused(code, reason):
            raise fault


async def test_recall_succeeds_without_a_missing_branch_when_the_caller_wants_all_of_them(
    cluster: Cluster, tenant: Tenant
) -> None:
    script = {"Recall": finding(hit("a", 0.5)), "ListAgentBlocks": blocks(), "GetSubject": profile()}

    async with gateway_before(cluster, tenant, script) as gateway:
        response = await gateway.gateway.Recall(
            pb.RecallRequest(query="tea", filter=ANNA.filter, on_partial=pb.ON_PARTIAL_FAIL)
        )

    assert len(response.branches) == 4


async def test_an_branch_without_vectors_says_so(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {"Recall": finding(hit("a", 0.5), dense_unavailable=True)}) as gateway:
        response = await gateway.gateway.Recall(pb.RecallRequest(query="tea", branches=[pb.BRANCH_MEMORIES]))

    assert response.branches[0].state == pb.BRANCH_STATE_LEXICAL_ONLY
    assert not response.incomplete


async def test_an_branch_whose_hits_have_no_vector_is_ok_by_keyword(cluster: Cluster, tenant: Tenant) -> None:
    recall_response = recall_pb2.RecallResponse(hits=[hit("a", 0.5)], dense_path="none", formula="keyword-9")

    async with gateway_before(cluster, tenant, {"Recall": saying(recall_response)}) as gateway:
        response = await gateway.gateway.Recall(
            pb.RecallRequest(query="tea", branches=[pb.BRANCH_MEMORIES], mode=recall_pb2.SEARCH_MODE_KEYWORD)
        )
        requests = gateway.scripted.requests["Recall"]

    assert [part.mode for part in requests] == [recall_pb2.SEARCH_MODE_KEYWORD]
    assert (response.branches[0].state, response.branches[0].unembedded_count) == (OK, 0)
    assert (response.model, response.formula) == ("", "keyword-9")


async def test_by_meaning_blocks_are_skipped_and_by_keyword_they_are_searched(cluster: Cluster, tenant: Tenant) -> None:
    script = {"Recall": finding(), "ListBlocks": saying(blocks_pb2.ListBlocksResponse(blocks=[BLOCK]))}

    async with gateway_before(cluster, tenant, script) as gateway:
        by_mode = [
            await gateway.gateway.Recall(
                pb.RecallRequest(query="tea", branches=[pb.BRANCH_MEMORIES, pb.BRANCH_BLOCKS], mode=mode)
            )
            for mode in (recall_pb2.SEARCH_MODE_SEMANTIC, recall_pb2.SEARCH_MODE_KEYWORD)
        ]

    semantic, keyword = by_mode
    assert states(semantic) == [(pb.BRANCH_MEMORIES, OK, 0), (pb.BRANCH_BLOCKS, pb.BRANCH_STATE_SKIPPED, 0)]
    assert states(keyword) == [(pb.BRANCH_MEMORIES, OK, 0), (pb.BRANCH_BLOCKS, OK, 1)]
    assert [found.has_query_words for found in keyword.hits] == [True]


async def test_by_meaning_without_the_model_the_call_says_so_unless_another_branch_answers(
    cluster: Cluster, tenant: Tenant
) -> None:
    script = {"Recall": refusing(ModelUnavailable(model="m", cause="no answer")), "GetSubject": profile()}
    semantic = pb.RecallRequest(query="tea", mode=recall_pb2.SEARCH_MODE_SEMANTIC)
    about_anna = pb.RecallRequest(query="tea", mode=recall_pb2.SEARCH_MODE_SEMANTIC, subject_id="anna")

    async with gateway_before(cluster, tenant, script) as gateway:
        with refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"):
            await gateway.gateway.Recall(semantic)
        response = await gateway.gateway.Recall(about_anna)

    assert list(response.incomplete) == [pb.BRANCH_MEMORIES, pb.BRANCH_MESSAGES]
    assert response.HasField("profile")


async def test_the_callers_own_mistake_fails_the_call_and_ends_the_other_branch(
    cluster: Cluster, tenant: Tenant
) -> None:
    ended = asyncio.Semaphore(0)
    script = {"Recall": refusing(QueryEmpty()), "ListAgentBlocks": blocks(), "GetSubject": endless(ended)}

    async with gateway_before(cluster, tenant, script) as gateway:
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "QUERY_EMPTY"):
            await gateway.gateway.Recall(ANNA)
        await asyncio.wait_for(ended.acquire(), 30)


@pytest.mark.system
async def test_a_recall_whose_branches_all_fail_ends_with_the_first_error(cluster: Cluster, tenant: Tenant) -> None:
    script = {"Recall": refusing(errors.DatabaseUnavailable()), "ListAgentBlocks": never, "GetSubject": never}

    async with gateway_before(cluster, tenant, script, SKEIN_ADVANCED_GATEWAY_RECALL_BRANCH_SECONDS="0.1") as gateway:
        # While a machine stands still for a moment, the first one is late as well: then it is asked again.
        async with asyncio.timeout(60):
            while (fault := await fault_of(gateway.gateway.Recall(ANNA))).code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                pass
        with refused(grpc.StatusCode.UNAVAILABLE, "DATABASE_UNAVAILABLE"):
            raise fault


@pytest.mark.system
async def test_a_recall_whose_branches_are_all_late_is_late(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(
        cluster, tenant, {"Recall": never}, SKEIN_ADVANCED_GATEWAY_RECALL_BRANCH_SECONDS="0.1"
    ) as gateway:
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"):
            await gateway.gateway.Recall(pb.RecallRequest(query="tea"))


async def test_a_recall_service_that_is_gone_makes_the_call_unavailable(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {}) as gateway:
        # Nothing listens on port 9.
        gateway.host.addresses["recall"] = "127.0.0.1:9"
        with refused(grpc.StatusCode.UNAVAILABLE, "SERVICE_UNAVAILABLE"):
            await gateway.gateway.Recall(pb.RecallRequest(query="tea"))
        with refused(grpc.StatusCode.UNAVAILABLE, "SERVICE_UNAVAILABLE"):
            await gateway.recall.Recall(recall_pb2.RecallRequest(query="tea"))


async def test_services_that_are_gone_leave_what_the_others_found(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {"Recall": finding(hit("a", 0.5))}) as gateway:
        gateway.host.addresses["memory"] = "127.0.0.1:9"
        response = await gateway.gateway.Recall(ANNA)

    assert [found.item_id for found in response.hits] == ["a"]
    assert response.incomplete == [pb.BRANCH_BLOCKS]
    assert response.branches[2].state == GONE


@pytest.mark.system
@pytest.mark.parametrize("in_process", [True, False], ids=["in process", "over sockets"])
async def test_cancelling_the_call_cancels_the_branches(cluster: Cluster, tenant: Tenant, in_process: bool) -> None:  # noqa: FBT001 - a parameter.
    begun, ended = asyncio.Semaphore(0), asyncio.Semaphore(0)
    script = dict.fromkeys(("Recall", "ListAgentBlocks", "GetSubject"), endless(ended, begun))

    async with gateway_before(cluster, tenant, script, in_process=in_process) as gateway:
        await _cancelled(gateway, ANNA, begun, ended, count=3)
        await _cancelled(gateway, pb.RecallRequest(query="tea"), begun, ended, count=1)


async def _cancelled(
    gateway: Gateway, request: pb.RecallRequest, begun: asyncio.Semaphore, ended: asyncio.Semaphore, *, count: int
) -> None:
    call = gateway.gateway.Recall(request)
    task = asyncio.ensure_future(call)
    for _ in range(count):
        await asyncio.wait_for(begun.acquire(), 30)

    call.cancel()

    for _ in range(count):
        await asyncio.wait_for(ended.acquire(), 30)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.system
@pytest.mark.parametrize(
    "request_",
    [
        pb.RecallRequest(query="tea", limit=101),
        pb.RecallRequest(query="tea", branches=[pb.BRANCH_WINDOW]),
        pb.RecallRequest(query="tea", fusion="best"),
        pb.RecallRequest(query="tea", weights={"dense": -1.0}),
        pb.RecallRequest(query="tea", on_partial=7),  # type: ignore[arg-type]  # 7 is not a value of the enum.
        pb.RecallRequest(query="tea", mode=9),  # type: ignore[arg-type]  # There is no mode 9.
        pb.RecallRequest(query="tea", mode=recall_pb2.SEARCH_MODE_KEYWORD, weights={"lexical": 1.0}),
        pb.RecallRequest(query="tea", mode=recall_pb2.SEARCH_MODE_SEMANTIC, fusion="scores"),
        pb.RecallRequest(query="tea", mode=recall_pb2.SEARCH_MODE_KEYWORD, min_similarity=0.5),
    ],
)
async def test_a_request_that_breaks_a_rule_asks_no_branch(
    cluster: Cluster, tenant: Tenant, request_: pb.RecallRequest
) -> None:
    async with gateway_before(cluster, tenant, {"Recall": finding()}) as gateway:
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await gateway.gateway.Recall(request_)

        assert gateway.scripted.requests["Recall"] == []


async def test_a_key_that_may_only_search_is_refused_the_branches_that_it_names(
    cluster: Cluster, tenant: Tenant
) -> None:
    made = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", permissions=["recall.read"]))
    searcher = Stubs.of(cluster.channel, made.secret)

    response = await searcher.gateway.Recall(ANNA)

    assert [branch.branch for branch in response.branches] == [pb.BRANCH_MEMORIES, pb.BRANCH_MESSAGES]
    for branch in (pb.BRANCH_BLOCKS, pb.BRANCH_PROFILE):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await searcher.gateway.Recall(pb.RecallRequest(query="tea", branches=[branch]))
