"""Which key makes check digits."""

from __future__ import annotations

import pytest
from fix_database import TestDatabase

from skein_auth.api_keys.store import OperatorKeyStore
from skein_kit.database.transactions import Database


@pytest.mark.parametrize(
    ("ages", "order"),
    [((600, 0), ["600", "0"]), ((600, 400, 0), ["400", "600", "0"]), ((200, 0), ["200", "0"]), ((0,), ["0"])],
)
async def test_a_new_key_makes_digits_once_all_replicas_know_it(
    database: TestDatabase, ages: tuple[int, ...], order: list[str]
) -> None:
    async with database.superuser() as connection:
        await connection.execute("DELETE FROM auth.check_keys")
        for seconds in ages:
            await connection.execute(
                "INSERT INTO auth.check_keys (secret, create_time)"
                " VALUES (convert_to(rpad($1, 32), 'UTF8'), now() - $2::integer * interval '1 second')",
                str(seconds), seconds,
            )  # fmt: skip

    async with Database.open(database.url, service="auth", size=1, timeout=30.0) as opened:
        check_keys = await OperatorKeyStore(opened).list_check_keys()

    assert [secret.decode().rstrip() for secret in check_keys] == order
