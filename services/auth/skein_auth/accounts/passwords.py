"""Password hashes, computed in a few threads behind a fair queue. Knows no account."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import Argon2Error, InvalidHashError
from prometheus_client import Counter, Histogram

from skein_auth.errors import PasswordTooLong, PasswordTooShort
from skein_kit.admission.adaptive_limit import AdaptiveLimit
from skein_kit.admission.fair_queue import CallState, FairQueue, QueuedCall
from skein_kit.errors import Overloaded
from skein_kit.settings import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import TypeVar

    from skein_auth.settings import AuthSettings

    Result = TypeVar("Result")

MIN_CHARACTERS = 10
MAX_CHARACTERS = 1024
_SALT_BYTES = 16
_HASH_BYTES = 32
# Limits of the cost of an imported hash, which another system chose.
_MAX_PBKDF2_ITERATIONS = 10_000_000
_MAX_MEMORY_KIB = 262_144
_MAX_PASSES = 16
_MAX_LANES = 16
_PBKDF2 = "pbkdf2_sha256"
_PBKDF2_BYTES = range(16, 65)
# Argon2 needs this much for each lane.
_MIN_MEMORY_KIB = 8
# OWASP's figures for argon2id with 19 MiB; one lane, because each hash has one thread.
_ITERATIONS = 2
_PARALLELISM = 1
# Calls that wait for a hash; further ones are refused. At 40 ms a hash and two threads they wait 1.3 s.
MAX_WAITING = 64
# Longest wait in a queue that does not get shorter; in a burst, three times as long.
_WAIT_SECONDS = 2.0
_RETRY_SECONDS = 1.0

PASSWORD_OPERATIONS = Counter(
    "skein_auth_password_hashes_total", "Passwords that were hashed or verified.", ["operation"]
)
REFUSED_HASHES = Counter(
    "skein_auth_refused_password_hashes_total",
    "Passwords that were neither hashed nor verified because the queue was full or too slow.",
)
HASH_DURATION = Histogram(
    "skein_auth_password_hash_duration_seconds",
    "Time to hash or verify a password, the wait in the queue included.",
    buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PasswordCheck:
    """The result of a password's verification."""

    is_valid: bool
    # The password is right, and its hash has outdated parameters.
    needs_rehash: bool = False


@dataclass(frozen=True, slots=True)
class QueueKey:
    """The key of a call in the queue: calls with one key share a line."""

    key: str

    @classmethod
    def of_source(cls, source: str) -> QueueKey:
        """Return the key of unauthenticated callers, by source."""
        return cls(f"source {source}")

    @classmethod
    def of_account(cls, account_id: object) -> QueueKey:
        """Return the key of calls with a live credential of an account."""
        return cls(f"account {account_id}")

    @classmethod
    def of_devices(cls, account_id: object) -> QueueKey:
        """Return the key of an account's known devices, apart from strangers."""
        return cls(f"devices of {account_id}")


@dataclass(frozen=True, slots=True)
class Pbkdf2:
    """A password hash of MemoryVault."""

    iterations: int
    salt: bytes
    digest: bytes

    @classmethod
    def read(cls, stored_hash: str) -> Self | None:
        """Read "pbkdf2_sha256$<iterations>$<salt, base64>$<hash, base64>"; None for anything else."""
        parts = stored_hash.split("$")
        if len(parts) != 4 or parts[0] != _PBKDF2 or not (parts[1].isascii() and parts[1].isdigit()):  # noqa: PLR2004 - its four parts.
            return None
        try:
            parsed = cls(
                int(parts[1]), base64.b64decode(parts[2], validate=True), base64.b64decode(parts[3], validate=True)
            )
        except (binascii.Error, ValueError):
            return None
        is_bounded = 0 < parsed.iterations <= _MAX_PBKDF2_ITERATIONS and len(parsed.digest) in _PBKDF2_BYTES
        return parsed if is_bounded and parsed.salt else None

    def matches(self, text: str) -> bool:
        """Return whether it is the hash of this text, without normalization."""
        digest = hashlib.pbkdf2_hmac("sha256", text.encode(), self.salt, self.iterations, len(self.digest))
        return hmac.compare_digest(digest, self.digest)


def is_supported_hash(stored_hash: str) -> bool:
    """Return whether an imported hash has a known form and an acceptable cost."""
    if Pbkdf2.read(stored_hash) is not None:
        return True
    try:
        parsed = extract_parameters(stored_hash)
    except (InvalidHashError, ValueError):
        return False
    return (
        parsed.type is Type.ID
        and parsed.memory_cost <= _MAX_MEMORY_KIB
        and parsed.time_cost <= _MAX_PASSES
        and parsed.parallelism <= _MAX_LANES
    )


def normalize_new_password(text: str) -> str:
    """Return a new password in its normal form. Raises PasswordTooShort and PasswordTooLong."""
    normalized = _normalize(text)
    if len(normalized) < MIN_CHARACTERS:
        raise PasswordTooShort(min_characters=MIN_CHARACTERS)
    if len(normalized) > MAX_CHARACTERS:
        raise PasswordTooLong(violations=[("password", f"has more than {MAX_CHARACTERS} characters")])
    return normalized


def check_password_settings(settings: AuthSettings) -> None:
    """Raises SettingInvalid for settings that no password can be hashed with."""
    if settings.password_hash_threads < 1:
        raise SettingInvalid("SKEIN_PASSWORD_HASH_THREADS should be at least 1.")
    if settings.password_hash_memory_kib < _MIN_MEMORY_KIB:
        raise SettingInvalid(f"SKEIN_ADVANCED_PASSWORD_HASH_MEMORY_KIB should be at least {_MIN_MEMORY_KIB}.")


class Passwords:
    """Hashes passwords in a few threads; calls wait in a PasswordQueue."""

    def __init__(self, hasher: PasswordHasher, threads: ThreadPoolExecutor, queue: PasswordQueue) -> None:
        """`queue` must admit as many calls at a time as there are threads."""
        self._hasher = hasher
        self._threads = threads
        self._queue = queue
        self._dummy_hash = _dummy_hash(hasher)

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: AuthSettings) -> AsyncIterator[Self]:
        """Run the threads until the block ends. Raises SettingInvalid."""
        check_password_settings(settings)
        hasher = PasswordHasher(
            time_cost=_ITERATIONS,
            memory_cost=settings.password_hash_memory_kib,
            parallelism=_PARALLELISM,
            hash_len=_HASH_BYTES,
            salt_len=_SALT_BYTES,
        )
        threads = ThreadPoolExecutor(settings.password_hash_threads, thread_name_prefix="passwords")
        try:
            queue = PasswordQueue(max_running=settings.password_hash_threads, max_waiting=MAX_WAITING)
            yield cls(hasher, threads, queue)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    async def hash(self, text: str, queue_key: QueueKey) -> str:
        """Hash a new password. Raises PasswordTooShort, PasswordTooLong, and Overloaded when the queue is full."""
        password = normalize_new_password(text)
        return await self._run_in_thread("argon2", queue_key, lambda: self._hasher.hash(password))

    async def rehash(self, text: str, queue_key: QueueKey) -> str:
        """Hash a verified password, which may be shorter than a new one. Raises Overloaded."""
        return await self._run_in_thread("argon2", queue_key, lambda: self._hasher.hash(_normalize(text)))

    async def verify(self, stored_hash: str | None, text: str, queue_key: QueueKey) -> PasswordCheck:
        """Verify a password. Without a stored hash it is wrong, after the same time. Raises Overloaded."""
        if stored_hash is not None and (imported_hash := Pbkdf2.read(stored_hash)) is not None:
            is_valid = await self._run_in_thread("pbkdf2", queue_key, lambda: imported_hash.matches(text))
            return PasswordCheck(is_valid=is_valid, needs_rehash=is_valid)
        expected_hash = self._dummy_hash if stored_hash is None else stored_hash
        is_valid = (
            await self._run_in_thread("argon2", queue_key, lambda: self._matches(expected_hash, text))
            and stored_hash is not None
        )
        return PasswordCheck(
            is_valid=is_valid, needs_rehash=is_valid and self._hasher.check_needs_rehash(expected_hash)
        )

    def _matches(self, stored_hash: str, text: str) -> bool:
        try:
            return self._hasher.verify(stored_hash, _normalize(text))
        except (Argon2Error, InvalidHashError):
            return False

    async def _run_in_thread(self, operation: str, queue_key: QueueKey, work: Callable[[], Result]) -> Result:
        with HASH_DURATION.time():
            try:
                release = await self._queue.acquire_slot(queue_key)
            except Overloaded:
                REFUSED_HASHES.inc()
                raise
            PASSWORD_OPERATIONS.labels(operation).inc()
            future = asyncio.get_running_loop().run_in_executor(self._threads, work)
            # A cancelled call leaves its thread at work, so the slot ends with the work.
            future.add_done_callback(lambda _: release())
            return await asyncio.shield(future)


def _normalize(text: str) -> str:
    """Return the Unicode normal form NFC of a text."""
    return unicodedata.normalize("NFC", text)


def _dummy_hash(hasher: PasswordHasher) -> str:
    """Return a hash that no password has, with the cost of a current one."""
    salt, digest = (
        base64.b64encode(secrets.token_bytes(size)).decode("ascii").rstrip("=") for size in (_SALT_BYTES, _HASH_BYTES)
    )
    cost = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${digest}"


class PasswordQueue:
    """Admits calls by start-time fair queueing.

    One key has at most three quarters of the slots. When the queue is full, the newest call of the longest line is
    refused.
    """

    def __init__(self, *, max_running: int, max_waiting: int) -> None:
        """Admit `max_running` calls at a time and let `max_waiting` calls wait."""
        self._queue = FairQueue(
            AdaptiveLimit(minimum=max_running, maximum=max_running, target_seconds=_RETRY_SECONDS),
            max_waiting=max_waiting,
            wait_seconds=_WAIT_SECONDS,
        )

    async def acquire_slot(self, queue_key: QueueKey) -> Callable[[], None]:
        """Wait for a slot and return the function that releases it. Raises Overloaded."""
        at = time.monotonic()
        call = self._queue.enqueue(queue_key.key, at=at)
        if call.state is CallState.WAITING:
            await self._wait(call)
        if call.state is not CallState.RUNNING:
            raise Overloaded(retry_after=_RETRY_SECONDS)
        return lambda: self._queue.finish(call, time.monotonic())

    async def _wait(self, call: QueuedCall) -> None:
        """Wait until a call is admitted or refused."""
        loop = asyncio.get_running_loop()
        admission = loop.create_future()

        def set_admission() -> None:
            if not admission.done():
                admission.set_result(None)

        call.on_change = set_admission
        timer = loop.call_later(
            call.wait_until - call.arrival_time, lambda: self._queue.time_out(call, time.monotonic())
        )
        try:
            await admission
        except asyncio.CancelledError:
            self._queue.finish(call, time.monotonic())
            raise
        finally:
            timer.cancel()
