"""Passwords and what is kept of them: hashed in a few threads, in fair turns of bounded number. Knows no account."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import Argon2Error, InvalidHashError
from prometheus_client import Counter, Histogram

from skein_auth.accounts.password_queue import PasswordQueue
from skein_auth.errors import PasswordTooLong, PasswordTooShort
from skein_kit.errors import Overloaded
from skein_kit.settings import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import TypeVar

    from skein_auth.accounts.password_queue import QueueKey
    from skein_auth.settings import AuthSettings

    Result = TypeVar("Result")

LEAST_CHARACTERS = 10
MOST_CHARACTERS = 1024
_SALT_BYTES = 16
_HASH_BYTES = 32
# What a hash from elsewhere may cost to verify: whoever made it does not decide how busy we are.
_MOST_PBKDF2_ITERATIONS = 10_000_000
_MOST_MEMORY_KIB = 262_144
_MOST_PASSES = 16
_MOST_LANES = 16
_PBKDF2 = "pbkdf2_sha256"
_PBKDF2_BYTES = range(16, 65)
# Argon2 needs this much for each lane.
_LEAST_LANE_KIB = 8

HASHED = Counter("skein_auth_password_hashes_total", "Passwords that were hashed or verified.", ["how"])
REFUSED = Counter("skein_auth_password_hashes_refused_total", "Passwords that were not hashed because no turn came.")
HASHING = Histogram(
    "skein_auth_password_hash_seconds",
    "Time to hash or verify a password, waiting included.",
    buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PasswordCheck:
    """What became of a password that was shown."""

    ok: bool
    # It was right, and what is kept of it was made otherwise than is done now.
    rehash: bool = False


@dataclass(frozen=True, slots=True)
class Pbkdf2:
    """What MemoryVault keeps of a password."""

    iterations: int
    salt: bytes
    digest: bytes

    @classmethod
    def read(cls, stored: str) -> Self | None:
        """Read "pbkdf2_sha256$<iterations>$<salt, base64>$<hash, base64>"; None for anything else."""
        parts = stored.split("$")
        if len(parts) != 4 or parts[0] != _PBKDF2 or not (parts[1].isascii() and parts[1].isdigit()):  # noqa: PLR2004 - its four parts.
            return None
        try:
            found = cls(
                int(parts[1]), base64.b64decode(parts[2], validate=True), base64.b64decode(parts[3], validate=True)
            )
        except (binascii.Error, ValueError):
            return None
        is_bounded = 0 < found.iterations <= _MOST_PBKDF2_ITERATIONS and len(found.digest) in _PBKDF2_BYTES
        return found if is_bounded and found.salt else None

    def proves(self, text: str) -> bool:
        """Say whether it was made of this text, as it was typed."""
        given = hashlib.pbkdf2_hmac("sha256", text.encode(), self.salt, self.iterations, len(self.digest))
        return hmac.compare_digest(given, self.digest)


def is_known(stored: str) -> bool:
    """Say whether what another system kept of a password can be verified here, at a price that we pay."""
    if Pbkdf2.read(stored) is not None:
        return True
    try:
        found = extract_parameters(stored)
    except (InvalidHashError, ValueError):
        return False
    return (
        found.type is Type.ID
        and found.memory_cost <= _MOST_MEMORY_KIB
        and found.time_cost <= _MOST_PASSES
        and found.parallelism <= _MOST_LANES
    )


def accepted(text: str) -> str:
    """Return a new password in the one form that is hashed; refuse one that is too short."""
    normal = _normal(text)
    if len(normal) < LEAST_CHARACTERS:
        raise PasswordTooShort(least=LEAST_CHARACTERS)
    if len(normal) > MOST_CHARACTERS:
        raise PasswordTooLong(violations=[("password", f"has more than {MOST_CHARACTERS} characters")])
    return normal


def check_password_settings(settings: AuthSettings) -> None:
    """Raise SettingInvalid for settings that no password can be hashed with."""
    lanes = settings.password_hash_parallelism
    if lanes < 1 or settings.password_hash_iterations < 1 or settings.password_hash_threads < 1:
        raise SettingInvalid("SKEIN_PASSWORD_HASH_ITERATIONS, _PARALLELISM and _THREADS should be at least 1.")
    if settings.password_hash_memory_kib < _LEAST_LANE_KIB * lanes:
        raise SettingInvalid("SKEIN_PASSWORD_HASH_MEMORY_KIB should be at least 8 for each lane of parallelism.")


class Passwords:
    """Hashes passwords in a few threads; callers take turns, as work_queue says."""

    def __init__(self, hasher: PasswordHasher, threads: ThreadPoolExecutor, queue: PasswordQueue) -> None:
        """Let `queue` admit as many calls at a time as there are threads."""
        self._hasher = hasher
        self._threads = threads
        self._queue = queue
        self._nobodys = _nobodys(hasher)

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: AuthSettings) -> AsyncIterator[Self]:
        """Keep the threads until the block ends. Raises SettingInvalid."""
        check_password_settings(settings)
        hasher = PasswordHasher(
            time_cost=settings.password_hash_iterations,
            memory_cost=settings.password_hash_memory_kib,
            parallelism=settings.password_hash_parallelism,
            hash_len=_HASH_BYTES,
            salt_len=_SALT_BYTES,
        )
        threads = ThreadPoolExecutor(settings.password_hash_threads, thread_name_prefix="passwords")
        try:
            queue = PasswordQueue(working=settings.password_hash_threads, waiting=settings.password_hash_waiting)
            yield cls(hasher, threads, queue)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    async def hash(self, text: str, place: QueueKey) -> str:
        """Return what to keep of a new password. Raises PasswordTooShort, and Overloaded when no turn comes."""
        password = accepted(text)
        return await self._in_thread("argon2", place, lambda: self._hasher.hash(password))

    async def rehash(self, text: str, place: QueueKey) -> str:
        """Return what to keep of a password that was right, however short it is by today's rules."""
        return await self._in_thread("argon2", place, lambda: self._hasher.hash(_normal(text)))

    async def verify(self, stored: str | None, text: str, place: QueueKey) -> PasswordCheck:
        """Say whether the text is the password; without anything stored it never is, which takes as long to find out.

        Raises Overloaded when no turn comes.
        """
        if stored is not None and (foreign := Pbkdf2.read(stored)) is not None:
            ok = await self._in_thread("pbkdf2", place, lambda: foreign.proves(text))
            return PasswordCheck(ok=ok, rehash=ok)
        against = self._nobodys if stored is None else stored
        ok = await self._in_thread("argon2", place, lambda: self._proves(against, text)) and stored is not None
        return PasswordCheck(ok=ok, rehash=ok and self._hasher.check_needs_rehash(against))

    def _proves(self, stored: str, text: str) -> bool:
        try:
            return self._hasher.verify(stored, _normal(text))
        except (Argon2Error, InvalidHashError):
            return False

    async def _in_thread(self, how: str, place: QueueKey, work: Callable[[], Result]) -> Result:
        with HASHING.time():
            try:
                leave = await self._queue.take(place)
            except Overloaded:
                REFUSED.inc()
                raise
            HASHED.labels(how).inc()
            done = asyncio.get_running_loop().run_in_executor(self._threads, work)
            # A caller that goes away leaves its thread at work, so the turn ends with the work.
            done.add_done_callback(lambda _: leave())
            return await asyncio.shield(done)


def _normal(text: str) -> str:
    """Return the one spelling of a text that can be typed in several."""
    return unicodedata.normalize("NFC", text)


def _nobodys(hasher: PasswordHasher) -> str:
    """Return what no password is the password of, as dear to verify as what is made now."""
    salt, digest = (
        base64.b64encode(secrets.token_bytes(size)).decode("ascii").rstrip("=") for size in (_SALT_BYTES, _HASH_BYTES)
    )
    cost = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${digest}"
