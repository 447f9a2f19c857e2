from __future__ import annotations

import pytest

from skein_kit.sql import Query, parse, repeated, rows_at_once


def test_named_parameters_become_positions_in_order_of_first_use() -> None:
    query = Query.of("q", "SELECT :b, :a, :b")

    assert (query.text, query.parameters) == ("SELECT $1, $2, $1", ("b", "a"))


def test_casts_and_quoted_colons_are_not_parameters() -> None:
    query = Query.of("q", "SELECT :a::text, 'it''s :quoted', '12:30'")

    assert (query.text, query.parameters) == ("SELECT $1::text, 'it''s :quoted', '12:30'", ("a",))


def test_comments_become_the_promise() -> None:
    (query,) = parse("-- get_it --\n-- Read it,\n-- once.\nSELECT 1;\n")

    assert (query.name, query.promise, query.text, query.operation) == (
        "get_it",
        "Read it, once.",
        "SELECT 1",
        "SELECT",
    )


@pytest.mark.parametrize("values", [{}, {"a": 1, "b": 2}, {"b": 1}])
def test_missing_and_unknown_parameters_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        Query.of("q", "SELECT :a").bind(values)


def test_bulk_inserts_share_the_tenant_and_number_the_rest() -> None:
    query = Query.of("q", "INSERT INTO t (tenant_id, a, b) VALUES (:tenant_id, :a, :b)")

    assert repeated(query, 2) == "INSERT INTO t (tenant_id, a, b) VALUES ($1, $2, $3), ($1, $4, $5)"


def test_a_bulk_insert_must_lead_with_the_tenant() -> None:
    with pytest.raises(ValueError, match="tenant_id"):
        repeated(Query.of("q", "INSERT INTO t (a) VALUES (:a)"), 2)


def test_rows_of_any_number_need_few_different_statements() -> None:
    sizes = set()
    for count in range(1, 1001):
        left = count
        while left:
            size = rows_at_once(min(666, left))
            sizes.add(size)
            left -= size

    assert len(sizes) == 34
