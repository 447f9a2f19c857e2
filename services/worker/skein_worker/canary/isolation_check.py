"""Rounds of the canary: each tenant looks for its own data and for the other's, and what it sees becomes a metric.

A probe that does not find its own data has failed: it would see no leak either. What is logged are methods and codes.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import grpc
from grpc import aio
from prometheus_client import Counter, Gauge

from skein.auth.v1 import auth_pb2
from skein_kit.canary import CANARIES
from skein_kit.identity.permissions import ROLE_PERMISSIONS
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.canary.gateway_client import GatewayClient
from skein_worker.canary.probes import PROBES
from skein_worker.canary.synthetic_data import SyntheticData, SyntheticDataWriter
from skein_worker.job_queue.job_queue import Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.message import Message

    from skein.auth.v1 import auth_pb2_grpc
    from skein_kit.canary import Canary
    from skein_worker.canary.probes import Probe
    from skein_worker.system_identity import SystemIdentity

CANARY = "canary"
STANDING = Job(name=CANARY, key=CANARY, priority=1)
ISOLATED, LEAKED, FAILED = "isolated", "leaked", "failed"

OUTCOMES = Counter(
    "skein_canary_probes_total",
    "Probes for another tenant's data: isolated, leaked, or failed where they did not find their own data either.",
    ["outcome"],
)
LEAKS = Gauge("skein_canary_leaks", "1 when the last round saw another tenant's data through this RPC.", ["method"])
LAST_ROUND = Gauge("skein_canary_last_round_timestamp_seconds", "When the last round of this worker ended.")

_KEY_LIFETIME = timedelta(hours=1)
_KEY_MARGIN_SECONDS = 300.0
_CALL_SECONDS = 10.0
# Until the first round has begun, a cluster that is starting up is asked again so soon.
_START_SECONDS = 2.0
# The part of the time between two rounds that a round is spread over.
_SPREAD = 0.8
# Whose last round is so many rounds ago has nothing to say: another worker goes on.
_FORGET_ROUNDS = 3

log = logs.get("worker")


@dataclass(kw_only=True, slots=True)
class CanarySide:
    """One of the two tenants, as it may be called for a while."""

    door: GatewayClient
    things: SyntheticData
    # By this process's own clock.
    ends: float
    is_planted: bool = False


class IsolationCheck:
    """The job of the canary."""

    def __init__(
        self,
        gateway: aio.Channel,
        auth: auth_pb2_grpc.AuthServiceAsyncStub,
        system: SystemIdentity,
        *,
        seconds: float,
        probes: Sequence[Probe] = PROBES,
    ) -> None:
        """Look through `gateway`, with keys that `system` makes at `auth`; 0 seconds: never."""
        self._gateway = gateway
        self._auth = auth
        self._system = system
        self._seconds = seconds
        self._probes = probes
        self._sides: dict[Canary, CanarySide] = {}
        self._began = time.monotonic()
        self._planted = False
        self._round = 0
        self._forgetting: asyncio.TimerHandle | None = None

    async def run(self, _payload: bytes, leave_off: asyncio.Event) -> float | None:
        """Do one round, spread over most of the time until the next one; return the seconds until that."""
        if self._seconds <= 0:
            return None
        started = time.monotonic()
        with without_tracing():
            try:
                sides = [await self._side(canary) for canary in CANARIES]
            except aio.AioRpcError as error:
                return self._unplanted(error)
            await self._look(sides, leave_off)
        return max(0.0, self._seconds - (time.monotonic() - started))

    async def look(self) -> dict[str, str]:
        """Look from both sides at once; return the outcome of each probe by its method, the worse one of both."""
        sides = [await self._side(canary) for canary in CANARIES]
        found: dict[str, str] = {}
        for probe in self._probes:
            if probe.is_possible(side.things for side in sides):
                outcomes = {await self._probed(probe, *pair) for pair in (sides, reversed(sides))}
                found[probe.method] = next((one for one in (LEAKED, FAILED) if one in outcomes), ISOLATED)
        self._tell(found)
        return found

    async def _look(self, sides: list[CanarySide], leave_off: asyncio.Event) -> None:
        """Look with each RPC from one side, in the next round from the other: half of the work, and both in turn."""
        pause = self._seconds * _SPREAD / len(self._probes)
        found: dict[str, str] = {}
        self._round += 1
        for number, probe in enumerate(self._probes):
            if probe.is_possible(side.things for side in sides):
                turned = (number + self._round) % 2
                found[probe.method] = await self._probed(probe, sides[turned], sides[1 - turned])
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await leave_off.wait()
            if leave_off.is_set():
                return
        self._tell(found)

    async def _side(self, canary: Canary) -> CanarySide:
        """Return a side whose key is good for a while, with everything planted. Raises AioRpcError."""
        side = self._sides.get(canary)
        if side is None or time.monotonic() >= side.ends - _KEY_MARGIN_SECONDS:
            side = self._sides[canary] = await self._with_key(canary)
        if not side.is_planted:
            await SyntheticDataWriter(side.door, side.things).plant()
            side.is_planted = self._planted = True
        return side

    async def _with_key(self, canary: Canary) -> CanarySide:
        request = auth_pb2.CreateApiKeyRequest(
            display_name=f"canary {canary.secret}", permissions=sorted(ROLE_PERMISSIONS["admin"])
        )
        request.expire_time.FromDatetime(datetime.now(UTC) + _KEY_LIFETIME)
        ends = time.monotonic() + _KEY_LIFETIME.total_seconds()
        async with self._system.acting(tenant_id=str(canary.tenant_id), seconds=_CALL_SECONDS):
            made = await self._auth.CreateApiKey(request)
        things = SyntheticData(canary=canary, api_key=made.secret)
        things.ids |= {
            "tenant": str(canary.tenant_id),
            "member": str(canary.account_id),
            "api_key": made.api_key.api_key_id,
        }
        return CanarySide(door=GatewayClient(self._gateway, made.secret), things=things, ends=ends)

    def _unplanted(self, error: aio.AioRpcError) -> float:
        """Return when to try again; a cluster that is only just starting is no failure."""
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            # Somebody revoked a key, or the database is as it was before it was made.
            self._sides.clear()
        if not self._planted and time.monotonic() - self._began < self._seconds:
            return min(_START_SECONDS, self._seconds)
        OUTCOMES.labels(FAILED).inc()
        log.warning("canary_not_ready", code=error.code().name)
        return self._seconds

    async def _probed(self, probe: Probe, mine: CanarySide, theirs: CanarySide) -> str:
        try:
            if probe.asked is not None:
                outcome = await _asked(probe, probe.asked(mine.things, theirs.things), mine, theirs.things)
            else:
                outcome = await _named(probe, mine, theirs.things)
        except aio.AioRpcError as error:
            log.warning("canary_probe_failed", method=probe.method, code=error.code().name)
            outcome = FAILED
        OUTCOMES.labels(outcome).inc()
        if outcome == LEAKED:
            # At once: the round may be left off.
            LEAKS.labels(probe.method).set(1)
            log.error("canary_leak", method=probe.method)
            self._forget_later()
        return outcome

    def _tell(self, found: dict[str, str]) -> None:
        for method, outcome in found.items():
            LEAKS.labels(method).set(int(outcome == LEAKED))
        blind = sorted(method for method, outcome in found.items() if outcome == FAILED)
        if blind:
            log.warning("canary_failed", methods=blind)
            # What was planted may be gone: it is looked for before the next round.
            for side in self._sides.values():
                side.is_planted = False
        LAST_ROUND.set_to_current_time()
        self._forget_later()

    def _forget_later(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
        loop = asyncio.get_running_loop()
        self._forgetting = loop.call_later(_FORGET_ROUNDS * self._seconds, LEAKS.clear)


async def _asked(probe: Probe, request: Message, mine: CanarySide, theirs: SyntheticData) -> str:
    """Ask for both at once: only one's own may be in the answer."""
    said = request.SerializeToString()
    answer = (await mine.door.call(probe.path, request)).SerializeToString()
    if _shows(answer, theirs, said):
        return LEAKED
    return ISOLATED if probe.plain or _shows(answer, mine.things, said) else FAILED


async def _named(probe: Probe, mine: CanarySide, theirs: SyntheticData) -> str:
    """Ask for the other's thing, which must not be there, and for one's own, which must."""
    assert probe.named is not None  # noqa: S101 - a probe has one of both.
    request = probe.named(theirs)
    try:
        answer = (await mine.door.call(probe.path, request)).SerializeToString()
    except aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
    else:
        if _shows(answer, theirs, request.SerializeToString()) or (probe.plain and answer):
            return LEAKED
    request = probe.named(mine.things)
    answer = (await mine.door.call(probe.path, request)).SerializeToString()
    return ISOLATED if probe.plain or _shows(answer, mine.things, request.SerializeToString()) else FAILED


def _shows(answer: bytes, things: SyntheticData, request: bytes) -> bool:
    """Say whether there is something of a tenant in an answer that was not in the request."""
    return any(trace in answer for trace in things.traces(request))
