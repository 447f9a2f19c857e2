"""What runbooks tell people to ask of Postgres can be asked of it."""

from __future__ import annotations

import pytest
from fix_database import TestDatabase
from fix_watching import blocks, runbooks

# Tables of Citus, which is not here.
CITUS = "FROM pg_dist_node "
STATEMENTS = sorted(
    {(name, line) for name, text in runbooks().items() for line in blocks(text, "sql") if CITUS not in line}
)


@pytest.mark.system
async def test_each_statement_is_one_that_postgres_understands(database: TestDatabase) -> None:
    refused = []
    async with database.superuser() as connection:
        for name, statement in STATEMENTS:
            try:
                await connection.execute(statement)
            except Exception as error:  # noqa: BLE001 - whatever it is, an operator at night would read it.
                refused.append((name, statement, str(error)))

    assert len(STATEMENTS) > 20
    assert refused == []


def test_nothing_but_statements_stands_in_their_blocks() -> None:
    verbs = {statement.split()[0] for _, statement in STATEMENTS}

    assert verbs <= {"SELECT", "SHOW", "SET", "VACUUM", "ANALYZE;", "GRANT"}
    assert all(statement.endswith(";") for _, statement in STATEMENTS)
