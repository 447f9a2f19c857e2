"""Catalogues: one test goes over all items of a kind (queries, RPCs, files) and names every item that fails."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

# What pytest.raises and pytest.fail raise is no Exception.
_FAILURES = (Exception, pytest.fail.Exception)


def over(
    argument: str | tuple[str, ...], items: Iterable[Any], *, name: Callable[[Any], str] = str, at_once: int = 1
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Turn a test of one item, which it takes by this argument, into one test of all of them.

    With several arguments an item is a tuple of their values.
    Fixtures are set up once for all items. Of an asynchronous test so many items run at a time. No items at all are
    an error: such a test could not fail.
    """
    arguments = (argument,) if isinstance(argument, str) else argument
    every = list(items)
    if not every:
        message = f"There is nothing to go over by {argument!r}."
        raise ValueError(message)

    def values(item: Any) -> dict[str, Any]:
        return {argument: item} if isinstance(argument, str) else dict(zip(argument, item, strict=True))

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        def loop(**fixtures: Any) -> None:
            failures: dict[str, BaseException] = {}
            for item in every:
                try:
                    test(**fixtures, **values(item))
                except _FAILURES as failure:
                    failures[name(item)] = failure
            _report(failures, len(every))

        async def async_loop(**fixtures: Any) -> None:
            failures: dict[str, BaseException] = {}
            turns = asyncio.Semaphore(at_once)

            async def one(item: Any) -> None:
                async with turns:
                    try:
                        await test(**fixtures, **values(item))
                    except _FAILURES as failure:
                        failures[name(item)] = failure

            await asyncio.gather(*map(one, every))
            _report(failures, len(every))

        whole: Any = functools.wraps(test)(async_loop if inspect.iscoroutinefunction(test) else loop)
        signature = inspect.signature(test)
        whole.__signature__ = signature.replace(
            parameters=[value for key, value in signature.parameters.items() if key not in arguments]
        )
        del whole.__wrapped__
        return whole  # type: ignore[no-any-return]  # A function, with a signature of its own.

    return decorate


def _report(failures: dict[str, BaseException], count: int) -> None:
    """Name each item that failed, with why; the first failure is shown with where it comes from."""
    if not failures:
        return
    lines = [f"{item[:300]}: {type(failure).__name__}: {str(failure)[:600]}" for item, failure in failures.items()]
    message = "\n".join([f"{len(failures)} of {count} fail:", *lines])
    raise AssertionError(message) from next(iter(failures.values()))
