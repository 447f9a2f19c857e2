"""`python tests/bench/turning.py`: prints what admission control costs a call while there is room.

One call after the other through all interceptors, with admission and without, in turns; the handler does nothing.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

# The folder of the tests, so that what lies in this one has a name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import uvloop
from bench import report

from skein_kit.admission.overload import AdmissionControl
from skein_kit.calls.call import Call
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ROLE_PERMISSIONS
from skein_kit.rpc.interceptors import InterceptorChain, Method
from skein_kit.rpc.streaming import StreamLimiter
from skein_kit.settings import ProcessSettings

if TYPE_CHECKING:
    from skein_kit.rpc.interceptors import Handler

GOAL_MICROSECONDS = 20.0
_PATH = "/skein.memory.v1.MemoryService/GetMemory"
_CALLS = 5_000
_ROUNDS = 15


@click.command()
def main() -> None:
    """Print the processor time of a call with admission and without, in microseconds."""
    uvloop.run(_bench())


async def _bench() -> None:
    caller = Caller(tenant_id=uuid.uuid4(), principal="bench", permissions=ROLE_PERMISSIONS["member"])

    async def identify(_call: Call) -> Caller:
        return caller

    async def handler(request: Any, _call: Call) -> Any:
        return request

    method = Method(path=_PATH, handler=handler, deserializer=None, serializer=None)
    overload = AdmissionControl("bench", ProcessSettings(), is_edge=True)

    def behind(turns: AdmissionControl | None) -> Handler:
        return InterceptorChain(
            identify=identify,
            streams=StreamLimiter(reidentify=identify),
            default_deadline=30.0,
            max_deadline=300.0,
            overload=turns,
        ).wrap(method)

    without, with_turns = behind(None), behind(overload)
    pairs = [(await _microseconds(without), await _microseconds(with_turns)) for _ in range(_ROUNDS)]
    base, whole = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    cost = median(pair[1] - pair[0] for pair in pairs)
    met = "met" if cost < GOAL_MICROSECONDS else "missed"
    report.console().print(
        f"All interceptors {base:.1f} µs a call, with admission {whole:.1f} µs: it costs {cost:.1f} µs "
        f"(goal < {GOAL_MICROSECONDS:g} µs: {met})"
    )


async def _microseconds(handler: Handler) -> float:
    """Return the processor time of one call."""
    deadline = asyncio.get_running_loop().time() + 3600
    started = time.process_time()
    for _ in range(_CALLS):
        await handler(b"", Call(path=_PATH, metadata={}, deadline=deadline, peer="ipv4:192.0.2.1:1"))
    return (time.process_time() - started) / _CALLS * 1e6


if __name__ == "__main__":
    main()
