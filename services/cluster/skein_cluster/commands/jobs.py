"""`skein jobs`: the tenant's background work, its pauses, limits and progress."""

from __future__ import annotations

from typing import cast

import click

from skein.tenancy.v1 import jobs_pb2 as pb
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output

_KIND_PREFIX, _STATE_PREFIX, _COST_PREFIX = "JOB_KIND_", "JOB_STATE_", "JOB_COST_"
KINDS = tuple(name.removeprefix(_KIND_PREFIX).lower() for name, number in pb.JobKind.items() if number)

_kind_argument = click.argument("kind", type=click.Choice(KINDS))


@click.group()
def jobs_command() -> None:
    """Show, pause, resume and limit background work."""


@jobs_command.command("list")
@options.cluster_answer
async def list_(environment: dict[str, str]) -> options.Answer:
    """List the kinds of background work, with progress and expected end."""
    async with as_tenant(environment) as api:
        jobs = list((await api.tenancy.GetJobs(pb.GetJobsRequest())).jobs)
    yield {"jobs": jobs}
    table = output.table(
        "job", "state", "done", "left", "per second", "today", "limits", "end", numbers=("done", "left")
    )
    output.print_table(table, [_line(job) for job in jobs], empty="There are no jobs.")


@jobs_command.command("pause")
@_kind_argument
@options.cluster_answer
async def pause(kind: str, environment: dict[str, str]) -> options.Answer:
    """Pause a kind of work. The batch that runs ends; what is due stays due."""
    async with as_tenant(environment) as api:
        response = (await api.tenancy.PauseJob(pb.PauseJobRequest(kind=_number(kind)))).job
    yield response
    _show(response)


@jobs_command.command("resume")
@_kind_argument
@options.cluster_answer
async def resume(kind: str, environment: dict[str, str]) -> options.Answer:
    """Resume a kind of work. It continues where it stopped, within about a minute."""
    async with as_tenant(environment) as api:
        response = (await api.tenancy.ResumeJob(pb.ResumeJobRequest(kind=_number(kind)))).job
    yield response
    _show(response)


@jobs_command.command("limit")
@_kind_argument
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Most items per second; default: no limit.")
@click.option("--per-day", type=click.IntRange(0), help="Most items, embeddings or tokens per day; default: no limit.")
@options.cluster_answer
async def limit(kind: str, rate: float | None, per_day: int | None, environment: dict[str, str]) -> options.Answer:
    """Replace the limits of a kind of work. Without options, it has none."""
    limits = pb.JobLimits(items_per_second=rate, max_cost_per_day=per_day)
    async with as_tenant(environment) as api:
        response = (await api.tenancy.LimitJob(pb.LimitJobRequest(kind=_number(kind), limits=limits))).job
    yield response
    _show(response)


def _show(job: pb.Job) -> None:
    limits = _limits(job)
    output.echo(f"{_kind(job)} is {_state(job)}" + (f", limited to {limits}." if limits else "."))


def _line(job: pb.Job) -> tuple[object, ...]:
    return (
        _kind(job),
        _state(job),
        job.done_count,
        job.remaining_count if job.HasField("remaining_count") else "",
        f"{job.recent_rate:.1f}",
        f"{job.day_cost} {_cost(job)}",
        _limits(job),
        output.format_time(job.expected_end_time) if job.HasField("expected_end_time") else "",
    )


def _limits(job: pb.Job) -> str:
    parts = []
    if job.limits.HasField("items_per_second"):
        parts.append(f"{job.limits.items_per_second:g} per second")
    if job.limits.HasField("max_cost_per_day"):
        parts.append(f"{job.limits.max_cost_per_day} {_cost(job)} per day")
    return ", ".join(parts)


def _kind(job: pb.Job) -> str:
    return pb.JobKind.Name(job.kind).removeprefix(_KIND_PREFIX).lower()


def _state(job: pb.Job) -> str:
    return pb.JobState.Name(job.state).removeprefix(_STATE_PREFIX).lower().replace("_", " ")


def _cost(job: pb.Job) -> str:
    return pb.JobCost.Name(job.cost).removeprefix(_COST_PREFIX).lower()


def _number(kind: str) -> pb.JobKind:
    return cast("pb.JobKind", pb.JobKind.Value(_KIND_PREFIX + kind.upper()))
