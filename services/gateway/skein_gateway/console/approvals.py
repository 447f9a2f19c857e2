"""The approvals page: what waits for approval, each with a form that approves, edits or refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import approvals_pb2
from skein_gateway.console.pages import http_status, page, page_links
from skein_gateway.console.problems import PageError, or_page_error, page_error_of
from skein_gateway.oauth.forms import FormInvalid
from skein_gateway.oauth.pages import see_other

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from skein_gateway.console.browser_sessions import PageContext
    from skein_gateway.oauth.forms import Parameters

_PAGE = 20
# Decisions of the form, and the confirmation of each.
_DONE = {"approve": "approved", "edit": "approved", "refuse": "refused"}
_EDITABLE = ("title", "content")


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List what waits for approval."""
    return await _list(request, context, parameters)


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Decide as the form says."""
    decision = form.get("decision")
    if decision not in _DONE:
        raise FormInvalid("Choose a decision, then send the form again.")
    try:
        if decision == "refuse":
            await context.api.curation.RefuseMemory(approvals_pb2.RefuseMemoryRequest(pending_id=form.get("id")))
        else:
            await context.api.curation.ApproveMemory(_approval(form, is_edited=decision == "edit"))
    except Exception as error:  # noqa: BLE001 - page_error_of raises unexpected errors again.
        return await _list(request, context, parameters, page_error_of(error))
    return see_other(context.url("approvals", done=_DONE[decision]))


def _approval(form: Parameters, *, is_edited: bool) -> approvals_pb2.ApproveMemoryRequest:
    """Read an approval; `fields` names the fields that the form showed."""
    approval = approvals_pb2.ApproveMemoryRequest(pending_id=form.get("id"))
    if is_edited:
        shown = form.get("fields").split()
        for name in _EDITABLE:
            if name in shown:
                # Browsers send the line ends of Windows.
                setattr(approval.memory, name, form.get(name).replace("\r\n", "\n"))
                approval.update_mask.paths.append(name)
    return approval


async def _list(
    request: Request, context: PageContext, parameters: Parameters, failure: PageError | None = None
) -> Response:
    list_request = approvals_pb2.ListPendingMemoriesRequest(page_size=_PAGE, page_token=parameters.get("page"))
    response = await or_page_error(context.api.curation.ListPendingMemories(list_request))

    return page(
        "approvals",
        request,
        context,
        status=http_status(failure, response),
        at="approvals",
        title="Approvals",
        problem="" if failure is None else failure.text,
        response=response,
        waiting=[] if isinstance(response, PageError) else [_item(write) for write in response.pending_memories],
        **page_links(context, "approvals", response, parameters),
        form_token=context.browser.form_token(request.url.path),
    )


def _item(write: approvals_pb2.PendingMemory) -> dict[str, object]:
    """Return a write with the fields that the form shows; of a change, those that it sets."""
    mask = write.update_mask.paths
    fields = [name for name in _EDITABLE if not mask or name in mask]
    others = [path for path in mask if path not in _EDITABLE]
    return {"write": write, "fields": fields, "others": others, "is_change": bool(mask)}
