"""A worker's extraction in a process of its own that kills itself at one moment: between two calls, or after one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from fix_extraction import jobs_of

from skein_kit.language_model.chat_client import ChatClient, Endpoint
from skein_worker.extraction.language_model import FactModel, Proposal

_moments = 0


def _pass_moment(moment: int) -> None:
    global _moments  # noqa: PLW0603 - Of this process.
    _moments += 1
    if _moments == moment:
        os.kill(os.getpid(), signal.SIGKILL)


class KilledStub:
    """A stub; each call begins with a moment and ends with another."""

    def __init__(self, stub: Any, moment: int) -> None:
        self._stub = stub
        self._moment = moment

    def __getattr__(self, name: str) -> Any:
        async def call(request: Any) -> Any:
            _pass_moment(self._moment)
            response = await getattr(self._stub, name)(request)
            _pass_moment(self._moment)
            return response

        return call


class KilledModel(FactModel):
    """A language model; each call begins with a moment and ends with another."""

    def __init__(self, url: str, moment: int) -> None:
        super().__init__(ChatClient(Endpoint(url=url, model="small", key="", seconds=20), service="worker"))
        self._moment = moment

    async def propose(self, text: str, **values: Any) -> tuple[list[Proposal], int]:
        _pass_moment(self._moment)
        answer = await super().propose(text, **values)
        _pass_moment(self._moment)
        return answer


async def main(values: dict[str, str], addresses: dict[str, str], tenant_id: str, moment: int, model: str = "") -> None:
    """Read all messages that are due, by the language model at a URL too, until the moment."""
    jobs = jobs_of(
        values,
        addresses,
        lambda stub: KilledStub(stub, moment),
        model=KilledModel(model, moment) if model else None,
    )
    await jobs.read_all(tenant_id)


if __name__ == "__main__":
    asyncio.run(main(**json.load(sys.stdin)))
