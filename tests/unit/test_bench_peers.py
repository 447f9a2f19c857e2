from __future__ import annotations

from pathlib import Path

import numpy as np
from bench.dialogues import Population, Question, population, zipf_sizes
from bench.peers import table
from bench.searches import HYBRID, TEXT, VECTOR, Calls, Corpus, Engine, Row, measure, recall


def corpus() -> Corpus:
    """Twelve entries of one tenant, the nearest to each question first, and one entry of another tenant."""
    angles = np.linspace(0, np.pi / 2, 12, dtype=np.float32)
    entries = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    questions = np.array([[1, 0]] * 20, np.float32)
    return Corpus(
        population=Population([[f"text {number}" for number in range(12)], ["other"]], [Question(0, "what")] * 20),
        entries=[entries, entries[:1]],
        questions=questions,
    )


def row(engine: str, mode: str, recall_share: float | None = None) -> Row:
    return Row(engine=engine, mode=mode, p50_ms=1.0, p95_ms=2.0, cpu_ms=3.0, per_second=4.0, recall=recall_share)


def test_a_population_repeats_with_its_seed_and_no_text_comes_twice() -> None:
    one, same, other = (population(tenants=5, entries=500, questions=300, seed=seed) for seed in (1, 1, 2))

    texts = [text for tenant in one.tenants for text in tenant] + [question.text for question in one.questions]
    assert (one, len(texts)) == (same, 800)
    assert len(set(texts)) == len(texts)
    assert one != other


def test_the_sizes_of_tenants_fall_as_one_over_their_rank() -> None:
    assert zipf_sizes(3, 110) == [60, 30, 20]
    assert sum(zipf_sizes(20, 5000)) == 5000
    assert zipf_sizes(4, 1) == [1, 1, 1, 1]


def test_a_corpus_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = corpus()

    written.save(tmp_path)
    read = Corpus.load(tmp_path)

    assert [len(vectors) for vectors in read.entries] == [12, 1]
    assert read.population.questions[0] == Question(0, "what")
    assert np.array_equal(np.concatenate(read.entries), np.concatenate(written.entries))


def test_recall_is_the_share_of_the_tenant_s_nearest_that_was_found() -> None:
    assert recall({0: set(range(10)), 1: {0, 1, 2, 3, 4, 10, 11}}, corpus()) == 0.75
    assert recall({}, corpus()) == 0.0


async def test_modes_that_a_store_lacks_are_not_measured_and_no_question_is_asked_twice() -> None:
    asked: list[int] = []

    async def search(number: int) -> list[int]:
        asked.append(number)
        return list(range(10))

    engine = Engine(name="store", searches={TEXT: search, VECTOR: search}, server_cpu=lambda: 0.0)
    rows = await measure(engine, corpus(), Calls(warm_up=1, alone=3, loaded=4))

    assert [(one.mode, one.recall) for one in rows] == [(TEXT, None), (VECTOR, 1.0)]
    assert sorted(asked) == list(range(16))


def test_the_table_puts_the_stores_of_one_mode_together() -> None:
    rows = [row("A", TEXT), row("A", VECTOR, 0.5), row("A", HYBRID), row("B", TEXT), row("B", VECTOR, 1.0)]

    made = table(rows)

    columns = [list(column.cells) for column in made.columns]
    assert columns[0] == ["text", "text", "vector", "vector", "hybrid"]
    assert columns[1] == ["A", "B", "A", "B", "A"]
    assert columns[-1] == ["", "", "0.500", "1.000", ""]
