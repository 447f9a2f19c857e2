"""The context page: the text that an agent would get for a question, line by line, with tokens and source of each."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from skein.gateway.v1 import gateway_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.context_lines import read_lines
from skein_gateway.console.pages import http_status, page
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import Parameters
from skein_kit.text.token_estimate import DEFAULT_BUDGET

BUDGETS = (250, 500, 1000, 2000, 4000, 8000)
_FILTERS = ("subject", "agent", "session", "budget", "format")
# What the page says of filters that are set.
_LABELS = {"subject": "person", "agent": "agent", "session": "session", "budget": "tokens", "format": "format"}


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show the form and, with a question, the text that BuildContext makes of it."""
    query = parameters.get("q").strip()
    filters = {name: parameters.get(name).strip() for name in _FILTERS}
    budget = int(filters["budget"]) if filters["budget"] in map(str, BUDGETS) else DEFAULT_BUDGET
    filters["budget"] = "" if budget == DEFAULT_BUDGET else str(budget)
    filters["format"] = "text" if filters["format"] == "text" else ""
    response: gateway_pb2.BuildContextResponse | PageError | None = None
    if query:
        context_request = gateway_pb2.BuildContextRequest(
            recall=gateway_pb2.RecallRequest(query=query, subject_id=filters["subject"]),
            token_budget=budget,
            session_id=filters["session"],
            format=gateway_pb2.CONTEXT_FORMAT_TEXT if filters["format"] else gateway_pb2.CONTEXT_FORMAT_MARKDOWN,
        )
        # Blocks that the agent carries are found through the filter alone.
        context_request.recall.filter.agent_id = filters["agent"]
        response = await or_page_error(context.api.gateway.BuildContext(context_request))
    return page(
        "context",
        request,
        context,
        status=http_status(response),
        at="context",
        title="Context: what an agent gets",
        query=query,
        response=response,
        lines=read_lines(response) if isinstance(response, gateway_pb2.BuildContextResponse) else [],
        filters=filters,
        labels=_LABELS,
        budget=budget,
        budgets=BUDGETS,
    )
