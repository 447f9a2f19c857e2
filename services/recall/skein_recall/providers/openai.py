"""An endpoint that speaks OpenAI's protocol for embeddings: POST {endpoint}/embeddings.

Texts go in batches. Transient failures (time-outs, 429, 5xx) are retried after a random pause that doubles, or after
the time that the endpoint asks for. After some failures in a row the circuit breaker refuses requests at once. Each
response is checked: as many vectors as texts, each of the model's dimensions, every number finite.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Counter, Gauge, Histogram

from skein_kit.language_model.circuit_breaker import CircuitBreaker, CircuitState
from skein_kit.outbound.fetch import OutboundError, SafeHttpClient
from skein_kit.telemetry import logs
from skein_recall.embedded_model import chunks as chunking
from skein_recall.errors import ModelResponseInvalid, ModelUnavailable
from skein_recall.models.model import EmbeddingModel, EndpointConfig
from skein_recall.providers.provider import QueryEmbedding, TextRejected

# Attempts at one batch of an index. A query has one, because a caller waits for it.
ATTEMPTS: Final = 4
FIRST_PAUSE_SECONDS: Final = 0.2
# A longer pause is not awaited: the circuit is open meanwhile.
MAX_WAIT_SECONDS: Final = 5.0
# Concurrent batches of one process.
_MAX_CONCURRENT: Final = 4
# Bytes of a number in JSON, at most, and of a response without its vectors.
_NUMBER_BYTES: Final = 28
_ENVELOPE_BYTES: Final = 65_536
# One in so many characters of the window is shared with the chunk before.
_OVERLAP_SHARE: Final = 8
_TEXT_STATUSES: Final = frozenset({400, 413, 422})
_TRANSIENT_STATUSES: Final = frozenset({408, 425, 429, *range(500, 600)})
_TOO_MANY_REQUESTS: Final = 429

CIRCUIT = Gauge(
    "skein_embedding_circuit_breaker_state",
    "State of the circuit breaker of a model's endpoint: 0 closed, 1 half-open (one trial request), 2 open.",
    ["model"],
)
REQUESTS = Counter(
    "skein_embedding_requests_total", "Requests to a model's endpoint, by outcome.", ["model", "outcome"]
)
REQUEST_TIME = Histogram(
    "skein_embedding_request_duration_seconds",
    "Duration of one request to a model's endpoint.",
    ["model"],
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0),
)
log = logs.get("recall")


class OpenAIProvider:
    """One registered model behind an endpoint, as a `Provider`."""

    def __init__(
        self,
        model: EmbeddingModel,
        endpoint: EndpointConfig,
        outbound: SafeHttpClient,
        *,
        key: str,
        circuit: CircuitBreaker | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Send requests through `outbound`, with a bearer `key` unless it is empty. `pause` sleeps for some seconds."""
        self._model = model
        self._endpoint = endpoint
        self._outbound = outbound
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._circuit = circuit or CircuitBreaker(on_change=self._on_change)
        self._pause = pause
        self._semaphore = asyncio.Semaphore(_MAX_CONCURRENT)
        self._limit_bytes = _ENVELOPE_BYTES + endpoint.batch_size * model.dimensions * _NUMBER_BYTES
        CIRCUIT.labels(model.model).set(CircuitState.CLOSED)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a float32 array (texts, dimensions), each row of unit length.

        Raises TextRejected, ModelUnavailable and ModelResponseInvalid.
        """
        batch_size = self._endpoint.batch_size
        vectors = [np.empty((0, self._model.dimensions), dtype=np.float32)]
        for start in range(0, len(texts), batch_size):
            async with self._semaphore:
                vectors.append(await self._request_with_retries(texts[start : start + batch_size]))
        return np.concatenate(vectors)

    async def embed_with_tokens(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], None]:
        """Return the vectors alone: endpoints tell nothing of tokens."""
        return await self.embed(texts), None

    async def embed_query(self, text: str, *, seconds: float) -> QueryEmbedding:
        """Embed a query by one request within so many seconds."""
        return QueryEmbedding((await self._request([text], min(seconds, self._endpoint.timeout_seconds)))[0])

    def chunks(self, text: str) -> list[str]:
        """Cut a text into overlapping chunks that fit the window, in characters: the model's tokens are unknown."""
        window = self._endpoint.window_characters - len(self._model.passage_prefix)
        if len(text) <= window:
            return [text]
        marks = chunking.character_words(text)
        spans = chunking.spans(text, marks, window=window, overlap=window // _OVERLAP_SHARE)
        return [text[start:end] for start, end in spans]

    async def _request_with_retries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        for attempt in range(1, ATTEMPTS):
            try:
                return await self._request(texts, self._endpoint.timeout_seconds)
            except ModelUnavailable as error:
                max_wait = FIRST_PAUSE_SECONDS * 2.0**attempt
                wait = max(error.retry_seconds, max_wait * random.uniform(0.5, 1.0))  # noqa: S311 - not a secret.
                if not error.is_transient or wait > MAX_WAIT_SECONDS:
                    raise
            await self._pause(wait)
        return await self._request(texts, self._endpoint.timeout_seconds)

    async def _request(self, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        if not self._circuit.allow_request():
            raise ModelUnavailable(model=self._model.model, cause="circuit open")
        started = time.perf_counter()
        outcome = "cancelled"
        try:
            fetched = await self._outbound.post_json(
                f"{self._endpoint.endpoint}/embeddings",
                {"model": self._endpoint.remote_model, "input": list(texts), "encoding_format": "float"},
                limit_bytes=self._limit_bytes,
                timeout=seconds,
                headers=self._headers,
            )
            vectors = read_vectors(fetched.document, len(texts), self._model.dimensions)
            outcome = "ok"
        except OutboundError as error:
            outcome = str(error)
            self._on_error(error)
            raise self._rpc_error(error) from None
        except InvalidResponse as error:
            outcome = "answer"
            # Retries cannot help: the endpoint's model differs from the registered one.
            self._circuit.on_failure()
            log.error("model_response_invalid", model=self._model.model, problem=str(error))  # noqa: TRY400 - no bug of ours.
            raise ModelResponseInvalid(model=self._model.model, problem=str(error)) from None
        finally:
            if outcome == "cancelled":
                self._circuit.on_cancelled()
            REQUESTS.labels(self._model.model, outcome).inc()
            REQUEST_TIME.labels(self._model.model).observe(time.perf_counter() - started)
        self._circuit.on_success()
        return vectors

    def _on_error(self, error: OutboundError) -> None:
        if error.status in _TEXT_STATUSES:
            # The endpoint works, and rejects this text.
            self._circuit.on_success()
        elif error.retry_after is not None:
            self._circuit.open_for(error.retry_after)
        elif error.status != _TOO_MANY_REQUESTS:
            self._circuit.on_failure()
        if error.status not in _TEXT_STATUSES:
            log.warning("model_unavailable", model=self._model.model, why=str(error))

    def _rpc_error(self, error: OutboundError) -> Exception:
        if error.status in _TEXT_STATUSES:
            return TextRejected(f"status {error.status}")
        is_transient = error.why in {"time", "connection"} or error.status in _TRANSIENT_STATUSES
        return ModelUnavailable(
            model=self._model.model,
            cause=str(error),
            retry_seconds=error.retry_after or 0.0,
            is_transient=is_transient,
        )

    def _on_change(self, state: CircuitState) -> None:
        CIRCUIT.labels(self._model.model).set(state)
        log.warning("model_circuit_changed", model=self._model.model, state=state.name.lower())


class InvalidResponse(Exception):
    """A response without the requested vectors. The message has no words of the endpoint."""


def read_vectors(document: Mapping[str, Any], count: int, dimensions: int) -> NDArray[np.float32]:
    """Read a response into a float32 array (count, dimensions), in the order of the texts; each row of unit length.

    Raises InvalidResponse.
    """
    data = document.get("data")
    if not isinstance(data, list) or len(data) != count:
        length = len(data) if isinstance(data, list) else 0
        message = f"{length} vectors for {count} texts"
        raise InvalidResponse(message)
    embeddings: dict[int, object] = {}
    for entry in data:
        index = entry.get("index") if isinstance(entry, dict) else None
        if type(index) is not int or not 0 <= index < count or index in embeddings:
            message = "an index that is not of a text, or occurs twice"
            raise InvalidResponse(message)
        embeddings[index] = entry.get("embedding")
    vectors = np.empty((count, dimensions), dtype=np.float32)
    for index, values in embeddings.items():
        if not isinstance(values, list) or len(values) != dimensions:
            length = len(values) if isinstance(values, list) else 0
            message = f"a vector of {length} dimensions, not {dimensions}"
            raise InvalidResponse(message)
        vectors[index] = _normalize(values)
    return vectors


def _normalize(values: list[Any]) -> NDArray[np.float64]:
    try:
        vector = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        vector = np.array([np.nan])
    length = np.linalg.norm(vector) if vector.ndim == 1 else np.nan
    if not np.isfinite(length) or not length:
        message = "a vector without a direction"
        raise InvalidResponse(message)
    return vector / length
