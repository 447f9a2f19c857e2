from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from fix_cluster import SYSTEM_KEY
from fix_database import TestDatabase

from skein_auth.encryption import SecretCipher
from skein_auth.settings import SystemKeys
from skein_auth.signing.access_tokens import AccessTokens, TokenSubject
from skein_auth.signing.keyring import Keyring
from skein_auth.signing.store import SigningKeyStore
from skein_kit.database.transactions import Database
from skein_kit.errors import CredentialInvalid
from skein_kit.ids import new_id, now

ISSUER = "https://skein.test"


@asynccontextmanager
async def replica(database: TestDatabase) -> AsyncIterator[Keyring]:
    """One of several that share a database."""
    async with Database.open(database.url, service="auth", size=2, timeout=30.0) as opened:
        yield Keyring(SigningKeyStore(opened), SecretCipher(SystemKeys.of(SYSTEM_KEY)), access_seconds=3600)


def tokens_of(keyring: Keyring) -> AccessTokens:
    return AccessTokens(keyring, lambda: ISSUER)


async def rotate(database: TestDatabase, keyring: Keyring, *, emergency: bool = False) -> None:
    new = await keyring.generate("access")
    async with (
        Database.open(database.url, service="auth", size=1, timeout=30.0) as opened,
        opened.global_transaction() as tx,
    ):
        await keyring.rotate(tx, new, emergency=emergency)
    await keyring.refresh("access")


async def signed(keyring: Keyring) -> str:
    at = now()
    bearer = TokenSubject(subject=new_id(at))
    text, _ = await tokens_of(keyring).sign(
        bearer, scopes={"account"}, resources=(ISSUER,), at=at, until=at + timedelta(hours=1)
    )
    return text


async def test_replicas_share_one_key_for_each_purpose(database: TestDatabase) -> None:
    async with replica(database) as first, replica(database) as second:
        keys = [await each.active_key(purpose) for each in (first, second) for purpose in ("identity", "access")]

        await tokens_of(second).verify(await signed(first), "", now())

    assert keys[0].kid == keys[2].kid
    assert keys[1].kid == keys[3].kid
    assert keys[0].kid != keys[1].kid


async def test_an_internal_key_verifies_no_access_token(database: TestDatabase) -> None:
    async with replica(database) as keyring:
        internal = await keyring.active_key()

        assert await keyring.verification_key(str(internal.kid)) is None


async def test_a_rotated_key_verifies_as_long_as_what_it_signed(database: TestDatabase) -> None:
    async with replica(database) as first, replica(database) as second:
        text = await signed(first)
        await tokens_of(second).verify(text, "", now())
        await rotate(database, first)

        await tokens_of(first).verify(text, "", now())
        await tokens_of(second).verify(await signed(first), "", now())
    async with database.superuser() as connection:
        remaining = await connection.fetchval(
            "SELECT expire_time - now() FROM auth.signing_keys WHERE expire_time IS NOT NULL"
        )
    assert timedelta(minutes=60) < remaining <= timedelta(minutes=61)


async def test_in_an_emergency_a_key_ends_at_once_with_those_that_were_replaced_before(database: TestDatabase) -> None:
    async with replica(database) as keyring:
        oldest = await signed(keyring)
        await rotate(database, keyring)
        old = await signed(keyring)
        await rotate(database, keyring, emergency=True)
        new = await signed(keyring)
    async with replica(database) as another:
        await tokens_of(another).verify(new, "", now())
        for text in (oldest, old):
            with pytest.raises(CredentialInvalid):
                await tokens_of(another).verify(text, "", now())


async def test_an_access_key_s_end_leaves_internal_keys_alone(database: TestDatabase) -> None:
    async with replica(database) as keyring:
        internal = await keyring.active_key()
        await keyring.active_key("access")
        await rotate(database, keyring, emergency=True)

        assert (await keyring.refresh()).kid == internal.kid
