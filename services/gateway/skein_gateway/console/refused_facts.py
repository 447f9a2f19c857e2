"""The page of refused facts: what extractors proposed and their checker refused, each with a form that decides."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import approvals_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import list_page
from skein_gateway.console.problems import PageError, or_page_error, page_error_of
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other

_PAGE = 20
# Decisions of the form, and the confirmation of each.
_DONE = {"accept": "fact-accepted", "dismiss": "fact-dismissed"}


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List refused facts."""
    return await _list(request, context, parameters)


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Accept or dismiss a fact as the form says."""
    decision, curation = form.get("decision"), context.api.curation
    if decision not in _DONE:
        raise FormInvalid("Choose a decision, then send the form again.")
    try:
        if decision == "accept":
            await curation.ApproveMemory(approvals_pb2.ApproveMemoryRequest(pending_id=form.get("id")))
        else:
            await curation.RefuseMemory(approvals_pb2.RefuseMemoryRequest(pending_id=form.get("id")))
    except Exception as error:  # noqa: BLE001 - page_error_of raises unexpected errors again.
        return await _list(request, context, parameters, page_error_of(error))
    return see_other(context.url("refused-facts", done=_DONE[decision]))


async def _list(
    request: Request, context: PageContext, parameters: Parameters, failure: PageError | None = None
) -> Response:
    list_request = approvals_pb2.ListRefusedFactsRequest(page_size=_PAGE, page_token=parameters.get("page"))
    response = await or_page_error(context.api.curation.ListRefusedFacts(list_request))
    facts = [] if isinstance(response, PageError) else response.refused_facts
    return list_page(
        "refused_facts",
        request,
        context,
        parameters,
        response,
        at="refused-facts",
        title="Refused facts",
        failure=failure,
        facts=await asyncio.gather(*(_with_message(context, fact) for fact in facts)),
    )


async def _with_message(
    context: PageContext, fact: approvals_pb2.PendingMemory
) -> tuple[approvals_pb2.PendingMemory, list[tuple[str, bool]]]:
    """Return a fact with its message in parts, of which the quote is marked; none where it cannot be read."""
    sources = [one for one in fact.memory.derived_from if one.kind == memory_pb2.SOURCE_KIND_MESSAGE]
    if not sources:
        return fact, []
    source = sources[0]
    response = await or_page_error(context.api.sessions.GetMessage(session_pb2.GetMessageRequest(message_id=source.id)))
    if isinstance(response, PageError):
        return fact, []
    text, start, end = response.message.content, source.start_character, source.end_character
    return fact, [(text[:start], False), (text[start:end], True), (text[end:], False)]
