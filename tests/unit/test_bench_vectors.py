from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import pytest
from bench.asking import FILTERS, HYBRID, TEXT, VECTOR, path_of
from bench.exact import Truth, nearest, truth
from bench.loading import copied, value_of
from bench.population import BLOCK, SPAN_MILLISECONDS, VALUES, Block, Population, zipf_sizes
from bench.tables import lines
from bench.writing import Rows
from hypothesis import given
from hypothesis import strategies as st

from skein.gateway.v1 import gateway_pb2
from skein_kit.ids import id_time

if TYPE_CHECKING:
    from bench.population import Question

UNTIL = 1_790_000_000_000
SIZES = [300, 100, 20, 3]


@pytest.fixture(scope="module")
def population() -> Population:
    return Population(SIZES, dimensions=32, seed=4, until_milliseconds=UNTIL)


@pytest.fixture(scope="module")
def entries(population: Population) -> Block:
    return Block.joined(list(population.blocks()))


@pytest.fixture(scope="module")
def kept(entries: Block) -> dict[int, Block]:
    return {tenant: entries.of(tenant) for tenant in range(len(SIZES))}


@pytest.fixture(scope="module")
def questions(population: Population, kept: dict[int, Block]) -> list[Question]:
    return population.questions(population.question_tenants(40), kept)


def test_sizes_are_those_of_zipf() -> None:
    # 1 + 1/2 + 1/3 + 1/4 is 25/12: of 25 beyond the first four, 12, 6, 4 and 3.
    assert zipf_sizes(29, 4) == [13, 7, 5, 4]
    assert zipf_sizes(100_000, 100)[0] == pytest.approx(19_258, abs=2)


@given(st.integers(1, 200), st.integers(0, 50_000))
def test_sizes_add_up_and_leave_nobody_out(tenants: int, more: int) -> None:
    sizes = zipf_sizes(tenants + more, tenants)

    assert sum(sizes) == tenants + more
    assert min(sizes) >= 1
    assert sizes == sorted(sizes, reverse=True)


def test_too_few_entries_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        zipf_sizes(3, 4)


def test_every_tenant_has_its_size_and_nobodys_entries_lie_together(entries: Block) -> None:
    assert Counter(entries.tenants.tolist()) == dict(enumerate(SIZES))
    assert len(set(entries.tenants[:20].tolist())) > 1


def test_the_same_seed_makes_the_same_entries(entries: Block) -> None:
    again = Block.joined(list(Population(SIZES, dimensions=32, seed=4, until_milliseconds=UNTIL).blocks()))
    other = Block.joined(list(Population(SIZES, dimensions=32, seed=5, until_milliseconds=UNTIL).blocks()))

    assert (again.ids == entries.ids).all()
    assert (again.vectors == entries.vectors).all()
    assert again.texts == entries.texts
    assert all((again.attributes[name] == values).all() for name, values in entries.attributes.items())
    assert not (other.vectors == entries.vectors).all()


def test_blocks_are_made_twice_alike(population: Population) -> None:
    first, again = next(population.blocks()), next(population.blocks())

    assert len(first.tenants) == min(BLOCK, sum(SIZES))
    assert (first.vectors == again.vectors).all()


def test_ids_are_uuids_of_their_times_in_order(entries: Block) -> None:
    ids = [UUID(bytes=row.tobytes()) for row in entries.ids]

    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)
    assert {id_.version for id_ in ids} == {7}
    assert [round(id_time(id_).timestamp() * 1000) for id_ in ids] == entries.milliseconds.tolist()
    times = entries.milliseconds.tolist()
    assert UNTIL - SPAN_MILLISECONDS <= min(times) <= max(times) < UNTIL


def test_vectors_have_unit_length_and_lie_in_topics() -> None:
    (block,) = Population([2000], dimensions=384, seed=1, until_milliseconds=UNTIL).blocks()
    vectors = block.vectors.astype(np.float32)
    cosines = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]

    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=2e-3)
    assert 0.05 < np.median(cosines) < 0.3
    assert 0.5 < np.percentile(cosines, 99) < 0.8


def test_a_question_lies_beside_a_stored_entry_and_on_none(kept: dict[int, Block], questions: list[Question]) -> None:
    best = [max((kept[asked.tenant].vectors.astype(np.float32) @ asked.vector).tolist()) for asked in questions]

    assert min(best) > 0.6
    assert max(best) < 0.99


def test_half_of_the_questions_go_to_tenants_drawn_alike(population: Population) -> None:
    counts = Counter(population.question_tenants(4000))

    # By size 300/423 of 2,000, and alike a quarter of 2,000.
    assert counts[0] == pytest.approx(2000 * 300 / 423 + 500, rel=0.1)
    assert counts[3] == pytest.approx(2000 * 3 / 423 + 500, rel=0.15)


def test_a_filter_lets_about_a_64th_pass_and_the_entry_itself() -> None:
    population = Population([6400], dimensions=16, seed=3, until_milliseconds=UNTIL)
    kept = {0: Block.joined(list(population.blocks()))}
    asked = population.questions([0] * 20, kept)

    for name in ("tag", "type", "agent", "session", "time"):
        passing = [int(question.passing(kept[0], name).sum()) for question in asked]
        assert 0.01 < np.mean(passing) / 6400 < 0.02
        assert min(passing) >= 1
    assert set(kept[0].attributes["session"].tolist()) == set(range(VALUES))


def test_the_nearest_are_those_of_the_largest_cosine_with_ties() -> None:
    vectors = np.array([[1, 0], [0, 2], [3, 3], [-1, 0], [5, 0]], dtype=np.float32)
    query = np.array([2, 0], dtype=np.float32)

    # Cosines: 1, 0, 0.71, -1, 1.
    assert nearest(vectors, query, 1) == [0, 4]
    assert nearest(vectors, query, 3) == [0, 2, 4]
    assert nearest(vectors, query, 9) == [0, 1, 2, 3, 4]
    assert nearest(vectors[:0], query, 3) == []


def test_recall_is_the_share_of_the_nearest() -> None:
    a, b, c, d = (UUID(int=number) for number in range(1, 5))
    # The third and the fourth are equally near: either will do.
    wanted = Truth(count=3, ids=frozenset({a, b, c, d}))

    assert wanted.recall([a, b, d]) == 1.0
    assert wanted.recall([a, b, UUID(int=9)]) == pytest.approx(2 / 3)
    assert (wanted.is_short([a, b]), wanted.is_short([a, b, UUID(int=9)])) == (True, False)
    assert Truth(count=0, ids=frozenset()).recall([]) == 1.0


def test_the_truth_of_a_filter_holds_what_passes_alone(kept: dict[int, Block], questions: list[Question]) -> None:
    for asked in questions:
        mine = kept[asked.tenant]
        found = truth(asked, mine, filter_name="agent")
        passing = {UUID(bytes=row.tobytes()) for row in mine.ids[asked.passing(mine, "agent")]}
        assert found.ids <= passing
        assert found.count == min(10, len(passing))


def test_requests_hold_what_their_form_says(questions: list[Question]) -> None:
    asked = questions[0]

    assert len(VECTOR.request(asked, 1).embedding) == 32
    assert VECTOR.request(asked, 1).query == ""
    assert len(TEXT.request(asked, 1).embedding) == 0
    assert HYBRID.request(asked, 1).query
    assert TEXT.request(asked, 1).query != TEXT.request(asked, 2).query
    filters = [form.request(asked, 1).filter for form in FILTERS]
    assert list(filters[0].tags_any) == [value_of("tag", asked.attributes["tag"])]
    assert filters[2].end_time.ToMilliseconds() == asked.to_milliseconds
    assert filters[4].session_id == value_of("session", asked.attributes["session"])
    assert [form.is_judged for form in (VECTOR, HYBRID, TEXT, *FILTERS)] == [True, False, False, *[True] * 5]


def test_an_answer_that_names_no_path_has_none() -> None:
    assert path_of(gateway_pb2.RecallResponse()) == ""


def test_rows_are_copied_in_the_binary_form_of_postgres() -> None:
    vectors = np.array([[1.0, -2.0], [0.5, 0.0]], dtype=np.float16)
    made = copied([(">i2", 7), ("V2", b"ab"), ("halfvec", vectors)], 2)

    rows = b"".join(
        struct.pack(">hih", 3, 2, 7) + struct.pack(">i", 2) + b"ab" + struct.pack(">ihhee", 8, 2, 0, *row)
        for row in vectors.tolist()
    )
    assert made == b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows + b"\xff\xff"


def test_rows_are_written_again_for_another_tenant_in_statements_that_are_not_too_long() -> None:
    before, after = UUID(int=1), UUID(int=2)
    rows = Rows("x.y", ["tenant_id", "a"], [(before, number) for number in range(20_000)], 0)

    first, second = rows.statements(after)

    assert first[0].startswith("INSERT INTO x.y (tenant_id, a) VALUES ($1, $2), ($3, $4), ")
    assert (len(first[1]), len(second[1])) == (30_000, 10_000)
    assert first[1][:4] == [after, 0, after, 1]
    assert second[1][-2:] == [after, 19_999]


def test_the_tables_say_what_shares_the_cores() -> None:
    row = {
        "title": "vector given", "p50_ms": 2.0, "p95_ms": 9.96, "server_cpu_ms": 3.04,
        "per_second": 512.4, "by_second": [480, 512, 530], "rows": 9.8, "possible_rows": 10.0,
        "short_answers": 3, "recall": 0.98, "worst_recall": 0.8,
        "paths": {"exact": {"calls": 5, "p50_ms": 1.0, "p95_ms": 2.0}},
    }  # fmt: skip
    known = {"cores": 2, "dimensions": 384, "tenants": 100}
    found = list(lines({**known, "entries": 5000, "largest_tenant": 964, "rows": [row]}))
    case = {"entries": 10, "own": 5, "rows": [row], "bytes_per_entry": 7, "bytes_per_entry_by_table": {"a.b": 6}}
    grown = list(lines({**known, "growth": [case, {**case, "rows": [{**row, "p50_ms": 3.0}]}]}))

    assert "share 2 cores" in " ".join(found)
    assert found[-1] == (
        "| vector given | 2.0 / 10.0 | 3.0 | 512 (480 to 530) | 9.8 (10.0 exist) | 3 | 0.9800 | 0.8 "
        "| exact (5, 1.0 / 2.0) |"
    )
    assert grown[-1] == "| 10 | 5 | 3.0 / 10.0 (× 1.50) | 7 | a.b 6 |"
