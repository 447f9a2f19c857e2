"""Sends the calls that the gateway refused to memory, which adds them to the access log of their callers' tenants."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from grpc import aio

from skein.memory.v1 import access_log_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc
from skein_kit.access_log.refusals import MAX_REQUEST_BYTES, Refusal
from skein_kit.access_log.writer import DROPPED
from skein_kit.calls.call import AUTHORIZATION_KEY
from skein_kit.errors import RpcError
from skein_kit.rpc.well_known_types import to_timestamp
from skein_kit.telemetry import logs

_BATCH_SIZE = 200
_CALL_SECONDS = 5.0

log = logs.get("gateway")
_lost = DROPPED.labels("gateway")


class RefusalSender:
    """Sends refused calls, each batch with the identity of its caller."""

    def __init__(self, memory: memory_pb2_grpc.MemoryInternalServiceAsyncStub) -> None:
        self._memory = memory

    async def send(self, refusals: Sequence[Refusal]) -> None:
        """Send refused calls. What memory does not take is lost, and counted."""
        callers: dict[tuple[UUID | None, str, str], list[Refusal]] = {}
        for refusal in refusals:
            caller = refusal.call.caller
            if caller is not None:
                callers.setdefault((caller.tenant_id, caller.principal, caller.agent_id), []).append(refusal)
        for of_caller in callers.values():
            for start in range(0, len(of_caller), _BATCH_SIZE):
                await self._send_batch(of_caller[start : start + _BATCH_SIZE])

    async def _send_batch(self, refusals: Sequence[Refusal]) -> None:
        # The newest token is valid for longest.
        token = refusals[-1].call.identity_token
        try:
            await self._memory.RecordRefusedCalls(
                pb.RecordRefusedCallsRequest(calls=[_message(refusal) for refusal in refusals]),
                timeout=_CALL_SECONDS,
                metadata=((AUTHORIZATION_KEY, f"Bearer {token}"),),
            )
        except (RpcError, aio.AioRpcError) as error:
            count_lost(sum(refusal.count for refusal in refusals))
            log.warning("refused_calls_not_recorded", count=len(refusals), error=type(error).__name__)


def count_lost(count: int) -> None:
    """Count refused calls that the access log does not have."""
    _lost.inc(count)


def _message(refusal: Refusal) -> pb.RefusedCall:
    call = refusal.call
    request = b"" if refusal.request is None else refusal.request.SerializeToString()
    return pb.RefusedCall(
        path=call.path,
        error_code=refusal.error_code,
        error_reason=refusal.error_reason,
        request=request if len(request) <= MAX_REQUEST_BYTES else b"",
        call_request_id=call.request_id,
        client_address=call.client_address,
        claimed_agent_id=call.claimed_agent_id,
        claimed_session_id=call.claimed_session_id,
        create_time=to_timestamp(refusal.at),
        call_count=refusal.count,
    )
