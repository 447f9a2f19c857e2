"""The jobs page: background work with its progress, and forms that pause, resume and limit it."""

from __future__ import annotations

from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from skein.tenancy.v1 import jobs_pb2 as pb
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import form_page, http_status
from skein_gateway.console.problems import or_page_error
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other

# What each kind does, and what its ceiling counts.
_MEANINGS = {
    pb.JOB_KIND_EMBEDDING: "Vectors for new documents",
    pb.JOB_KIND_REINDEX: "Vectors of another model",
    pb.JOB_KIND_DECAY: "Lower scores of unused memories",
    pb.JOB_KIND_CONSOLIDATION: "Merge of duplicates on request",
    pb.JOB_KIND_IMPORT: "Imports from other systems",
    pb.JOB_KIND_RETENTION: "Purge of memories past their retention",
    pb.JOB_KIND_EXPIRY: "Purge of expired memories",
    pb.JOB_KIND_ARCHIVE: "Idle memories to cold storage",
    pb.JOB_KIND_SESSION_ARCHIVE: "Hidden sessions to cold storage",
    pb.JOB_KIND_SUMMARIES: "Summaries by the chat model",
    pb.JOB_KIND_EXTRACTION: "Facts in earlier messages",
    pb.JOB_KIND_MODEL_EXTRACTION: "Facts by the language model",
}
_MAX_DIGITS = 15


async def show(request: Request, context: PageContext, _parameters: Parameters) -> Response:
    """Show all kinds of background work."""
    response = await or_page_error(context.api.tenancy.GetJobs(pb.GetJobsRequest()))
    return form_page(
        "jobs",
        request,
        context,
        status=http_status(response),
        at="jobs",
        title="Jobs",
        response=response,
        meanings=_MEANINGS,
        may_write=context.may("jobs.write"),
    )


async def submit(_request: Request, context: PageContext, _parameters: Parameters, form: Parameters) -> Response:
    """Pause, resume or limit a kind of work."""
    kind = _kind(form.get("kind"))
    step = form.get("step")
    if step == "pause":
        await context.api.tenancy.PauseJob(pb.PauseJobRequest(kind=kind))
    elif step == "resume":
        await context.api.tenancy.ResumeJob(pb.ResumeJobRequest(kind=kind))
    elif step == "limit":
        limits = pb.JobLimits(items_per_second=_rate(form.get("rate")), max_cost_per_day=_ceiling(form.get("per_day")))
        await context.api.tenancy.LimitJob(pb.LimitJobRequest(kind=kind, limits=limits))
    else:
        raise FormInvalid("Choose what to do with the job, then send the form again.")
    return see_other(context.url("jobs", done=f"job-{step}"))


def _kind(text: str) -> pb.JobKind:
    if text not in pb.JobKind.keys() or text == pb.JobKind.Name(pb.JOB_KIND_UNSPECIFIED):  # noqa: SIM118 - no mapping.
        raise FormInvalid("There is no such job.")
    return cast("pb.JobKind", pb.JobKind.Value(text))


def _rate(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise FormInvalid("The rate should be a number of items per second.") from None


def _ceiling(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise FormInvalid("The ceiling should be a whole number.")
    return int(text)
