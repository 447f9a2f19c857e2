"""The operator's first key, which needs no service: access to the database is enough."""

from __future__ import annotations

import asyncpg

from skein_auth.api_keys.model import ApiKeyToken
from skein_auth.queries import QUERIES
from skein_kit.database.connection_settings import connect_arguments, database_role
from skein_kit.database.transactions import NO_TENANT
from skein_kit.ids import new_id, now

_CONNECT_SECONDS = 10.0


class OperatorKeyRefused(Exception):
    """An operator key cannot be used; the message says why and what to do."""


async def ensure_operator_key(database_url: str, *, display_name: str, secret: str | None = None) -> str:
    """Ensure that the operator has this key, or a new one when `secret` is None; return the key.

    The database must be migrated. Repeating the call with the key that it returned changes nothing. A key of before
    check digits, or of another database, comes back with the check digits of this one. Raises OperatorKeyRefused for a
    text that is not an operator key, and for one that is revoked, expired or not as stored.
    """
    key = ApiKeyToken.new(NO_TENANT, new_id(now())) if secret is None else ApiKeyToken.parse(secret)
    if key is None or not key.is_operator_key:
        raise OperatorKeyRefused("This is not an operator key; leave it out to get a new one.")
    connection = await asyncpg.connect(
        **connect_arguments(database_url, database_role("auth")), timeout=_CONNECT_SECONDS
    )
    try:
        query = QUERIES["create_operator_key"]
        values = {"api_key_id": key.key_id, "secret_hash": key.secret_hash(), "create_time": now()}
        await connection.execute(query.text, *query.bind(values | {"display_name": display_name}))
        query = QUERIES["find_operator_key"]
        row = await connection.fetchrow(query.text, *query.bind({"api_key_id": key.key_id}))
        query = QUERIES["list_check_keys"]
        check_keys = [row["secret"] for row in await connection.fetch(query.text, *query.bind({}))]
    finally:
        await connection.close()
    if row is None or not key.matches_hash(row["secret_hash"]):
        raise OperatorKeyRefused("Another operator key has this id; leave it out to get a new one.")
    if row["revoke_time"] is not None or (row["expire_time"] is not None and row["expire_time"] <= now()):
        raise OperatorKeyRefused("This operator key was revoked or has expired; leave it out to get a new one.")
    if check_keys and not key.has_valid_mac(check_keys):
        key = key.with_mac(check_keys[0])
    return key.encode()
