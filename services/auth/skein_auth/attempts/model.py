"""Limits on failed attempts, and on what callers without a credential may do.

An attempt is counted before the work and taken back when it ends well, so a burst of tries gets no further than one
after another. While the count is full only with attempts that may still end well, the next one waits its turn.
Only what can be guessed is an attempt: passwords, codes that people type, client secrets of another system's making.
A refused token of 256 random bits is a dead token, so it never keeps live ones of the same address out.

A stranger's failures count where the stranger is: for an account or a client together with the source of the call.
Counts by account alone are reached only by callers that have proved something of the account before.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import grpc
from prometheus_client import Counter

from skein_auth.attempts.store import AttemptCount, AttemptRequest, AttemptStore
from skein_auth.errors import TooManyAttempts
from skein_kit.errors import RpcError
from skein_kit.ids import now
from skein_kit.network.source_network import source_network
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from datetime import datetime

    from skein_auth.settings import AuthSettings
    from skein_kit.identity.identity_token import Caller

REFUSED = Counter("skein_auth_attempts_refused_total", "Attempts that were one too many.", ["kind"])
# Refusals of these codes are the caller's fault; anything else says nothing about what was tried.
_FAULTS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
    }
)
# Who gets one of these guessed nothing: the first half was right, or nothing was guessed at.
_NO_GUESSES = frozenset(
    {
        "SECOND_FACTOR_NEEDED",
        "SIGN_IN_TOO_OLD",
        "PASSWORD_TOO_SHORT",
        "MAIL_NOT_CONFIGURED",
    }
)
_HOUR = timedelta(hours=1)
_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.2
# How long an attempt waits for others that are under way.
_PATIENCE_SECONDS = 5.0

log = logs.get("auth")


@dataclass(frozen=True, slots=True)
class Limit:
    """So many within a time."""

    most: int
    window: timedelta


def limits(settings: AuthSettings) -> Mapping[str, Limit]:
    """Return every kind of attempt that there is, with its limit."""
    window = timedelta(seconds=settings.attempts_window_seconds)
    return {
        # Failed sign-ins from devices that are not known, by address of the account and source.
        "sign_in": Limit(settings.attempts_most, window),
        # Failed sign-ins from a known device, by device.
        "device": Limit(settings.attempts_most, window),
        # Wrong codes after the right password or identity, by account.
        "second_factor": Limit(settings.attempts_most, window),
        # Wrong passwords and codes of a person who is signed in, by sign-in.
        "own_proof": Limit(settings.attempts_most, window),
        # Codes of devices that a person typed and that no device has, by account.
        "user_code": Limit(settings.attempts_most, window),
        # Wrong secrets of an imported client, by client and source. The right secret passes, if slowly.
        "client": Limit(settings.attempts_most, window),
        # Refused identities of a provider that is called for each of them, by source.
        "identity": Limit(settings.address_attempts_most, window),
        # Service accounts' keys without check digits that are not good, by source.
        "unchecked_key": Limit(settings.address_attempts_most, window),
        # Refusals that are recorded, by client and by source. What is right passes whatever these counts say.
        "refused_client": Limit(settings.attempts_most, window),
        "refused_address": Limit(settings.address_attempts_most, window),
        "refused_sign_in": Limit(settings.address_attempts_most, window),
        # Invitations that are not there, by source.
        "invitation": Limit(settings.sign_ups_most, _HOUR),
        # By source; a sign-up with an invitation by invitation, a device of a client with a secret by client.
        "sign_up": Limit(settings.sign_ups_most, _HOUR),
        "registration": Limit(settings.registrations_most, _HOUR),
        "device_start": Limit(settings.device_starts_most, _HOUR),
        "mail_request": Limit(settings.mail_requests_most, _HOUR),
        # By purpose and by the address that the mail goes to. The links that used the count up work until it ends.
        "mail_to": Limit(settings.mails_to_most, min(_HOUR, timedelta(seconds=settings.password_reset_seconds))),
    }


class AttemptLimiter:
    """Counts attempts for all replicas of auth together."""

    def __init__(self, store: AttemptStore, limits: Mapping[str, Limit], clock: Callable[[], datetime] = now) -> None:
        self._store = store
        self._limits = limits
        self._clock = clock

    @asynccontextmanager
    async def failing(self, *subjects: tuple[str, str]) -> AsyncIterator[None]:
        """Refuse with TooManyAttempts when one of the subjects has failed too often, else run the block.

        Subjects are pairs of a kind and what it is counted by, such as ("sign_in", from_source(email, address)) and
        ("identity", address); an empty one is not limited. The attempt counts against all of them when the block raises
        a refusal that is the caller's fault.
        """
        held = await self._held(subjects)
        failed = False
        try:
            yield
        except RpcError as refusal:
            failed = is_failure(refusal)
            raise
        finally:
            if held:
                # In one piece, whoever is cancelled. What cannot be settled counts until its window ends.
                with suppress(RpcError):
                    await asyncio.shield(self._store.settle(held, failed=failed))

    async def charge(self, kind: str, subject: str) -> None:
        """Count something that counts however it ends, such as a sign-up by its address; refuse one too many."""
        at = self._clock()
        if wanted := self._wanted([(kind, subject)], at):
            await self._store.hold(wanted, at, held=False, judge=lambda counted: self._judge(counted, at))

    @staticmethod
    def subject_hash(kind: str, subject: str) -> bytes:
        """Return what stands for a subject in the database; addresses of one IPv6 /64 are one subject."""
        return hashlib.sha256(f"{kind}:{source_network(subject)}".encode()).digest()

    async def _held(self, subjects: Sequence[tuple[str, str]]) -> Sequence[AttemptCount]:
        loop = asyncio.get_running_loop()
        patience = loop.time() + _PATIENCE_SECONDS
        pause = _FIRST_PAUSE_SECONDS
        while True:
            at = self._clock()
            wanted = self._wanted(subjects, at)
            if not wanted:
                return ()
            try:
                return await self._store.hold(wanted, at, held=True, judge=lambda counted: self._judge(counted, at))  # noqa: B023 - it is called before `at` changes.
            except _AttemptsPending as under_way:
                if loop.time() + pause >= patience:
                    raise _refused(under_way.kind, _PATIENCE_SECONDS) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _wanted(self, subjects: Sequence[tuple[str, str]], at: datetime) -> Sequence[AttemptRequest]:
        return [
            AttemptRequest(
                kind=kind,
                subject_hash=self.subject_hash(kind, subject),
                expire_time=at + self._limits[kind].window,
            )
            for kind, subject in dict.fromkeys(subjects)
            if subject
        ]

    def _judge(self, counted: Sequence[AttemptCount], at: datetime) -> None:
        over = [one for one in counted if one.count > self._limits[one.kind].most]
        for one in over:
            # With the attempt at hand left out.
            if one.count - max(one.held, 1) >= self._limits[one.kind].most:
                raise _refused(one.kind, (one.expire_time - at).total_seconds())
        if over:
            raise _AttemptsPending(over[0].kind)


class _AttemptsPending(Exception):
    """The limit is reached only if attempts that are under way fail."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def is_failure(refusal: RpcError) -> bool:
    """Say whether a refusal means that somebody tried something and it was wrong."""
    return refusal.code in _FAULTS and refusal.reason not in _NO_GUESSES


def _refused(kind: str, after: float) -> TooManyAttempts:
    REFUSED.labels(kind).inc()
    log.info("too_many_attempts", kind=kind)
    return TooManyAttempts(after=max(after, 1.0), kind=kind)


def auth_session_subject(who: Caller) -> str:
    """Return the subject for what a person proves who is signed in: a thief of one sign-in does not stop the others."""
    return f"{who.account()} {who.sign_in_id}"
