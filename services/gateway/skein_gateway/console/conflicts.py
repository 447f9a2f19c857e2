"""The conflicts page: two memories side by side with their differences, and a form that resolves the conflict."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import curation_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import list_page, revision_of
from skein_gateway.console.problems import PageError, or_page_error, page_error_of
from skein_gateway.console.text_diff import mark_differences
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other

_PAGE = 10
# Decisions of the form: the status, and which memory is right.
_DECISIONS = {
    "a": (curation_pb2.CONFLICT_STATUS_SUPERSEDED, "a"),
    "b": (curation_pb2.CONFLICT_STATUS_SUPERSEDED, "b"),
    "both": (curation_pb2.CONFLICT_STATUS_DISMISSED, ""),
    "settled": (curation_pb2.CONFLICT_STATUS_RESOLVED, ""),
    "later": (curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW, ""),
}


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List conflicts."""
    return await _list(request, context, parameters)


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Resolve a conflict as the form says."""
    if form.get("decision") not in _DECISIONS:
        raise FormInvalid("Choose a decision for the conflict, then send the form again.")
    status, canonical = _DECISIONS[form.get("decision")]
    pair = {"a": form.get("a"), "b": form.get("b")}
    try:
        await context.api.curation.ResolveConflict(
            curation_pb2.ResolveConflictRequest(
                a_memory_id=pair["a"],
                b_memory_id=pair["b"],
                status=status,
                canonical_memory_id=pair.get(canonical, ""),
                note=form.get("note").strip(),
                revision=revision_of(form),
            )
        )
    except Exception as error:  # noqa: BLE001 - page_error_of raises unexpected errors again.
        return await _list(request, context, parameters, page_error_of(error))
    done = "unresolved" if status == curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW else "resolved"
    return see_other(context.url("conflicts", **_filters(parameters), done=done))


async def _list(
    request: Request, context: PageContext, parameters: Parameters, failure: PageError | None = None
) -> Response:
    filters = _filters(parameters)
    list_request = curation_pb2.ListConflictsRequest(
        page_size=_PAGE,
        page_token=parameters.get("page"),
        all_types=bool(filters["all"]),
        show_settled=bool(filters["settled"]),
    )
    response = await or_page_error(context.api.curation.ListConflicts(list_request))

    return list_page(
        "conflicts",
        request,
        context,
        parameters,
        response,
        title="Conflicts",
        failure=failure,
        pairs=[] if isinstance(response, PageError) else [_pair(conflict) for conflict in response.conflicts],
        filters=filters,
        may_write=context.may("memory.write"),
    )


def _filters(parameters: Parameters) -> dict[str, str]:
    return {name: "on" if parameters.get(name) == "on" else "" for name in ("all", "settled")}


def _pair(conflict: curation_pb2.Conflict) -> dict[str, Any]:
    a, b = mark_differences(conflict.a.content, conflict.b.content)
    return {"conflict": conflict, "sides": [("A", "a", conflict.a, a), ("B", "b", conflict.b, b)]}
