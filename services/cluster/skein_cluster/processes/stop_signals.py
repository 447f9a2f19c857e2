"""Stop signals: the first SIGINT or SIGTERM stops in order, the second one at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import click

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _report_second_signal(name: str) -> None:
    click.echo(f"Ended at once by a second {name}; running calls were cut off.", err=True)


class StopSignal:
    """An event that SIGINT and SIGTERM set."""

    def __init__(self, task: asyncio.Task[object], on_second_signal: Callable[[str], object]) -> None:
        """Cancel `task` when the signal comes before `wait` is called."""
        self._task = task
        self._report_second_signal = on_second_signal
        self._event = asyncio.Event()
        self._is_awaited = False

    @classmethod
    @contextmanager
    def on_signals(cls, on_second_signal: Callable[[str], object] = _report_second_signal) -> Iterator[Self]:
        """Handle signals while the block runs; a signal before `wait` ends the block quietly.

        `on_second_signal` gets the name of the second signal, which ends the process at once.
        """
        task: asyncio.Task[object] | None = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be stopped")
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
        """Tell whether a signal was received."""
        return self._event.is_set()

    def set(self, number: int = signal.SIGTERM) -> None:
        """Handle a signal."""
        if self.is_set:
            try:
                self._report_second_signal(signal.Signals(number).name)
            finally:
                # The kernel ends our child processes with us.
                os._exit(128 + number)
        self._event.set()
        if not self._is_awaited:
            self._task.cancel()

    async def wait(self) -> None:
        """Return when a signal has come."""
        self._is_awaited = True
        await self._event.wait()
