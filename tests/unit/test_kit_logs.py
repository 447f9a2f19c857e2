from __future__ import annotations

import io
import json

import asyncpg
import pytest
import structlog

from skein_kit.telemetry import logs

SECRET = "the dentist is on Tuesday"


def fail(kind: type[Exception]) -> None:
    secret = SECRET
    raise kind(secret)


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, asyncpg.UniqueViolationError, asyncpg.DataError])
def test_a_logged_fault_tells_kind_and_place_but_quotes_nothing(log: io.StringIO, kind: type[Exception]) -> None:
    try:
        try:
            fail(kind)
        except Exception as error:
            message = f"while handling {SECRET}"
            raise LookupError(message) from error
    except LookupError:
        logs.get("memory").exception("fault")

    line = json.loads(log.getvalue())
    assert SECRET not in log.getvalue()
    assert [stack["exc_type"] for stack in line["exception"]] == ["LookupError", kind.__name__]
    assert "test_kit_logs.py" in line["exception"][1]["frames"][-1]["filename"]


def test_the_errors_of_a_group_are_quoted_as_little_as_any_other(log: io.StringIO) -> None:
    group = ExceptionGroup("of tasks", [ValueError(SECRET), ExceptionGroup("of more", [LookupError(SECRET)])])

    logs.get("memory").error("fault", exc_info=group)

    line = json.loads(log.getvalue())
    assert SECRET not in log.getvalue()
    assert [stack["exc_type"] for (stack,) in line["exception"][0]["exceptions"]] == ["ValueError", "ExceptionGroup"]


def test_a_line_is_one_json_object_with_its_facts(log: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        logs.get("memory").info("created", count=2)

    line = json.loads(log.getvalue())
    assert (line["event"], line["service"], line["request_id"], line["count"]) == ("created", "memory", "r-1", 2)
