"""Endless work survives unexpected errors, and unawaited failures are logged without their words."""

from __future__ import annotations

import asyncio
import gc
import io
import json

import pytest

from skein_kit import background

SECRET = "the dentist is on Tuesday"


async def fail() -> None:
    raise ValueError(SECRET)


async def test_endless_work_goes_on_after_any_exception_and_after_an_early_end(log: io.StringIO) -> None:
    turns = 0
    done = asyncio.Event()

    async def work() -> None:
        nonlocal turns
        turns += 1
        if turns == 1:
            await fail()
        if turns > 2:
            done.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(background.run_forever(work, name="counting", first_pause=0.0))
    async with asyncio.timeout(5):
        await done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    # Other work of this process may say something as well.
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["event"] for line in lines if line.get("work") == "counting"] == [
        "background_work_failed",
        "background_work_ended",
    ]
    assert SECRET not in log.getvalue()
    assert task.cancelled()


@pytest.mark.system
async def test_pauses_between_failures_grow_up_to_a_limit(log: io.StringIO) -> None:
    failures = 0
    done = asyncio.Event()

    async def work() -> None:
        nonlocal failures
        failures += 1
        if failures > 4:
            done.set()
        await fail()

    task = asyncio.create_task(background.run_forever(work, name="failing", first_pause=0.1, max_pause=0.4))
    async with asyncio.timeout(60):
        await done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    payloads = [json.loads(line) for line in log.getvalue().splitlines()]
    # Others in this process may have something to say too.
    pauses = [line["pause_seconds"] for line in payloads if line.get("work") == "failing"]
    # Work that lasts longer than the longest pause begins with the first one: these are long for a failure.
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.4]


async def test_work_alongside_ends_with_its_block() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with background.background_tasks(waiting=work):
        await begun.wait()

    assert ended.is_set()


@pytest.mark.system
async def test_an_unawaited_failure_is_logged_without_its_words(
    log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    with background.log_unhandled_exceptions():
        task: asyncio.Task[None] | None = asyncio.create_task(fail())
        await asyncio.sleep(0)
        task = None
        gc.collect()
        loop.call_soon(int, SECRET)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["event"], line["what"], line["work"]) for line in lines] == [
        ("background_error", "Task exception was", "fail"),
        ("background_error", "Exception in callback", ""),
    ]
    assert lines[0]["exception"][0]["exc_type"] == "ValueError"
    assert SECRET not in log.getvalue() + "".join(capsys.readouterr())
    assert task is None
    assert loop.get_exception_handler() is before
