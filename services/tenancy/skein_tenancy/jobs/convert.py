"""Jobs as protobuf messages."""

from __future__ import annotations

from datetime import datetime

from skein.tenancy.v1 import jobs_pb2 as pb
from skein_kit.jobs.model import Grant, Job, JobKind
from skein_kit.jobs.retry_delay import retry_delay
from skein_kit.rpc.well_known_types import to_timestamp

_KIND_PREFIX = "JOB_KIND_"
_STATE_PREFIX = "JOB_STATE_"
_EMBEDDINGS = frozenset({JobKind.EMBEDDING, JobKind.REINDEX})


def kind(value: pb.JobKind) -> JobKind:
    """Read a kind that the contract has checked."""
    return JobKind(pb.JobKind.Name(value).removeprefix(_KIND_PREFIX).lower())


def job(value: Job, at: datetime) -> pb.Job:
    """Convert a job as it is at a time."""
    cost = _cost(value.kind)
    return pb.Job(
        kind=f"{_KIND_PREFIX}{value.kind.upper()}",
        state=f"{_STATE_PREFIX}{value.state(at).upper()}",
        limits=pb.JobLimits(items_per_second=value.items_per_second, max_cost_per_day=value.max_cost_per_day),
        cost=cost,
        day_cost=value.cost_of_day(at),
        done_count=value.done_count,
        remaining_count=value.remaining_count,
        recent_rate=value.rate(at),
        expected_end_time=to_timestamp(value.expected_end(at, counts_items=cost != pb.JOB_COST_TOKENS)),
        run_start_time=to_timestamp(value.run_start_time),
        last_batch_time=to_timestamp(value.last_batch_time),
        pause_time=to_timestamp(value.pause_time),
        paused_by=value.paused_by,
    )


def import_grant(value: Grant) -> pb.AdvanceImportResponse:
    """Convert the records granted to an import."""
    return pb.AdvanceImportResponse(
        granted_count=value.count,
        retry_delay=retry_delay(value.retry_seconds),
        state=f"{_STATE_PREFIX}{value.state.upper()}",
    )


def _cost(value: JobKind) -> pb.JobCost:
    if value in {JobKind.SUMMARIES, JobKind.MODEL_EXTRACTION}:
        return pb.JOB_COST_TOKENS
    return pb.JOB_COST_EMBEDDINGS if value in _EMBEDDINGS else pb.JOB_COST_ITEMS
