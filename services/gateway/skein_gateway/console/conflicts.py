"""Conflicts: two memories side by side, what tells them apart, and who is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skein.memory.v1 import curation_pb2
from skein_gateway.console.pages import page
from skein_gateway.console.problems import PageError, attempted, refusal_of
from skein_gateway.console.text_diff import mark_differences
from skein_gateway.oauth.forms import FormInvalid
from skein_gateway.oauth.pages import see_other

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from skein_gateway.console.page_handler import PageHandler
    from skein_gateway.console.visitors import PageContext
    from skein_gateway.oauth.forms import Parameters

_PAGE = 10
# What a person can say of a conflict: the status, and which of the two is right.
_DECISIONS = {
    "a": (curation_pb2.CONFLICT_STATUS_SUPERSEDED, "a"),
    "b": (curation_pb2.CONFLICT_STATUS_SUPERSEDED, "b"),
    "both": (curation_pb2.CONFLICT_STATUS_DISMISSED, ""),
    "settled": (curation_pb2.CONFLICT_STATUS_RESOLVED, ""),
    "later": (curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW, ""),
}


class Conflicts:
    """The handlers."""

    def routes(self, desk: PageHandler) -> list[Route]:
        """Return the routes."""
        return desk.routes("conflicts", self.show, self.act)

    async def show(self, request: Request, visit: PageContext, asked: Parameters) -> Response:
        """List what contradicts itself."""
        return await self._listed(request, visit, asked)

    async def act(self, request: Request, visit: PageContext, asked: Parameters, form: Parameters) -> Response:
        """Take what somebody says of a conflict."""
        if form.get("decision") not in _DECISIONS:
            raise FormInvalid("Choose what becomes of the conflict, then send the form again.")
        status, canonical = _DECISIONS[form.get("decision")]
        pair = {"a": form.get("a"), "b": form.get("b")}
        revision = form.get("revision")
        try:
            await visit.api.curation.ResolveConflict(
                curation_pb2.ResolveConflictRequest(
                    a_memory_id=pair["a"],
                    b_memory_id=pair["b"],
                    status=status,
                    canonical_memory_id=pair.get(canonical, ""),
                    note=form.get("note").strip(),
                    revision=int(revision) if revision.isdecimal() and len(revision) < 18 else 0,  # noqa: PLR2004 - digits of an int64.
                )
            )
        except Exception as error:
            trouble = refusal_of(error)
            if trouble is None:
                raise
            return await self._listed(request, visit, asked, trouble)
        done = "kept" if status == curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW else "resolved"
        return see_other(visit.url("conflicts", **_chosen(asked), done=done))

    async def _listed(
        self, request: Request, visit: PageContext, asked: Parameters, trouble: PageError | None = None
    ) -> Response:
        chosen = _chosen(asked)
        wanted = curation_pb2.ListConflictsRequest(
            page_size=_PAGE,
            page_token=asked.get("page"),
            all_types=bool(chosen["all"]),
            show_settled=bool(chosen["settled"]),
        )
        found = await attempted(visit.api.curation.ListConflicts(wanted))
        failed = trouble or (found if isinstance(found, PageError) else None)
        more = "" if isinstance(found, PageError) else found.next_page_token
        return page(
            "conflicts",
            request,
            visit,
            status=200 if failed is None else failed.status,
            at="conflicts",
            title="Conflicts",
            problem="" if trouble is None else trouble.text,
            found=found,
            pairs=[] if isinstance(found, PageError) else [_pair(conflict) for conflict in found.conflicts],
            chosen=chosen,
            first=visit.url("conflicts", **chosen) if asked.get("page") else "",
            more=visit.url("conflicts", **chosen, page=more) if more else "",
            form_token=visit.visitor.form_token(request.url.path),
            may_write=visit.may("memory.write"),
        )


def _chosen(asked: Parameters) -> dict[str, str]:
    return {name: "on" if asked.get(name) == "on" else "" for name in ("all", "settled")}


def _pair(conflict: curation_pb2.Conflict) -> dict[str, Any]:
    a, b = mark_differences(conflict.a.content, conflict.b.content)
    return {"conflict": conflict, "sides": [("A", "a", conflict.a, a), ("B", "b", conflict.b, b)]}
