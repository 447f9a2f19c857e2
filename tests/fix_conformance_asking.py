"""What the conformance suite expects of servers whose tools need something of their client first (2026-07-28).

Such a tool answers with what it needs and with a state that the client brings back: the server keeps nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.context import ServerRequestContext

    Context = ServerRequestContext[Any, Any]
    Answer = types.CallToolResult | types.InputRequiredResult
    Work = Callable[[Context, types.CallToolRequestParams], Awaitable[Answer]]

SECRET = b"a secret of the fixtures"
PROMPT = "test_input_required_result_prompt"


def elicitation(message: str, name: str, kind: str = "string") -> types.ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(text: str, most: int) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=most))


NAME = elicitation("What is your name?", "name")
CONFIRM = elicitation("Please confirm", "ok", "boolean")


def sealed(state: str) -> str:
    return f"{state}.{hmac.new(SECRET, state.encode(), hashlib.sha256).hexdigest()}"


def opened(sealed_state: str) -> str:
    state = sealed_state.rpartition(".")[0]
    if not hmac.compare_digest(sealed(state), sealed_state):
        raise MCPError(types.INVALID_PARAMS, "requestState is not what this server gave out.")
    return state


def asking(
    requests: dict[str, Any], text_of: Callable[[dict[str, Any]], str], *, state: str = ""
) -> Callable[[Context, types.CallToolRequestParams], Awaitable[Answer]]:
    """Return a tool that asks for these things and then tells what came of them."""

    async def work(_context: Context, params: types.CallToolRequestParams) -> Answer:
        answers = responses(params)
        if params.request_state is not None:
            opened(params.request_state)
        if not requests.keys() <= answers.keys() or (state and params.request_state is None):
            return types.InputRequiredResult(
                input_requests={name: request for name, request in requests.items() if name not in answers},
                request_state=sealed(state) if state else None,
            )
        return text_result(text_of(answers))

    return work


def responses(params: types.CallToolRequestParams | types.GetPromptRequestParams) -> dict[str, Any]:
    """Return what the client answered, as JSON, as far as it is what was asked for."""
    results = {}
    for name, answer in (params.input_responses or {}).items():
        value = answer if isinstance(answer, dict) else answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        if value.keys() & {"action", "content", "roots"}:
            results[name] = value
    return results


def text_result(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


async def in_rounds(_context: Context, params: types.CallToolRequestParams) -> Answer:
    state = opened(params.request_state) if params.request_state is not None else ""
    answers = responses(params)
    if state == "second" and "step2" in answers:
        return text_result("That was the last step.")
    if state == "first" and "step1" in answers:
        step: dict[str, Any] = {"step2": elicitation("Step 2: What is your favorite color?", "color")}
        return types.InputRequiredResult(input_requests=step, request_state=sealed("second"))
    step = dict[str, Any](step1=elicitation("Step 1: What is your name?", "name"))
    return types.InputRequiredResult(input_requests=step, request_state=sealed("first"))


async def by_capability(context: Context, params: types.CallToolRequestParams) -> Answer:
    has = context.session.client_capabilities
    requests: dict[str, Any] = {}
    if has is not None and has.elicitation is not None:
        requests["name"] = NAME
    if has is not None and has.sampling is not None:
        requests["greeting"] = sampling("Generate a greeting", 50)
    if not requests or requests.keys() <= responses(params).keys():
        return text_result("There is nothing to ask.")
    return types.InputRequiredResult(input_requests=requests)


def _content(answer: dict[str, Any]) -> dict[str, Any]:
    result = answer.get("content")
    return result if isinstance(result, dict) else {}


ASKING: dict[str, Work] = {
    "test_input_required_result_elicitation": asking(
        {"user_name": NAME}, lambda given: f"Hello, {_content(given['user_name']).get('name')}!"
    ),
    "test_streaming_elicitation": asking({"user_name": NAME}, lambda given: str(given["user_name"])),
    "test_input_required_result_sampling": asking(
        {"capital_question": sampling("What is the capital of France?", 100)},
        lambda given: str(_content(given["capital_question"]).get("text")),
    ),
    "test_input_required_result_list_roots": asking(
        {"client_roots": types.ListRootsRequest(params=types.RequestParams())},
        lambda given: str(given["client_roots"].get("roots")),
    ),
    "test_input_required_result_request_state": asking({"confirm": CONFIRM}, lambda _given: "state-ok", state="s"),
    "test_input_required_result_tampered_state": asking({"confirm": CONFIRM}, lambda _given: "state-ok", state="t"),
    "test_input_required_result_multiple_inputs": asking(
        {
            "user_name": NAME,
            "greeting": sampling("Generate a greeting", 50),
            "client_roots": types.ListRootsRequest(params=types.RequestParams()),
        },
        lambda given: ", ".join(sorted(given)),
        state="m",
    ),
    "test_input_required_result_multi_round": in_rounds,
    "test_input_required_result_capabilities": by_capability,
}


async def asking_prompt(params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    answers = responses(params)
    if "user_context" not in answers:
        fields: dict[str, Any] = {"user_context": elicitation("What context should the prompt use?", "context")}
        return types.InputRequiredResult(input_requests=fields)
    text = f"Use this context: {_content(answers['user_context']).get('context')}"
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=types.TextContent(text=text))])
