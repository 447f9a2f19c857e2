"""How the gateway reports a large erasure: in parts that fit into a message, complete with the last one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from fix_catalogue import over

from skein.auth.v1 import certificates_pb2
from skein.gateway.v1 import gateway_pb2 as pb
from skein_gateway.forget.progress import MAX_DIGESTS, ErasureProgress, ErasureStep
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES

AT = datetime(2026, 1, 1, tzinfo=UTC)
DIGESTS = [number.to_bytes(32) for number in range(50_000)]
STEP = ErasureStep(
    counts={"memory.memories": 50_000},
    receipt_id="r1",
    event_position="p1",
    memory_tombstones=DIGESTS,
    session_tombstones=DIGESTS[:3],
    subject_tombstone=bytes(32),
)


def parts(
    progress: ErasureProgress, remains: pb.Remains | None
) -> list[certificates_pb2.IssueErasureCertificateRequest]:
    result = []
    while progress.needs_report(is_complete=remains is not None):
        result.append(progress.next_part(AT, remains))
        progress.mark_reported(result[-1], "c1")
    return result


def progress_of(*steps: ErasureStep, request_id: str = "") -> ErasureProgress:
    progress = ErasureProgress(request_id, start_time=AT)
    progress.erasures.append(pb.Erasure(service="memory"))
    for step in steps:
        progress.add(progress.erasures[0], step)
    return progress


@over("request_id", ["", "f1"])
def test_a_large_erasure_is_reported_in_parts_of_which_the_last_is_complete(request_id: str) -> None:
    reports = parts(progress_of(STEP, request_id=request_id), pb.Remains(log_position="0/1"))

    assert [report.complete for report in reports] == [False] * (len(reports) - 1) + [True]
    assert len({report.erasure_key for report in reports}) == 1
    assert max(len(report.memory_tombstones) + len(report.session_tombstones) for report in reports) <= MAX_DIGESTS
    assert max(report.ByteSize() for report in reports) < MAX_MESSAGE_BYTES
    assert sorted(digest for report in reports for digest in report.memory_tombstones) == DIGESTS
    assert [digest for report in reports for digest in report.session_tombstones] == DIGESTS[:3]
    assert [receipt for report in reports for receipt in report.receipt_ids] == ["r1"]
    assert {report.event_position for report in reports} == {"p1"}
    assert [report.log_position for report in reports if report.complete] == ["0/1"]


@pytest.mark.system
def test_counts_are_reported_once_without_a_request_id_and_in_full_with_one() -> None:
    added = parts(progress_of(STEP), pb.Remains())
    repeated = parts(progress_of(STEP, request_id="f1"), pb.Remains())

    assert sum(report.deleted_counts["memory.memories"] for report in added) == 50_000
    assert {report.deleted_counts["memory.memories"] for report in repeated} == {50_000}


@pytest.mark.system
def test_an_incomplete_report_is_continued_and_nothing_is_reported_twice() -> None:
    progress = progress_of(STEP)
    first = parts(progress, None)
    progress.add(progress.erasures[0], ErasureStep(counts={"memory.memories": 1}, memory_tombstones=[b"1" * 32]))

    rest = parts(progress, pb.Remains())

    assert not any(report.complete for report in first)
    assert [list(report.memory_tombstones) for report in rest] == [[b"1" * 32]]
    assert [dict(report.deleted_counts) for report in rest] == [{"memory.memories": 1}]
    assert parts(progress, pb.Remains()) == []
