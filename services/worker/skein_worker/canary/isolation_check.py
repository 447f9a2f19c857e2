"""The canary job: each synthetic tenant searches for its own data and for the other's through the gateway.

So does each of two spaces of a third tenant.

A probe that does not find its own data has failed, because it would find no leak either. The log has methods and
status codes, and no content.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import grpc
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio
from prometheus_client import Counter, Gauge

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.tenancy.v1 import spaces_pb2
from skein_kit.canary import CANARY_PAIR, CANARY_SPACES, CanaryTenant
from skein_kit.identity.permissions import AGENT_PERMISSIONS, ROLE_PERMISSIONS
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.canary.probes import PROBES, SPACE_PROBES, Probe
from skein_worker.canary.synthetic_data import AUTH, TENANCY, GatewayClient, SyntheticData, SyntheticDataWriter
from skein_worker.job_queue.job_queue import Job
from skein_worker.system_identity import SystemIdentity

CANARY_JOB = Job(name="canary", dedupe_key="canary", priority=1)
ISOLATED, LEAKED, FAILED = "isolated", "leaked", "failed"

OUTCOMES = Counter(
    "skein_canary_probes_total",
    "Probes for another tenant's data: isolated, leaked, or failed (its own tenant's data was not found either).",
    ["outcome"],
)
LEAKS = Gauge(
    "skein_canary_leaks", "1 if the last round got another tenant's data through this RPC, else 0.", ["method"]
)
LAST_ROUND = Gauge(
    "skein_canary_last_round_timestamp_seconds", "Unix time at which the last round of this worker ended."
)

_KEY_LIFETIME = timedelta(hours=1)
_KEY_MARGIN_SECONDS = 300.0
_CALL_SECONDS = 10.0
# The pause between attempts until the first round, because the cluster may be starting.
_START_SECONDS = 2.0
# The share of the time between two rounds over which the probes of a round are spread.
_SPREAD = 0.8
# The leaks of a worker without a round for this many rounds are dropped, because another worker runs the job.
_MAX_MISSED_ROUNDS = 3

log = logs.get("worker")


@dataclass(kw_only=True, slots=True)
class CanarySide:
    """One of the two tenants or spaces, with an API key."""

    gateway: GatewayClient
    data: SyntheticData
    # When the key expires, by the monotonic clock.
    expire_seconds: float
    has_data: bool = False


class IsolationCheck:
    """Runs the probes and reports leaks."""

    def __init__(
        self,
        gateway: aio.Channel,
        auth: auth_pb2_grpc.AuthServiceAsyncStub,
        system: SystemIdentity,
        *,
        seconds: float,
        probes: Sequence[Probe] = (*PROBES, *SPACE_PROBES),
    ) -> None:
        """Run every `seconds` through `gateway`, with keys that `system` creates at `auth`; 0 never runs."""
        self._gateway = gateway
        self._auth = auth
        self._system = system
        self._seconds = seconds
        self._probes = probes
        self._sides: dict[CanaryTenant, CanarySide] = {}
        self._start_seconds = time.monotonic()
        self._has_had_data = False
        self._round_number = 0
        self._drop_timer: asyncio.TimerHandle | None = None

    async def run(self, _payload: bytes, stop: asyncio.Event) -> float | None:
        """Run one round, spread over most of the time until the next one; return the seconds until that."""
        if self._seconds <= 0:
            return None
        start = time.monotonic()
        with without_tracing():
            try:
                pairs = await self._pairs()
            except aio.AioRpcError as error:
                return self._retry_seconds(error)
            await self._run_round(pairs, stop)
        return max(0.0, self._seconds - (time.monotonic() - start))

    async def check(self) -> dict[str, str]:
        """Run each probe from both sides without pauses; return the worse outcome of both by method."""
        pairs = await self._pairs()
        outcomes: dict[str, str] = {}
        for probe in self._probes:
            sides = pairs[probe.is_of_spaces]
            if probe.is_possible(side.data for side in sides):
                pair_outcomes = {await self._run_probe(probe, *pair) for pair in (sides, reversed(sides))}
                outcomes[probe.method] = next(
                    (outcome for outcome in (LEAKED, FAILED) if outcome in pair_outcomes), ISOLATED
                )
        self._report(outcomes)
        return outcomes

    async def _pairs(self) -> tuple[list[CanarySide], list[CanarySide]]:
        """Return the two tenants, and the two spaces. Raises AioRpcError."""
        # The spaces first: the first one opens ten seconds after its grant, and until there is data no failure counts.
        spaces = [await self._side(canary) for canary in CANARY_SPACES]
        return [await self._side(canary) for canary in CANARY_PAIR], spaces

    async def _run_round(self, pairs: tuple[list[CanarySide], list[CanarySide]], stop: asyncio.Event) -> None:
        """Run each probe from one side, and in the next round from the other, which halves the calls of a round."""
        pause = self._seconds * _SPREAD / len(self._probes)
        outcomes: dict[str, str] = {}
        self._round_number += 1
        for number, probe in enumerate(self._probes):
            sides = pairs[probe.is_of_spaces]
            if probe.is_possible(side.data for side in sides):
                own = (number + self._round_number) % 2
                outcomes[probe.method] = await self._run_probe(probe, sides[own], sides[1 - own])
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stop.wait()
            if stop.is_set():
                return
        self._report(outcomes)

    async def _side(self, canary: CanaryTenant) -> CanarySide:
        """Return a side with a valid key and all its data. Raises AioRpcError."""
        side = self._sides.get(canary)
        if side is None or time.monotonic() >= side.expire_seconds - _KEY_MARGIN_SECONDS:
            side = self._sides[canary] = await self._create_side(canary)
        if not side.has_data:
            await SyntheticDataWriter(side.gateway, side.data).write()
            side.has_data = self._has_had_data = True
        return side

    async def _create_side(self, canary: CanaryTenant) -> CanarySide:
        request = auth_pb2.CreateApiKeyRequest(
            display_name=f"canary {canary.secret}", permissions=sorted(ROLE_PERMISSIONS["admin"])
        )
        request.expire_time.FromDatetime(datetime.now(UTC) + _KEY_LIFETIME)
        expire_seconds = time.monotonic() + _KEY_LIFETIME.total_seconds()
        async with self._system.as_system(tenant_id=str(canary.tenant_id), seconds=_CALL_SECONDS):
            response = await self._auth.CreateApiKey(request)
        gateway = GatewayClient(self._gateway, response.secret)
        if canary.space:
            secret, space_id = await create_space_key(gateway, canary, request.expire_time)
            data = SyntheticData(canary=canary, api_key=secret, ids={"space": space_id})
            return CanarySide(gateway=GatewayClient(self._gateway, secret), data=data, expire_seconds=expire_seconds)
        data = SyntheticData(canary=canary, api_key=response.secret)
        data.ids |= {
            "tenant": str(canary.tenant_id),
            "member": str(canary.account_id),
            "api_key": response.api_key.api_key_id,
        }
        return CanarySide(gateway=gateway, data=data, expire_seconds=expire_seconds)

    def _retry_seconds(self, error: aio.AioRpcError) -> float:
        """Return the seconds until the next attempt; an error of a starting cluster is no failure."""
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            # A caller has revoked the key, or an older backup was restored.
            self._sides.clear()
        if not self._has_had_data and time.monotonic() - self._start_seconds < self._seconds:
            return min(_START_SECONDS, self._seconds)
        OUTCOMES.labels(FAILED).inc()
        log.warning("canary_not_ready", code=error.code().name)
        return self._seconds

    async def _run_probe(self, probe: Probe, own: CanarySide, other: CanarySide) -> str:
        """Run a probe from one side; return and count its outcome."""
        try:
            if probe.request_for_both is not None:
                request = probe.request_for_both(own.data, other.data)
                outcome = await _probe_both(probe, request, own, other.data)
            else:
                outcome = await _probe_each(probe, own, other.data)
        except aio.AioRpcError as error:
            log.warning("canary_probe_failed", method=probe.method, code=error.code().name)
            outcome = FAILED
        OUTCOMES.labels(outcome).inc()
        if outcome == LEAKED:
            # At once, because the round may be stopped before its report.
            LEAKS.labels(probe.method).set(1)
            log.error("canary_leak", method=probe.method)
            self._drop_leaks_later()
        return outcome

    def _report(self, outcomes: dict[str, str]) -> None:
        for method, outcome in outcomes.items():
            LEAKS.labels(method).set(int(outcome == LEAKED))
        failed_methods = sorted(method for method, outcome in outcomes.items() if outcome == FAILED)
        if failed_methods:
            log.warning("canary_failed", methods=failed_methods)
            # Rows may be missing: write them again before the next round.
            for side in self._sides.values():
                side.has_data = False
        LAST_ROUND.set_to_current_time()
        self._drop_leaks_later()

    def _drop_leaks_later(self) -> None:
        if self._drop_timer is not None:
            self._drop_timer.cancel()
        loop = asyncio.get_running_loop()
        self._drop_timer = loop.call_later(_MAX_MISSED_ROUNDS * self._seconds, LEAKS.clear)


async def _probe_both(probe: Probe, request: Message, own: CanarySide, other: SyntheticData) -> str:
    """Call with a request for the data of both sides; only the caller's own may be in the response."""
    request_bytes = request.SerializeToString()
    response = (await own.gateway.call(probe.path, request)).SerializeToString()
    if _contains(response, other, request_bytes):
        return LEAKED
    return ISOLATED if probe.has_no_marks or _contains(response, own.data, request_bytes) else FAILED


async def _probe_each(probe: Probe, own: CanarySide, other: SyntheticData) -> str:
    """Call for the other side's data, which must be missing, and for the caller's own, which must not."""
    assert probe.request_for is not None  # noqa: S101 - a probe has one of the two builders.
    request = probe.request_for(other)
    try:
        response = (await own.gateway.call(probe.path, request)).SerializeToString()
    except aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
    else:
        if _contains(response, other, request.SerializeToString()) or (probe.has_no_marks and response):
            return LEAKED
    request = probe.request_for(own.data)
    response = (await own.gateway.call(probe.path, request)).SerializeToString()
    return ISOLATED if probe.has_no_marks or _contains(response, own.data, request.SerializeToString()) else FAILED


def _contains(response: bytes, data: SyntheticData, request: bytes) -> bool:
    """Return whether a response contains data of a tenant that was not in the request."""
    return any(mark in response for mark in data.marks(request))


async def create_space_key(admin: GatewayClient, canary: CanaryTenant, expire_time: Timestamp) -> tuple[str, str]:
    """Create the space and its grant if they are missing, and a key; return its secret and the space's id.

    The key sees this one space of the third tenant and nothing else: its agent is bound to the space.

    Raises AioRpcError.
    """
    spaces = (await admin.call(f"{TENANCY}ListSpaces", spaces_pb2.ListSpacesRequest())).spaces
    space = next((one for one in spaces if one.display_name == canary.slug), None)
    if space is None:
        create_request = spaces_pb2.CreateSpaceRequest(space=spaces_pb2.Space(display_name=canary.slug))
        space = (await admin.call(f"{TENANCY}CreateSpace", create_request)).space
    # A new grant for each key would leave a row each.
    grants_request = spaces_pb2.ListSpaceGrantsRequest(space_id=space.space_id)
    if not (await admin.call(f"{TENANCY}ListSpaceGrants", grants_request)).grants:
        grant = spaces_pb2.SpaceGrant(
            space_id=space.space_id, principal=f"agent:{canary.slug}", role=spaces_pb2.SPACE_ROLE_WRITER
        )
        await admin.call(f"{TENANCY}GrantSpace", spaces_pb2.GrantSpaceRequest(grant=grant, bind=True))
    key_request = auth_pb2.CreateApiKeyRequest(
        display_name=canary.slug,
        permissions=sorted(AGENT_PERMISSIONS | {"spaces.read"}),
        agent_id=canary.slug,
        expire_time=expire_time,
    )
    secret: str = (await admin.call(f"{AUTH}CreateApiKey", key_request)).secret
    return secret, str(space.space_id)
