from __future__ import annotations

from uuid import UUID

import pytest
from fix_catalogue import over

from skein_kit.database.named_queries import (
    Query,
    array_insert,
    batch_size,
    grouped_insert,
    inline_rows,
    joined_inserts,
    left_join,
    multi_row_insert,
    parse,
)


def test_named_parameters_become_positions_in_order_of_first_use() -> None:
    query = Query.parse("q", "SELECT :b, :a, :b")

    assert (query.text, query.parameters) == ("/* q */ SELECT $1, $2, $1", ("b", "a"))


def test_casts_and_quoted_colons_are_not_parameters() -> None:
    query = Query.parse("q", "SELECT :a::text, 'it''s :quoted', '12:30'")

    assert (query.text, query.parameters) == ("/* q */ SELECT $1::text, 'it''s :quoted', '12:30'", ("a",))


def test_comments_become_the_promise() -> None:
    (query,) = parse("-- get_it --\n-- Read it,\n-- once.\nSELECT 1;\n")

    assert (query.name, query.description, query.text, query.operation) == (
        "get_it",
        "Read it, once.",
        "/* get_it */ SELECT 1",
        "SELECT",
    )


@over("values", [{}, {"a": 1, "b": 2}, {"b": 1}])
def test_missing_and_unknown_parameters_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        Query.parse("q", "SELECT :a").bind(values)


def test_the_ends_of_an_array_of_ids_are_computed() -> None:
    query = Query.parse("q", "SELECT :ids BETWEEN :first_of_ids AND :last_of_ids")
    ids = [UUID(int=2), UUID(int=3), UUID(int=1)]

    assert query.arguments == ("ids",)
    assert query.bind({"ids": ids}) == [ids, UUID(int=1), UUID(int=3)]
    assert query.bind({"ids": []}) == [[], UUID(int=0), UUID(int=0)]
    with pytest.raises(TypeError):
        query.bind({"others": ids})


def test_bulk_inserts_share_the_tenant_and_number_the_rest() -> None:
    query = Query.parse("q", "INSERT INTO t (tenant_id, a, b) VALUES (:tenant_id, :a, :b)")

    assert multi_row_insert(query, 2) == "/* q */ INSERT INTO t (tenant_id, a, b) VALUES ($1, $2, $3), ($1, $4, $5)"


def test_a_bulk_insert_must_lead_with_the_tenant() -> None:
    with pytest.raises(ValueError, match="tenant_id"):
        multi_row_insert(Query.parse("q", "INSERT INTO t (a) VALUES (:a)"), 2)


def test_rows_of_any_number_come_as_arrays_where_each_parameter_has_a_type() -> None:
    typed = Query.parse(
        "q", "INSERT INTO t (tenant_id, a, b, c) VALUES (:tenant_id, :a::text, 1, :a) ON CONFLICT DO NOTHING"
    )
    untyped = Query.parse("q", "INSERT INTO t (tenant_id, a, b) VALUES (:tenant_id, :a::text, :b)")

    assert array_insert(typed) == (
        "/* q */ INSERT INTO t (tenant_id, a, b, c) "
        "SELECT $1::uuid, item.p2, 1, item.p2 FROM unnest($2::text[]) AS item (p2) ON CONFLICT DO NOTHING"
    )
    assert array_insert(untyped) is None


def test_joined_inserts_share_the_tenant_and_number_the_rest() -> None:
    first = Query.parse("first", "INSERT INTO t (tenant_id, a, b) VALUES (:tenant_id, :a, :b)")
    second = Query.parse("second", "INSERT INTO u (tenant_id, c) VALUES (:tenant_id, :c::text)")
    then = Query.parse("then", "SELECT d FROM v WHERE tenant_id = :tenant_id AND d = :d")

    assert joined_inserts(((first, False), (second, True)), then).text == (
        "/* first+second+then */ WITH first AS (INSERT INTO t (tenant_id, a, b) VALUES ($1, $2, $3)), "
        "second AS (INSERT INTO u (tenant_id, c) SELECT $1::uuid, item.p2 FROM unnest($4::text[]) AS item (p2)) "
        "SELECT d FROM v WHERE tenant_id = $1 AND d = $5"
    )
    assert joined_inserts(((first, False), (second, False)), None).text == (
        "/* first+second */ WITH first AS (INSERT INTO t (tenant_id, a, b) VALUES ($1, $2, $3)) "
        "INSERT INTO u (tenant_id, c) VALUES ($1, $4::text)"
    )


def test_rows_of_any_number_need_few_different_statements() -> None:
    sizes = set()
    for count in range(1, 1001):
        remaining = count
        while remaining:
            size = batch_size(min(666, remaining))
            sizes.add(size)
            remaining -= size

    assert len(sizes) == 34


def test_a_group_s_rows_name_what_they_share_once() -> None:
    query = Query.parse("q", "INSERT INTO t (tenant_id, id, a, b) VALUES (:tenant_id, :id, :a, :b)")

    grouped = grouped_insert(query, 1, 2, 2)

    assert grouped.text == (
        "/* q */ INSERT INTO t (tenant_id, id, a, b)"
        " VALUES ($1, $2, $4, $5), ($1, $3, $4, $5), ($1, $6, $8, $9), ($1, $7, $8, $9)"
    )
    assert len(grouped.parameters) == 9


def test_groups_need_the_parameters_in_their_order() -> None:
    with pytest.raises(ValueError, match="order"):
        grouped_insert(Query.parse("q", "INSERT INTO t (tenant_id, a) VALUES (:tenant_id, lower(:a))"), 1, 1, 1)


def test_rows_are_spelled_out_with_what_they_share_first() -> None:
    query = Query.parse("q", "INSERT INTO t (tenant_id, at, a) VALUES (:tenant_id, :at, :a) ON CONFLICT DO NOTHING")

    assert inline_rows(query, ["t", "it's"], [[1], [2]]) == (
        "/* q */ INSERT INTO t (tenant_id, at, a) VALUES ('t', 'it''s', 1), ('t', 'it''s', 2) ON CONFLICT DO NOTHING"
    )
    with pytest.raises(TypeError):
        inline_rows(query, ["t", "\\"], [[1]])


def test_a_statement_s_rows_have_what_another_finds_for_each_beside_them() -> None:
    result = Query.parse("found", "SELECT id FROM a WHERE t = :tenant_id AND n = :many")
    shown = Query.parse(
        "shown", "SELECT x FROM b WHERE t = :tenant_id AND i = ANY (:ids) AND y > :at AND i = ANY (:ids)"
    )

    both = left_join(
        result, shown, on="other.x = found.id", columns="given.id", ids="ARRAY(SELECT id FROM found WHERE id > :least)"
    )

    found_text, _, shown_text = both.text.partition(" LEFT JOIN ")
    assert found_text == (
        "/* found+shown */ WITH found AS MATERIALIZED (SELECT given.id FROM "
        "(/* found */ SELECT id FROM a WHERE t = $1 AND n = $2) AS given) SELECT * FROM found"
    )
    expected = "ARRAY(SELECT id FROM found WHERE id > $3)"
    beginning = "(/* shown */ SELECT x FROM b WHERE t = $1"
    ending = "OFFSET 0) AS other ON other.x = found.id"
    assert shown_text == f"{beginning} AND i = ANY ({expected}) AND y > $4 AND i = ANY ({expected}) {ending}"
    assert both.parameters == ("tenant_id", "many", "least", "at")
    assert both.bind({"at": 4, "least": 3, "many": 2, "tenant_id": 1}) == [1, 2, 3, 4]
    with pytest.raises(TypeError, match="idz"):
        left_join(result, shown, on="true", idz="1")
