"""The pages of facts: a list with a form for a new one, and one page with its sentences and their memories."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from google.protobuf.field_mask_pb2 import FieldMask
from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import memory_pb2, pages_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import form_page, http_status, list_page
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other

_PAGE = 25
_PROFILE = "subject:"
_FIELDS = ("title", "subject_id", "entity_memory_id", "where")


async def list_pages(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List stored pages, then the profiles of subjects."""
    return await _list(request, context, parameters)


async def create(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Create a page as the form says."""
    values = {name: form.get(name).strip() for name in _FIELDS}
    where = values["where"]
    created = pages_pb2.Page(
        title=values["title"],
        subject_id=values["subject_id"],
        entity_memory_id=values["entity_memory_id"],
        filter=memory_pb2.MemoryFilter(where=where) if where else None,
    )
    create_request = pages_pb2.CreatePageRequest(page=created, request_id=form.get("request_id"))
    response = await or_page_error(context.api.curation.CreatePage(create_request))
    if isinstance(response, PageError):
        return await _list(request, context, parameters, values=values, failure=response)
    return see_other(context.url("page", id=response.page.page_id, done="page-create"))


async def show_page(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show one page as it is composed now."""
    return await _show(request, context, parameters)


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Pin, unpin or delete a page. To pin a profile is to store a page about that subject."""
    page_id, step, curation = parameters.get("id"), form.get("step"), context.api.curation
    response: object
    if step == "delete":
        response = await or_page_error(curation.DeletePage(pages_pb2.DeletePageRequest(page_id=page_id)))
    elif step == "pin" and page_id.startswith(_PROFILE):
        pinned = pages_pb2.Page(subject_id=page_id.removeprefix(_PROFILE), pinned=True)
        response = await or_page_error(
            curation.CreatePage(pages_pb2.CreatePageRequest(page=pinned, request_id=form.get("request_id")))
        )
    elif step in {"pin", "unpin"}:
        changed = pages_pb2.Page(page_id=page_id, pinned=step == "pin")
        response = await or_page_error(
            curation.UpdatePage(pages_pb2.UpdatePageRequest(page=changed, update_mask=FieldMask(paths=["pinned"])))
        )
    else:
        raise FormInvalid("The form is incomplete. Open the page again.")
    if isinstance(response, PageError):
        return await _show(request, context, parameters, failure=response)
    return see_other(context.url("pages", done=f"page-{step}"))


async def _list(
    request: Request,
    context: PageContext,
    parameters: Parameters,
    *,
    values: Mapping[str, str] | None = None,
    failure: PageError | None = None,
) -> Response:
    list_request = pages_pb2.ListPagesRequest(page_size=_PAGE, page_token=parameters.get("page"))
    response = await or_page_error(context.api.curation.ListPages(list_request))
    return list_page(
        "fact_pages",
        request,
        context,
        parameters,
        response,
        at="pages",
        title="Pages",
        failure=failure,
        values=values or dict.fromkeys(_FIELDS, ""),
        # A form that is sent twice creates one page.
        request_id=str(uuid.uuid4()),
        may_write=context.may("memory.write"),
    )


async def _show(
    request: Request, context: PageContext, parameters: Parameters, *, failure: PageError | None = None
) -> Response:
    response = await or_page_error(context.api.curation.GetPage(pages_pb2.GetPageRequest(page_id=parameters.get("id"))))
    title, steps = "Page", dict[str, str]()
    if not isinstance(response, PageError):
        title = response.page.title or response.page.subject_id
        steps["unpin" if response.page.pinned else "pin"] = "Unpin" if response.page.pinned else "Pin"
        if response.page.revision:
            steps["delete"] = "Delete the page"
    return form_page(
        "fact_page",
        request,
        context,
        at="pages",
        title=title,
        failure=failure,
        status=http_status(response),
        response=response,
        steps=steps,
        request_id=str(uuid.uuid4()),
        may_write=context.may("memory.write"),
    )
