"""Being asked to stop: the first SIGINT or SIGTERM asks, the second one insists."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _report_second_signal(name: str) -> None:
    click.echo(f"Ended at once by a second {name}: what was under way was cut off.", err=True)


class StopSignal:
    """Whether this process was asked to stop."""

    def __init__(self, task: asyncio.Task[object], on_second_signal: Callable[[str], object]) -> None:
        """Cancel `task` when the wish comes before anybody waits for it."""
        self._task = task
        self._report_second_signal = on_second_signal
        self._event = asyncio.Event()
        self._is_awaited = False

    @classmethod
    @contextmanager
    def on_signals(cls, on_second_signal: Callable[[str], object] = _report_second_signal) -> Iterator[Self]:
        """Listen to signals while the block runs; a stop during its start ends the block quietly.

        `last_words` is told the name of the second signal, which ends the process there and then.
        """
        task: asyncio.Task[object] | None = asyncio.current_task()
        if task is None:
            message = "only a task can be stopped"
            raise RuntimeError(message)
        stop_signal = cls(task, on_second_signal)
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, stop_signal.set, number)
        try:
            yield stop_signal
        except asyncio.CancelledError:
            if not stop_signal.is_set:
                raise
            task.uncancel()
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    @property
    def is_set(self) -> bool:
        """Say whether the wish has come."""
        return self._event.is_set()

    def set(self, number: int = signal.SIGTERM) -> None:
        """Take a signal."""
        if self.is_set:
            try:
                self._report_second_signal(signal.Signals(number).name)
            finally:
                # Every process that we started ends with us: the kernel sees to it.
                os._exit(128 + number)
        self._event.set()
        if not self._is_awaited:
            self._task.cancel()

    async def wait(self) -> None:
        """Return when the process is asked to stop."""
        self._is_awaited = True
        await self._event.wait()
