"""The page of the first steps: a key, a memory, and its recall, each with the same as commands."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from google.protobuf.timestamp_pb2 import Timestamp
from starlette.requests import Request
from starlette.responses import Response

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.field_merge import line_breaks
from skein_gateway.console.pages import form_page, http_status
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other
from skein_kit.identity.permissions import AGENT_PERMISSIONS

FIRST_MEMORY = "Anna prefers tea to coffee"
FIRST_QUERY = "what does Anna drink?"
_HITS = 3
_KEY_DAYS, _DAY = 90, 86_400
# Of the gateway, unless its operator chose another.
_GRPC_PORT = 50050
# Longest text that the commands repeat.
_MAX_SHOWN = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Commands:
    """The same step by the command line, over HTTP and in Python."""

    skein: str
    curl: str
    python: str


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show the steps; with a query, also what it recalls."""
    query = line_breaks(parameters.get("q")).strip()
    recalled = None
    if query:
        recall_request = gateway_pb2.RecallRequest(query=query, limit=_HITS)
        recalled = await or_page_error(context.api.gateway.Recall(recall_request))
    return await _steps_page(request, context, query=query, recalled=recalled)


async def submit(request: Request, context: PageContext, _parameters: Parameters, form: Parameters) -> Response:
    """Make the key, or store the memory."""
    if form.get("step") == "key":
        created = await or_page_error(context.api.auth.CreateApiKey(_key_request(context, form.get("request_id"))))
        if isinstance(created, PageError):
            return await _steps_page(request, context, failure=created)
        return await _steps_page(request, context, created=created)
    if form.get("step") != "remember":
        raise FormInvalid("The form is incomplete. Load the page again.")
    text = line_breaks(form.get("content"))
    remember_request = gateway_pb2.RememberRequest(
        memories=[memory_pb2.Memory(content=text)], request_id=form.get("request_id")
    )
    stored = await or_page_error(context.api.gateway.Remember(remember_request))
    if isinstance(stored, PageError):
        return await _steps_page(request, context, content=text, failure=stored)
    return see_other(f"{context.url('start', done='remembered')}#recall")


def _key_request(context: PageContext, request_id: str) -> auth_pb2.CreateApiKeyRequest:
    # The end of a day, so that a repeated form is the same request.
    today = int(time.time()) // _DAY
    return auth_pb2.CreateApiKeyRequest(
        display_name="first steps",
        permissions=sorted(filter(context.may, AGENT_PERMISSIONS)),
        expire_time=Timestamp(seconds=(today + _KEY_DAYS + 1) * _DAY),
        request_id=request_id,
    )


async def _steps_page(
    request: Request,
    context: PageContext,
    *,
    created: auth_pb2.CreateApiKeyResponse | None = None,
    content: str = "",
    query: str = "",
    recalled: gateway_pb2.RecallResponse | PageError | None = None,
    failure: PageError | None = None,
) -> Response:
    newest, keys = await asyncio.gather(
        or_page_error(context.api.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=1))),
        or_page_error(context.api.auth.ListApiKeys(auth_pb2.ListApiKeysRequest(page_size=1))),
    )
    memories = [] if isinstance(newest, PageError) else newest.memories
    text = memories[0].content if memories else ""
    is_shown = 0 < len(text) <= _MAX_SHOWN and text.isprintable()
    origin = context.browser.origin
    return form_page(
        "start",
        request,
        context,
        status=http_status(recalled),
        at="start",
        title="First steps",
        failure=failure,
        created=created,
        has_key=context.is_key or (not isinstance(keys, PageError) and bool(keys.api_keys)),
        memories=memories,
        content=content or FIRST_MEMORY,
        query=query or FIRST_QUERY,
        recalled=recalled,
        hits=recalled.hits if isinstance(recalled, gateway_pb2.RecallResponse) else (),
        variables=_variables(origin, "" if created is None else created.secret),
        remember=_remember_commands(origin, text if is_shown else FIRST_MEMORY),
        recall=_recall_commands(origin, query if query.isprintable() and query else FIRST_QUERY),
        # A form that is sent twice makes one key and one memory.
        request_ids=[str(uuid.uuid4()) for _ in range(2)],
        may_make_key=context.may("keys.write"),
        may_remember=context.may("memory.write"),
        may_recall=context.may("recall.read"),
    )


def _variables(origin: str, secret: str) -> str:
    host = urlsplit(origin).hostname or "127.0.0.1"
    host = f"[{host}]" if ":" in host else host
    return f"export SKEIN_ENDPOINT={host}:{_GRPC_PORT}\nexport SKEIN_API_KEY={secret or 'skein_…'}"


def _remember_commands(origin: str, text: str) -> Commands:
    return Commands(
        skein=f"skein remember {_argument(text)}",
        curl=_curl(origin, "Remember", {"memories": [{"content": text}]}),
        python=_python([f"skein.remember({_literal(text)})"]),
    )


def _recall_commands(origin: str, query: str) -> Commands:
    return Commands(
        skein=f"skein recall {_argument(query)}",
        curl=_curl(origin, "Recall", {"query": query, "limit": _HITS}),
        python=_python(
            [
                f"for hit in skein.recall({_literal(query)}, limit={_HITS}).hits:",
                '    print(f"{hit.relevance:.2f}", hit.memory.content or hit.message.content)',
            ]
        ),
    )


def _argument(text: str) -> str:
    """Return a text as one argument of a shell command that takes it for no option."""
    return f"-- {shlex.quote(text)}" if text.startswith("-") else shlex.quote(text)


def _curl(origin: str, method: str, body: object) -> str:
    text = json.dumps(body, ensure_ascii=False)
    return (
        f"curl {origin}/skein.gateway.v1.GatewayService/{method} \\\n"
        '  -H "authorization: Bearer $SKEIN_API_KEY" -H "content-type: application/json" \\\n'
        f"  -d {shlex.quote(text)}"
    )


def _python(lines: Sequence[str]) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f"from skein_client.sync import Client\n\nwith Client.from_environment() as skein:\n{body}"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
