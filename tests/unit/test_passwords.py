from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from fix_catalogue import over

from skein_auth.accounts.passwords import (
    MAX_WAITING,
    PASSWORD_OPERATIONS,
    Passwords,
    QueueKey,
    is_supported_hash,
    normalize_new_password,
)
from skein_auth.errors import PasswordTooLong, PasswordTooShort
from skein_auth.settings import AuthSettings
from skein_kit.errors import Overloaded
from skein_kit.settings import SettingInvalid

PASSWORD = "correct horse battery"
HERE = QueueKey.of_source("192.0.2.1")


@asynccontextmanager
async def passwords(*, memory: int = 64, threads: int = 2, waiting: int = MAX_WAITING) -> AsyncIterator[Passwords]:
    settings = AuthSettings(password_hash_memory_kib=memory, password_hash_threads=threads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skein_auth.accounts.passwords.MAX_WAITING", waiting)
        async with Passwords.open(settings) as result:
            yield result


def of_memory_vault(password: str, iterations: int = 1000) -> str:
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt of 16 bytes", iterations)
    texts = (base64.b64encode(part).decode() for part in (b"salt of 16 bytes", digest))
    return f"pbkdf2_sha256${iterations}${'$'.join(texts)}"


async def test_a_password_proves_itself_and_another_does_not() -> None:
    async with passwords() as made:
        stored = await made.hash(PASSWORD, HERE)

        assert stored.startswith("$argon2id$v=19$m=64,t=2,p=1$")
        assert (await made.verify(stored, PASSWORD, HERE)).is_valid
        assert not (await made.verify(stored, "correct horse batter", HERE)).is_valid


async def test_a_password_hashed_with_other_parameters_is_hashed_anew() -> None:
    async with passwords(memory=32) as before, passwords() as now:
        old = await before.hash(PASSWORD, HERE)

        verdict = await now.verify(old, PASSWORD, HERE)
        wrong = await now.verify(old, "wrong password", HERE)
        anew = await now.rehash(PASSWORD, HERE)

        assert (verdict.is_valid, verdict.needs_rehash) == (True, True)
        assert (wrong.is_valid, wrong.needs_rehash) == (False, False)
        assert not (await now.verify(anew, PASSWORD, HERE)).needs_rehash


async def test_a_hash_of_memory_vault_proves_itself_and_is_hashed_anew() -> None:
    stored = of_memory_vault("short")
    async with passwords() as made:
        verdict = await made.verify(stored, "short", HERE)

        assert (verdict.is_valid, verdict.needs_rehash) == (True, True)
        assert not (await made.verify(stored, "shorx", HERE)).is_valid


async def test_an_unknown_account_s_password_is_hashed_like_any_other() -> None:
    hashed = PASSWORD_OPERATIONS.labels("argon2")._value  # What the metric counts is the work.
    async with passwords() as made:
        known = await made.hash(PASSWORD, HERE)
        before = hashed.get()

        assert not (await made.verify(None, PASSWORD, HERE)).is_valid
        assert not (await made.verify(known, "wrong password", HERE)).is_valid

        assert hashed.get() == before + 2


async def test_a_password_is_the_same_however_its_accents_are_typed() -> None:
    async with passwords() as made:
        stored = await made.hash("caf\u00e9 au lait", HERE)

        assert (await made.verify(stored, "cafe\u0301 au lait", HERE)).is_valid


async def test_one_more_than_can_wait_is_refused_at_once() -> None:
    async with passwords(memory=16384, threads=1, waiting=1) as made:
        outcomes = await asyncio.gather(*(made.hash(PASSWORD, HERE) for _ in range(4)), return_exceptions=True)

        assert [type(outcome) for outcome in outcomes] == [str, str, Overloaded, Overloaded]
        assert await made.hash(PASSWORD, HERE)


async def test_a_source_gives_way_to_the_others_when_no_more_can_wait() -> None:
    async with passwords(memory=16384, threads=1, waiting=4) as made:
        flood = [asyncio.create_task(made.hash(PASSWORD, HERE)) for _ in range(8)]
        await asyncio.sleep(0)
        others = [made.hash(PASSWORD, QueueKey.of_source(f"198.51.100.{number}")) for number in range(3)]

        assert [type(hashed) for hashed in await asyncio.gather(*others)] == [str] * 3
        outcomes = await asyncio.gather(*flood, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes].count(Overloaded) == 6


async def order(places: dict[str, QueueKey], calls: list[str]) -> list[str]:
    """Return whose passwords were hashed, in order, of those that had a turn."""
    ended: list[str] = []

    async def hashed(name: str) -> None:
        await made.hash(PASSWORD, places[name])
        ended.append(name)

    async with passwords(memory=16384, threads=1, waiting=8) as made:
        await asyncio.gather(*map(hashed, calls), return_exceptions=True)
    return ended


def a_device() -> QueueKey:
    return QueueKey.of_devices(uuid4())


@pytest.mark.system
async def test_a_known_device_is_hashed_beside_a_flood_of_its_source() -> None:
    ended = await order({"source": HERE, "device": a_device()}, ["source"] * 12 + ["device"])

    assert ended.index("device") <= 2


async def test_known_devices_of_some_accounts_do_not_starve_others() -> None:
    places = {"one": a_device(), "two": a_device(), "source": HERE}

    ended = await order(places, ["one", "two"] * 6 + ["source"])

    assert ended.index("source") <= 3


async def test_a_caller_that_goes_away_keeps_its_turn_until_the_work_is_done() -> None:
    async with passwords(memory=16384, threads=1, waiting=1) as made:
        gone = [asyncio.create_task(made.hash(PASSWORD, HERE)) for _ in range(2)]
        await asyncio.sleep(0)
        gone[0].cancel()
        await asyncio.sleep(0)

        with pytest.raises(Overloaded):
            await made.hash(PASSWORD, HERE)
        assert await gone[1]


@over("text", ["", "nine char", "e\u0301" * 9])
def test_a_password_needs_ten_characters(text: str) -> None:
    with pytest.raises(PasswordTooShort) as caught:
        normalize_new_password(text)

    assert caught.value.metadata == {"min_characters": "10"}


def test_a_password_has_an_end() -> None:
    assert normalize_new_password("x" * 1024)
    with pytest.raises(PasswordTooLong):
        normalize_new_password("x" * 1025)


@over(
    "stored",
    [
        of_memory_vault("a password"),
        "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b0HtXJXgFrWFPVWWZsQ/bAX8ak",
    ],
)
def test_hashes_of_other_systems_are_known(stored: str) -> None:
    assert is_supported_hash(stored)


@over(
    "stored",
    [
        "a password",
        "$2b$12$abcdefghijklmnopqrstuvwxyz",
        "pbkdf2_sha256$10000001$c2FsdA==$c29tZXRoaW5nIG9mIDE2IGJ5dGVz",
        "pbkdf2_sha256$0$c2FsdA==$c29tZXRoaW5nIG9mIDE2IGJ5dGVz",
        "pbkdf2_sha256$1000$$c29tZXRoaW5nIG9mIDE2IGJ5dGVz",
        "pbkdf2_sha256$1000$c2FsdA==$",
        "pbkdf2_sha256$1000$not base64$c29tZXRoaW5nIG9mIDE2IGJ5dGVz",
        "pbkdf2_sha256$1000$c2FsdA==",
        "$argon2i$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b0HtXJXgFrWFPVWWZsQ/bAX8ak",
        "$argon2id$v=19$m=4194304,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b0HtXJXgFrWFPVWWZsQ/bAX8ak",
        "$argon2id$v=19$m=65536,t=1000,p=4$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b0HtXJXgFrWFPVWWZsQ/bAX8ak",
    ],
)
def test_a_hash_that_is_unknown_or_too_expensive_is_not_taken(stored: str) -> None:
    assert not is_supported_hash(stored)


@over("wrong", [{"memory": 4}, {"threads": 0}])
async def test_parameters_that_make_no_sense_are_noticed_at_the_start(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingInvalid):
        async with passwords(**wrong):
            pass
