"""An endpoint that speaks OpenAI's protocol for embeddings: POST {endpoint}/embeddings.

Texts go in batches. What may pass (time-outs, 429, 5xx) is tried again after a pause that doubles, with chance in it,
or that the endpoint asks for; after some failures in a row the endpoint is left alone, and whoever asks hears so at
once. Whatever it answers is checked: as many vectors as texts, each of the model's dimensions, every number finite.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from prometheus_client import Counter, Gauge, Histogram

from skein_kit.outbound.fetch import OutboundError
from skein_kit.telemetry import logs
from skein_recall.embedded_model import chunks as chunking
from skein_recall.errors import ModelResponseInvalid, ModelUnavailable
from skein_recall.providers.circuit_breaker import Circuit, State
from skein_recall.providers.provider import TextRejected
from skein_recall.query_cache import QueryCache

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from skein_kit.outbound.fetch import SafeHttpClient
    from skein_recall.models.model import EmbeddingModel, EndpointConfig

# Attempts at one batch of an index; a query has one, because somebody waits for it.
ATTEMPTS: Final = 4
FIRST_PAUSE_SECONDS: Final = 0.2
# A longer rest than this is not waited for: the circuit is open meanwhile.
LONGEST_WAIT_SECONDS: Final = 5.0
# Batches of one process that are under way at a time.
_AT_ONCE: Final = 4
# What a number takes in JSON, at most, and what stands around the vectors.
_NUMBER_BYTES: Final = 28
_ENVELOPE_BYTES: Final = 65_536
# Of the window, what a piece of a text shares with the one before.
_OVERLAP_SHARE: Final = 8
_TEXT_AT_FAULT: Final = frozenset({400, 413, 422})
_PASSING: Final = frozenset({408, 425, 429, *range(500, 600)})
_TOO_MANY: Final = 429

CIRCUIT = Gauge(
    "skein_embedding_circuit_state",
    "State of the circuit breaker of a model's endpoint: 0 closed, 1 half-open (one request tries), 2 open.",
    ["model"],
)
REQUESTS = Counter("skein_embedding_requests_total", "Requests to a model's endpoint.", ["model", "outcome"])
REQUEST_TIME = Histogram(
    "skein_embedding_request_duration_seconds",
    "Time of one request to a model's endpoint.",
    ["model"],
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0),
)
log = logs.get("recall")


class OpenAIProvider:
    """One registered model behind an endpoint, as `Provider` has it."""

    def __init__(
        self,
        model: EmbeddingModel,
        remote: EndpointConfig,
        outbound: SafeHttpClient,
        *,
        key: str,
        circuit: Circuit | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Ask through `outbound`, with a key unless that is empty."""
        self._model = model
        self._remote = remote
        self._outbound = outbound
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._circuit = circuit or Circuit(on_change=self._changed)
        self._pause = pause
        self._queries = QueryCache()
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._limit_bytes = _ENVELOPE_BYTES + remote.batch_size * model.dimensions * _NUMBER_BYTES
        CIRCUIT.labels(model.model).set(State.CLOSED)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector for each text, in order."""
        made = [np.empty((0, self._model.dimensions), dtype=np.float32)]
        for start in range(0, len(texts), self._remote.batch_size):
            async with self._room:
                made.append(await self._persist(texts[start : start + self._remote.batch_size]))
        return np.concatenate(made)

    async def embed_query(self, text: str, *, scope: str, seconds: float) -> NDArray[np.float32]:
        """The vector of a query, by one request within so many seconds."""

        async def make() -> NDArray[np.float32]:
            vector: NDArray[np.float32] = (await self._ask([text], min(seconds, self._remote.timeout_seconds)))[0]
            return vector

        return await self._queries.vector(text, scope, make)

    def drop(self, scope: str | None) -> None:
        """Forget the vectors of a scope's queries; None: of every scope's."""
        self._queries.drop(scope)

    def chunks(self, text: str) -> list[str]:
        """The text itself when it fits the window, else overlapping pieces: nobody here knows the model's tokens."""
        window = self._remote.window_characters
        if len(text) <= window:
            return [text]
        marks = chunking.character_words(text)
        spans = chunking.spans(text, marks, window=window, overlap=window // _OVERLAP_SHARE)
        return [text[start:end] for start, end in spans]

    async def _persist(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Ask again while that makes sense."""
        for attempt in range(1, ATTEMPTS):
            try:
                return await self._ask(texts, self._remote.timeout_seconds)
            except ModelUnavailable as refusal:
                longest = FIRST_PAUSE_SECONDS * 2.0**attempt
                wait = max(refusal.seconds, longest * random.uniform(0.5, 1.0))  # noqa: S311 - not a secret.
                if not refusal.passing or wait > LONGEST_WAIT_SECONDS:
                    raise
            await self._pause(wait)
        return await self._ask(texts, self._remote.timeout_seconds)

    async def _ask(self, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        if not self._circuit.passes():
            raise ModelUnavailable(model=self._model.model, why="circuit open")
        started = time.perf_counter()
        outcome = "withdrawn"
        try:
            fetched = await self._outbound.post_json(
                f"{self._remote.endpoint}/embeddings",
                {"model": self._remote.remote_model, "input": list(texts), "encoding_format": "float"},
                limit_bytes=self._limit_bytes,
                timeout=seconds,
                headers=self._headers,
            )
            made = vectors_of(fetched.document, len(texts), self._model.dimensions)
            outcome = "ok"
        except OutboundError as refused:
            outcome = str(refused)
            self._failed(refused)
            raise self._refusal(refused) from None
        except InvalidResponse as wrong:
            outcome = "answer"
            # Not what was registered: nobody can do anything with it until somebody looks.
            self._circuit.failed()
            log.error("model_answers_wrong", model=self._model.model, what=str(wrong))  # noqa: TRY400 - no fault here.
            raise ModelResponseInvalid(model=self._model.model, what=str(wrong)) from None
        finally:
            if outcome == "withdrawn":
                self._circuit.withdrawn()
            REQUESTS.labels(self._model.model, outcome).inc()
            REQUEST_TIME.labels(self._model.model).observe(time.perf_counter() - started)
        self._circuit.succeeded()
        return made

    def _failed(self, refused: OutboundError) -> None:
        if refused.status in _TEXT_AT_FAULT:
            # It answers; what it does not want is this text.
            self._circuit.succeeded()
        elif refused.retry_after is not None:
            self._circuit.rests(refused.retry_after)
        elif refused.status != _TOO_MANY:
            self._circuit.failed()
        if refused.status not in _TEXT_AT_FAULT:
            log.warning("model_did_not_answer", model=self._model.model, why=str(refused))

    def _refusal(self, refused: OutboundError) -> Exception:
        if refused.status in _TEXT_AT_FAULT:
            return TextRejected(f"status {refused.status}")
        passing = refused.why in {"time", "connection"} or refused.status in _PASSING
        return ModelUnavailable(
            model=self._model.model, why=str(refused), seconds=refused.retry_after or 0.0, passing=passing
        )

    def _changed(self, state: State) -> None:
        CIRCUIT.labels(self._model.model).set(state)
        log.warning("model_circuit", model=self._model.model, state=state.name.lower())


class InvalidResponse(Exception):
    """An answer that holds something other than what was asked for; its words are ours."""


def vectors_of(document: Mapping[str, Any], count: int, dimensions: int) -> NDArray[np.float32]:
    """Read the vectors of an answer into the order of the texts, made of unit length; raise InvalidResponse."""
    data = document.get("data")
    if not isinstance(data, list) or len(data) != count:
        held = len(data) if isinstance(data, list) else 0
        message = f"{held} vectors for {count} texts"
        raise InvalidResponse(message)
    places: dict[int, object] = {}
    for entry in data:
        place = entry.get("index") if isinstance(entry, dict) else None
        if type(place) is not int or not 0 <= place < count or place in places:
            message = "an index that is none of the texts', or comes twice"
            raise InvalidResponse(message)
        places[place] = entry.get("embedding")
    made = np.empty((count, dimensions), dtype=np.float32)
    for place, values in places.items():
        if not isinstance(values, list) or len(values) != dimensions:
            held = len(values) if isinstance(values, list) else 0
            message = f"a vector of {held} dimensions, not {dimensions}"
            raise InvalidResponse(message)
        made[place] = _unit(values)
    return made


def _unit(values: list[Any]) -> NDArray[np.float64]:
    try:
        vector = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        vector = np.array([np.nan])
    length = np.linalg.norm(vector) if vector.ndim == 1 else np.nan
    if not np.isfinite(length) or not length:
        message = "a vector that is no direction"
        raise InvalidResponse(message)
    return vector / length
