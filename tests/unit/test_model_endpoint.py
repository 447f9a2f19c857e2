"""A model behind an endpoint, asked of a real HTTP server that answers well, late, badly or not at all."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from fix_endpoint import DIMENSIONS, Answer, EmbeddingServer, vector_of
from fix_metrics import sample
from hypothesis import given
from hypothesis import strategies as st

from skein_kit.ids import now
from skein_kit.language_model import circuit_breaker
from skein_kit.language_model.circuit_breaker import MAX_FAILURES
from skein_kit.outbound.fetch import SafeHttpClient
from skein_recall.errors import ModelResponseInvalid, ModelUnavailable
from skein_recall.models.model import EmbeddingModel, EndpointConfig
from skein_recall.providers.api_keys import ApiKeys
from skein_recall.providers.openai import ATTEMPTS, InvalidResponse, OpenAIProvider, read_vectors
from skein_recall.providers.provider import TextRejected

SECRET = "sk-one-that-nobody-may-see"


@dataclass
class RecordedPauses:
    """What was waited, without waiting."""

    seconds: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def made(
    server: EmbeddingServer, pauses: RecordedPauses | None = None, *, allow: bool = True, **remote: Any
) -> OpenAIProvider:
    settings = EndpointConfig(
        **{
            "endpoint": server.endpoint,
            "remote_model": "words-64",
            "batch_size": 4,
            "timeout_seconds": 5.0,
            "window_characters": 400,
            **remote,
        }
    )
    model = EmbeddingModel(
        model="words",
        provider="openai",
        dimensions=DIMENSIONS,
        table_name="embeddings_words",
        active=False,
        create_time=now(),
        endpoint=settings,
    )
    outbound = SafeHttpClient(allow=[server.url] if allow else [])
    return OpenAIProvider(model, settings, outbound, key=SECRET, pause=pauses or RecordedPauses())


def unit(text: str) -> np.ndarray[Any, Any]:
    vector: np.ndarray[Any, Any] = np.array(vector_of(text))
    vector /= np.linalg.norm(vector)
    return vector


async def test_texts_go_in_batches_and_their_vectors_come_back_in_order(endpoint: EmbeddingServer) -> None:
    texts = [f"text number {number}" for number in range(10)]
    endpoint.reversed = True

    vectors = await made(endpoint).embed(texts)

    assert [len(batch) for batch in endpoint.batches] == [4, 4, 2]
    assert np.allclose(vectors, [unit(text) for text in texts], atol=1e-6)
    assert set(endpoint.keys) == {f"Bearer {SECRET}"}


async def test_nothing_to_embed_makes_no_request(endpoint: EmbeddingServer) -> None:
    assert (await made(endpoint).embed([])).shape == (0, DIMENSIONS)
    assert endpoint.batches == []


@pytest.mark.parametrize("status", [b"500 Oops", b"503 Busy", b"429 Too Many", b"408 Late"])
async def test_a_transient_error_is_tried_again_after_a_growing_pause(endpoint: EmbeddingServer, status: bytes) -> None:
    endpoint.answers = [Answer(status), Answer(status)]
    pauses = RecordedPauses()

    vectors = await made(endpoint, pauses).embed(["tea"])

    assert np.allclose(vectors[0], unit("tea"), atol=1e-6)
    assert len(endpoint.batches) == 3
    first, second = pauses.seconds
    assert 0.2 <= first <= 0.4 <= second <= 0.8


async def test_an_endpoint_that_says_when_is_asked_then(endpoint: EmbeddingServer) -> None:
    endpoint.answers = [Answer(b"429 Too Many", b"retry-after: 5\r\n")]
    pauses = RecordedPauses()

    with pytest.raises(ModelUnavailable, match="does not answer"):
        await made(endpoint, pauses).embed(["tea"])

    # The pause was not really waited for, so the next attempt found that the endpoint still rests.
    assert pauses.seconds[0] == 5.0
    assert len(endpoint.batches) == 1


async def test_an_endpoint_may_name_a_time_instead(endpoint: EmbeddingServer) -> None:
    at = format_datetime(now() + timedelta(seconds=5), usegmt=True)
    endpoint.answers = [Answer(b"503 Busy", b"retry-after: %s\r\n" % at.encode())]
    pauses = RecordedPauses()

    with pytest.raises(ModelUnavailable):
        await made(endpoint, pauses).embed(["tea"])

    # Longer than the first pause of one that names no time.
    assert 0.4 < pauses.seconds[0] <= 5.0


@pytest.mark.parametrize("header", [b"soon", b"-1", b"", b"1e9", b"Mon, 99 Foo"])
async def test_a_time_that_is_none_is_passed_over(endpoint: EmbeddingServer, header: bytes) -> None:
    endpoint.answers = [Answer(b"503 Busy", b"retry-after: %s\r\n" % header)]

    assert len(await made(endpoint).embed(["tea"])) == 1


async def test_a_rest_that_is_too_long_is_not_waited_for(endpoint: EmbeddingServer) -> None:
    endpoint.breaks(Answer(b"503 Busy", b"retry-after: 3600\r\n"))
    pauses = RecordedPauses()

    with pytest.raises(ModelUnavailable):
        await made(endpoint, pauses).embed(["tea"])

    assert (pauses.seconds, len(endpoint.batches)) == ([], 1)


async def test_a_failing_endpoint_is_left_alone_and_callers_learn_so_at_once(
    endpoint: EmbeddingServer, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow this machine is, it is not tried again meanwhile.
    monkeypatch.setattr(circuit_breaker, "FIRST_PAUSE_SECONDS", 3600.0)
    endpoint.breaks(Answer(b"500 Oops"))
    provider = made(endpoint)

    for _ in range(10):
        with pytest.raises(ModelUnavailable):
            await provider.embed_query("tea", seconds=5.0)

    assert len(endpoint.batches) == MAX_FAILURES
    assert sample("skein_embedding_circuit_breaker_state", model="words") == 2
    log_text = log.getvalue()
    assert log_text.count("model_circuit_changed") == 1
    assert SECRET not in log_text
    assert "tea" not in log_text


async def test_an_endpoint_that_hangs_is_given_up_in_time(endpoint: EmbeddingServer) -> None:
    endpoint.breaks(Answer(hangs=True))

    async with asyncio.timeout(30):
        with pytest.raises(ModelUnavailable):
            await made(endpoint, timeout_seconds=3600.0).embed_query("tea", seconds=0.1)


async def test_an_attempt_has_no_end_of_attempts(endpoint: EmbeddingServer) -> None:
    endpoint.breaks(Answer(b"429 Too Many"))

    with pytest.raises(ModelUnavailable):
        await made(endpoint).embed(["tea"])

    assert len(endpoint.batches) == ATTEMPTS


@pytest.mark.parametrize("status", [b"401 Who", b"403 No", b"404 Where", b"302 There"])
async def test_a_permanent_error_is_not_tried_again(endpoint: EmbeddingServer, status: bytes) -> None:
    endpoint.breaks(Answer(status))

    with pytest.raises(ModelUnavailable):
        await made(endpoint).embed(["tea"])

    assert len(endpoint.batches) == 1


async def test_a_text_that_is_not_taken_is_the_text_s_fault(endpoint: EmbeddingServer) -> None:
    endpoint.chokes_on = "gristle"
    provider = made(endpoint)

    for _ in range(2 * MAX_FAILURES):
        with pytest.raises(TextRejected):
            await provider.embed(["gristle"])

    assert len(await provider.embed(["bread"])) == 1


def answer(*vectors: list[float], **more: Any) -> dict[str, Any]:
    return {"data": [{"index": n, "embedding": vector, **more} for n, vector in enumerate(vectors)]}


WRONG = {
    "nothing": {},
    "no list": {"data": "x"},
    "too few": {"data": []},
    "too many": answer([1.0, 0.0], [1.0, 0.0]),
    "another place": answer([1.0, 0.0], index=1),
    "no place": {"data": [{"embedding": [1.0, 0.0]}]},
    "a place that is true": answer([1.0, 0.0], index=False),
    "no object": {"data": [None]},
    "short": answer([1.0]),
    "long": answer([1.0, 0.0, 0.0]),
    "no vector": {"data": [{"index": 0, "embedding": "AAAA"}]},
    "words": {"data": [{"index": 0, "embedding": ["a", "b"]}]},
    "nested": {"data": [{"index": 0, "embedding": [[1.0], [0.0]]}]},
    "null": {"data": [{"index": 0, "embedding": [None, 1.0]}]},
    "zero": answer([0.0, 0.0]),
    "infinite": answer([float("inf"), 0.0]),
    "no number": answer([float("nan"), 0.0]),
    "huge": {"data": [{"index": 0, "embedding": [10**400, 1.0]}]},
}


@pytest.mark.parametrize("document", WRONG.values(), ids=WRONG)
def test_an_answer_with_something_else_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidResponse):
        read_vectors(document, 1, 2)


def points(values: list[float]) -> bool:
    return max(map(abs, values)) > 1e-30


@given(st.lists(st.lists(st.floats(-1e30, 1e30), min_size=3, max_size=3).filter(points), min_size=1, max_size=5))
def test_every_vector_comes_out_with_unit_length(vectors: list[list[float]]) -> None:
    lengths = np.linalg.norm(read_vectors(answer(*vectors), len(vectors), 3), axis=1)

    assert np.allclose(lengths, 1.0, atol=1e-5)


async def test_read_vectors_another_length_are_refused_loudly(endpoint: EmbeddingServer, log: io.StringIO) -> None:
    endpoint.breaks(Answer(body=answer([1.0, 2.0])))

    with pytest.raises(ModelResponseInvalid) as caught:
        await made(endpoint).embed(["tea"])

    assert caught.value.metadata["problem"] == "a vector of 2 dimensions, not 64"
    assert "model_response_invalid" in log.getvalue()


async def test_a_private_address_is_asked_only_where_the_operator_allows_it(endpoint: EmbeddingServer) -> None:
    with pytest.raises(ModelUnavailable):
        await made(endpoint, allow=False).embed(["tea"])

    assert endpoint.batches == []


@pytest.mark.system
@given(st.text(alphabet="ab. \n", max_size=3000))
def test_pieces_of_a_text_fit_the_window_and_leave_nothing_out(text: str) -> None:
    pieces = made(EmbeddingServer(url="https://example.com")).chunks(text)

    assert all(len(piece) <= 400 for piece in pieces)
    place = 0
    for piece in pieces:
        at = text.index(piece, max(0, place - 400)) if piece else place
        assert not text[place:at].strip()
        place = max(place, at + len(piece))
    assert not text[place:].strip()


def test_the_key_of_a_model_is_its_own_or_everybody_s() -> None:
    keys = ApiKeys.read(
        {"SKEIN_EMBEDDINGS_API_KEY": "all", "SKEIN_EMBEDDINGS_API_KEY_TEXT_3_SMALL": "own", "SKEIN_EMBEDDINGS_X": "no"}
    )

    assert (keys.get("text-3.small"), keys.get("other")) == ("own", "all")
    assert "own" not in repr(keys)
    assert ApiKeys.read({}).get("other") == ""


def test_a_key_may_come_from_a_file(tmp_path: Any) -> None:
    (tmp_path / "key").write_text("from a file\n")

    assert ApiKeys.read({"SKEIN_EMBEDDINGS_API_KEY_FILE": str(tmp_path / "key")}).get("any") == "from a file"
