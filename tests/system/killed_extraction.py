"""A worker's extraction in a process of its own that kills itself at one moment: between two calls, or after one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from fix_extraction import job_of

_moments = 0


class KilledStub:
    """A stub; each call begins with a moment and ends with another."""

    def __init__(self, stub: Any, moment: int) -> None:
        self._stub = stub
        self._moment = moment

    def __getattr__(self, name: str) -> Any:
        async def call(request: Any) -> Any:
            self._pass_moment()
            response = await getattr(self._stub, name)(request)
            self._pass_moment()
            return response

        return call

    def _pass_moment(self) -> None:
        global _moments  # noqa: PLW0603 - Of this process.
        _moments += 1
        if _moments == self._moment:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(values: dict[str, str], addresses: dict[str, str], tenant_id: str, moment: int) -> None:
    """Read all messages that are due, until the moment."""
    job = job_of(values, addresses, lambda stub: KilledStub(stub, moment))
    while await job.extract_session(tenant_id):
        pass


if __name__ == "__main__":
    asyncio.run(main(**json.load(sys.stdin)))
