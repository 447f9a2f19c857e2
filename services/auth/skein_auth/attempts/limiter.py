"""Limits on failed attempts, and on calls without a credential.

An attempt counts before the work and is taken back when it succeeds, so a burst of guesses gets no further than a
sequence. While pending attempts fill the limit, the next one waits for their outcome.
Only what can be guessed is an attempt: passwords, codes that people type, imported client secrets. A refused token of
256 random bits is a dead token, so it never blocks live ones of the same address.

A stranger's failures count for an account or client together with the source of the call. Only callers that have
proved something of an account reach its limit by account alone.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import grpc
from prometheus_client import Counter

from skein_auth.attempts.store import AttemptCount, AttemptRequest, AttemptStore
from skein_auth.errors import TooManyAttempts
from skein_auth.settings import AuthSettings
from skein_kit.errors import RpcError
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.network.source_network import source_network
from skein_kit.telemetry import logs

REFUSED_ATTEMPTS = Counter("skein_auth_refused_attempts_total", "Attempts that exceeded their limit.", ["kind"])
# Errors of these codes are the caller's fault; others tell nothing about the credential.
_CALLER_ERRORS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
    }
)
# A caller that gets one of these guessed nothing: the first factor was right, or none was tried.
_NO_GUESSES = frozenset(
    {
        "SECOND_FACTOR_REQUIRED",
        "LOGIN_TOO_OLD",
        "PASSWORD_TOO_SHORT",
        "MAIL_NOT_CONFIGURED",
    }
)
_HOUR = timedelta(hours=1)
# The window of failed attempts: with ten of them, a guess of a six-digit code succeeds once in a year and a half.
_WINDOW = timedelta(minutes=15)
_ADDRESS_ATTEMPTS = 10
# What one household does within an hour at most; SKEIN_ADVANCED_ADDRESS_LIMIT_FACTOR multiplies it.
SIGN_UPS = 10
REGISTRATIONS = 20
# A device polls with one code for ten minutes; a person who mistypes starts again a few times.
DEVICE_STARTS = 60
_MAIL_REQUESTS = 10
# Mails with one purpose to one mailbox within an hour: more would be a nuisance that strangers cause.
MAX_MAILS_TO = 5
_FIRST_PAUSE_SECONDS = 0.01
_MAX_PAUSE_SECONDS = 0.2
# How long an attempt waits for pending ones.
_MAX_WAIT_SECONDS = 5.0

log = logs.get("auth")


@dataclass(frozen=True, slots=True)
class Limit:
    """The most attempts within a window."""

    max_attempts: int
    window: timedelta


def limits(settings: AuthSettings) -> Mapping[str, Limit]:
    """Return the limit of every kind of attempt."""
    address_attempts = Limit(scaled(_ADDRESS_ATTEMPTS, settings), _WINDOW)
    attempts = Limit(settings.max_attempts, _WINDOW)
    return {
        # Failed logins from unknown devices, by e-mail address and source.
        "sign_in": attempts,
        # Failed logins from a known device, by device.
        "device": attempts,
        # Wrong codes after the right password or identity, by account.
        "second_factor": attempts,
        # Wrong passwords and codes within an auth session, by session.
        "own_proof": attempts,
        # User codes that no device has, by account.
        "user_code": attempts,
        # Wrong secrets of an imported client, by client and source. The right secret passes, but slowly.
        "client": attempts,
        # Refused identities of a provider that auth calls for each of them, by source.
        "identity": address_attempts,
        # Wrong keys of service accounts without check digits, by source.
        "unchecked_key": address_attempts,
        # Recorded refusals, by client and by source. These limits do not stop a right credential.
        "refused_client": attempts,
        "refused_address": address_attempts,
        "refused_sign_in": address_attempts,
        # Unknown invitations, by source.
        "invitation": Limit(scaled(SIGN_UPS, settings), _HOUR),
        # By source; a sign-up with an invitation by invitation, a device of a client with a secret by client.
        "sign_up": Limit(scaled(SIGN_UPS, settings), _HOUR),
        "registration": Limit(scaled(REGISTRATIONS, settings), _HOUR),
        "device_start": Limit(scaled(DEVICE_STARTS, settings), _HOUR),
        "mail_request": Limit(scaled(_MAIL_REQUESTS, settings), _HOUR),
        # By purpose and recipient. The links of these mails work until the window ends.
        "mail_to": Limit(MAX_MAILS_TO, _HOUR),
    }


def scaled(count: int, settings: AuthSettings) -> int:
    """Return what one address may do, for a figure that holds for a household."""
    return max(1, round(count * settings.address_limit_factor))


class AttemptLimiter:
    """Limits attempts, counted for all replicas of auth together."""

    def __init__(self, store: AttemptStore, limits: Mapping[str, Limit], clock: Callable[[], datetime] = now) -> None:
        self._store = store
        self._limits = limits
        self._clock = clock

    @asynccontextmanager
    async def limit_failures(self, *subjects: tuple[str, str]) -> AsyncIterator[None]:
        """Run the block, unless one of the subjects has failed too often. Raises TooManyAttempts.

        Subjects are pairs of a kind and its subject, such as ("sign_in", subject_at_network(email, address)) and
        ("identity", address); an empty subject has no limit. The attempt counts against all of them when the block
        raises an error that is the caller's fault.
        """
        counts = await self._reserve(subjects)
        has_failed = False
        try:
            yield
        except RpcError as error:
            has_failed = is_failure(error)
            raise
        finally:
            if counts:
                # Also after a cancelled call. An attempt whose outcome cannot be recorded counts until its window ends.
                with suppress(RpcError):
                    await asyncio.shield(self._store.record_attempt_outcomes(counts, has_failed=has_failed))

    async def charge(self, kind: str, subject: str) -> None:
        """Count an act whatever its outcome, such as a sign-up by its address. Raises TooManyAttempts."""
        at = self._clock()
        if requests := self._requests([(kind, subject)], at):
            async with self._store.reserve(requests, at, pending=False) as counts:
                self._check(counts, at)

    @staticmethod
    def subject_hash(kind: str, subject: str) -> bytes:
        """Return the SHA-256 of kind and subject; addresses of one IPv6 /64 are one subject."""
        return hashlib.sha256(f"{kind}:{source_network(subject)}".encode()).digest()

    async def _reserve(self, subjects: Sequence[tuple[str, str]]) -> Sequence[AttemptCount]:
        """Count pending attempts, after a wait for those that fill the limit and may still succeed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _MAX_WAIT_SECONDS
        pause = _FIRST_PAUSE_SECONDS
        while True:
            at = self._clock()
            requests = self._requests(subjects, at)
            if not requests:
                return ()
            try:
                async with self._store.reserve(requests, at, pending=True) as counts:
                    self._check(counts, at)
            except _AttemptsPending as pending:
                if loop.time() + pause >= deadline:
                    raise _limit_error(pending.kind, _MAX_WAIT_SECONDS) from None
            else:
                return counts
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    def _requests(self, subjects: Sequence[tuple[str, str]], at: datetime) -> Sequence[AttemptRequest]:
        return [
            AttemptRequest(
                kind=kind,
                subject_hash=self.subject_hash(kind, subject),
                expire_time=at + self._limits[kind].window,
            )
            for kind, subject in dict.fromkeys(subjects)
            if subject
        ]

    def _check(self, counts: Sequence[AttemptCount], at: datetime) -> None:
        exceeded_counts = [attempts for attempts in counts if attempts.count > self._limits[attempts.kind].max_attempts]
        for attempts in exceeded_counts:
            # Without the current attempt and the pending ones.
            if attempts.count - max(attempts.pending, 1) >= self._limits[attempts.kind].max_attempts:
                raise _limit_error(attempts.kind, (attempts.expire_time - at).total_seconds())
        if exceeded_counts:
            raise _AttemptsPending(exceeded_counts[0].kind)


class _AttemptsPending(Exception):
    """The limit is reached only if pending attempts fail."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def is_failure(error: RpcError) -> bool:
    """Return whether the error means that the caller tried a wrong credential."""
    return error.code in _CALLER_ERRORS and error.reason not in _NO_GUESSES


def _limit_error(kind: str, retry_seconds: float) -> TooManyAttempts:
    REFUSED_ATTEMPTS.labels(kind).inc()
    log.info("too_many_attempts", kind=kind)
    return TooManyAttempts(retry_after=max(retry_seconds, 1.0), kind=kind)


def auth_session_subject(caller: Caller) -> str:
    """Return the subject for proofs in an auth session: a thief of one session does not block the others."""
    return f"{caller.require_account()} {caller.auth_session_id}"


def subject_at_network(name: str, address: str) -> str:
    """Return the subject for attempts at one account or client from one source."""
    return f"{name} {source_network(address)}"
