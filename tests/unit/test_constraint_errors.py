"""Violations of constraints become errors that callers see, also those that a worker of Citus reports."""

from __future__ import annotations

import asyncpg
import pytest
from fix_catalogue import over

from skein_kit.database.transactions import translate_constraint_errors
from skein_kit.errors import TenantNotFound

MESSAGES = [
    'insert or update on table "blocks" violates foreign key constraint "blocks_tenant_fkey"',
    'insert or update on table "blocks_102313" violates foreign key constraint "blocks_tenant_fkey_102313"',
]


@over("message", MESSAGES)
def test_the_name_in_a_message_is_found_without_the_number_of_the_shard(message: str) -> None:
    with pytest.raises(TenantNotFound), translate_constraint_errors({"blocks_tenant_fkey": TenantNotFound}):
        raise asyncpg.ForeignKeyViolationError(message)


def test_a_name_in_the_field_is_found() -> None:
    error = asyncpg.UniqueViolationError("duplicate key")
    error.constraint_name = "blocks_pkey"

    with pytest.raises(TenantNotFound), translate_constraint_errors({"blocks_pkey": TenantNotFound}):
        raise error


@over("message", [MESSAGES[0], "a constraint without a name"])
def test_other_violations_pass_through(message: str) -> None:
    with (
        pytest.raises(asyncpg.ForeignKeyViolationError),
        translate_constraint_errors({"blocks_pkey": TenantNotFound}),
    ):
        raise asyncpg.ForeignKeyViolationError(message)
