"""Calls of one OpenAI-compatible endpoint: POST {base}/chat/completions, for a text or for a JSON object.

A JSON object is requested by a JSON schema. An endpoint that refuses or ignores that is asked for a tool call, then for
a text that is parsed strictly. The client remembers the first way that works. After some failures in a row the circuit
breaker refuses requests at once. Nothing of an answer gets into errors, logs and labels.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from prometheus_client import Counter, Gauge, Histogram

from skein_kit.language_model.circuit_breaker import CircuitBreaker, CircuitState
from skein_kit.outbound.fetch import OutboundError, SafeHttpClient
from skein_kit.settings import SettingInvalid
from skein_kit.telemetry import logs
from skein_kit.text.token_estimate import estimate_tokens

_PATH: Final = "/chat/completions"
_MAX_RESPONSE_BYTES: Final = 1024 * 1024
# A larger number of tokens in an answer is no count.
_MAX_TOKENS: Final = 10_000_000
# An endpoint answers so where it does not know a field of the request, or does not take its text.
_REFUSED_STATUSES: Final = frozenset({400, 404, 405, 413, 415, 422, 501})
_TOO_MANY_REQUESTS: Final = 429
# Reasons of errors that name no failure of the endpoint.
BREAKER: Final = "breaker"

REQUESTS = Counter(
    "skein_language_model_requests_total",
    "Requests to a language model, by the service that sent them and their outcome.",
    ["service", "outcome"],
)
TOKENS = Counter(
    "skein_language_model_tokens_total",
    "Tokens of requests (prompt) and answers (completion) of a language model, as it counts them.",
    ["service", "kind"],
)
REQUEST_TIME = Histogram(
    "skein_language_model_request_duration_seconds",
    "Duration of one request to a language model.",
    ["service"],
    buckets=(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
CIRCUIT = Gauge(
    "skein_language_model_circuit_breaker_state",
    "State of the circuit breaker of a service's language model: 0 closed, 1 half-open (one trial request), 2 open.",
    ["service"],
)

Document = TypeVar("Document")


class ChatModelError(Exception):
    """The model gave no usable answer; `reason` holds no text of the answer."""

    def __init__(
        self,
        reason: str,
        *,
        tokens: int = 0,
        retry_after: float | None = None,
        is_final: bool = False,
        status: int | None = None,
    ) -> None:
        """`tokens` were used nevertheless; `retry_after` is in seconds; `is_final`: a repetition would fail too."""
        super().__init__(reason)
        self.reason = reason
        self.tokens = tokens
        self.retry_after = retry_after
        self.is_final = is_final
        self.status = status


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where a model is, and its key."""

    # The base of an API, such as http://127.0.0.1:11434/v1.
    url: str
    model: str
    key: str = field(repr=False)
    # The longest time of one answer.
    seconds: float

    @property
    def origin(self) -> str:
        """Scheme, host and port of the URL."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def check(self, setting: str) -> None:
        """Raise SettingInvalid, which names the setting, for a URL that is not the base of an API."""
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query:
            message = f"{setting} should be the base of an API, such as http://127.0.0.1:11434/v1."
            raise SettingInvalid(message)


class _Way(IntEnum):
    """How a JSON object is requested."""

    SCHEMA = 0
    TOOL = 1
    TEXT = 2


@dataclass(frozen=True, slots=True)
class _Answer:
    text: str
    tokens: int


class ChatClient:
    """Calls one endpoint. It may call several at a time."""

    def __init__(self, endpoint: Endpoint, *, service: str, outbound: SafeHttpClient | None = None) -> None:
        """Without `outbound` the endpoint may lie in a private network: only the operator can configure it so."""
        self.endpoint = endpoint
        self._service = service
        self._url = endpoint.url.rstrip("/").removesuffix(_PATH) + _PATH
        self._is_of_operator = outbound is None
        self._outbound = outbound or SafeHttpClient(allow=(endpoint.origin,))
        self._headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        self._circuit = CircuitBreaker(on_change=self._on_change)
        self._way = _Way.SCHEMA
        if self._is_of_operator:
            CIRCUIT.labels(service).set(CircuitState.CLOSED)

    async def complete(self, messages: Sequence[Mapping[str, str]], *, seconds: float) -> tuple[str, int]:
        """Return the text of an answer, and the tokens of the request and its answer. Raises ChatModelError."""
        answer = await self._request({"messages": list(messages)}, seconds)
        return answer.text, answer.tokens

    async def complete_json(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        name: str,
        schema: Mapping[str, object],
        read: Callable[[Any], Document],
        max_tokens: int,
        seconds: float,
    ) -> tuple[Document, int]:
        """Return what `read` makes of a JSON object of the schema, and the tokens of all requests.

        `read` raises ValueError for what does not follow the schema. Raises ChatModelError, with the tokens.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(seconds, self.endpoint.seconds)
        tokens, refusal = 0, ChatModelError("schema")
        is_answered = False
        for way in [way for way in _Way if way >= self._way]:
            body = {"messages": list(messages), "max_tokens": max_tokens, **_fields(way, name, schema)}
            try:
                answer = await self._request(body, deadline - loop.time())
            except ChatModelError as failure:
                failure.tokens = tokens = tokens + failure.tokens
                if failure.status not in _REFUSED_STATUSES:
                    raise
                refusal = failure
                continue
            tokens += answer.tokens
            try:
                document = read(_parse(answer.text))
            except (ValueError, RecursionError):
                is_answered = True
                continue
            self._way = way
            return document, tokens
        if is_answered:
            raise ChatModelError("schema", tokens=tokens, is_final=True)
        raise refusal

    async def _request(self, fields: Mapping[str, object], seconds: float) -> _Answer:
        timeout = min(seconds, self.endpoint.seconds)
        if timeout <= 0:
            raise ChatModelError("time")
        if not self._circuit.allow_request():
            raise ChatModelError(BREAKER, retry_after=self._circuit.remaining_seconds)
        outcome, started = "cancelled", time.perf_counter()
        try:
            response = await self._outbound.post_json(
                self._url,
                {"model": self.endpoint.model, "temperature": 0, **fields},
                limit_bytes=_MAX_RESPONSE_BYTES,
                timeout=timeout,
                headers=self._headers,
            )
            outcome = "ok"
        except OutboundError as error:
            outcome = str(error)
            self._on_error(error)
            raise ChatModelError(outcome, retry_after=error.retry_after, status=error.status) from None
        finally:
            if outcome == "cancelled":
                self._circuit.on_cancelled()
            REQUESTS.labels(self._service, outcome).inc()
            REQUEST_TIME.labels(self._service).observe(time.perf_counter() - started)
        self._circuit.on_success()
        return self._read(fields, response.document)

    def _read(self, fields: Mapping[str, object], document: Mapping[str, Any]) -> _Answer:
        try:
            choice = document["choices"][0]
            message, reason = choice["message"], choice.get("finish_reason")
            calls = message.get("tool_calls")
            text = calls[0]["function"]["arguments"] if calls else message["content"]
        except (KeyError, IndexError, TypeError, AttributeError):
            raise ChatModelError("content") from None
        if not isinstance(text, str):
            raise ChatModelError("content")
        tokens = self._count(fields, document.get("usage"), text)
        if reason == "length":
            raise ChatModelError("truncated", tokens=tokens, is_final=True)
        return _Answer(text, tokens)

    def _count(self, fields: Mapping[str, object], usage: object, text: str) -> int:
        """Count the tokens of a request and its answer: as `usage` says, else estimated."""
        counts = usage if isinstance(usage, dict) else {}
        estimates = {"prompt": json.dumps(fields, ensure_ascii=False), "completion": text}
        total = 0
        for kind, content in estimates.items():
            count = counts.get(f"{kind}_tokens")
            if type(count) is not int or not 0 <= count <= _MAX_TOKENS:
                count = estimate_tokens(content)
            TOKENS.labels(self._service, kind).inc(count)
            total += count
        return total

    def _on_error(self, error: OutboundError) -> None:
        if error.status in _REFUSED_STATUSES:
            # The endpoint works, and refuses this request.
            self._circuit.on_success()
        elif error.status == _TOO_MANY_REQUESTS:
            self._circuit.open_for(error.retry_after if error.retry_after is not None else 1.0)
        else:
            self._circuit.on_failure()

    def _on_change(self, state: CircuitState) -> None:
        if self._is_of_operator:
            CIRCUIT.labels(self._service).set(state)
            logs.get(self._service).warning("language_model_circuit_changed", state=state.name.lower())


def _fields(way: _Way, name: str, schema: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a request that ask for a JSON object."""
    if way is _Way.SCHEMA:
        form = {"name": name, "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    if way is _Way.TOOL:
        function = {"type": "function", "function": {"name": name, "parameters": schema}}
        return {"tools": [function], "tool_choice": {"type": "function", "function": {"name": name}}}
    return {}


def _parse(text: str) -> object:
    """Parse one JSON value, which may stand in a fence of Markdown. Raises ValueError."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3].removeprefix("json")
    return json.loads(text)
