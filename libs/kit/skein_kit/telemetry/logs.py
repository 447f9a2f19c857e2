"""JSON logs: an event and its facts, with request id, trace id and tenant bound. Never content, never a secret."""

from __future__ import annotations

import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any, Generic, TextIO, TypeVar

import asyncpg
import structlog
from opentelemetry import trace

from skein_kit.calls.call import current_call

# Without the values of local variables, which contain requests and keys.
_TRACEBACK = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
K = TypeVar("K", bound="Hashable")


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send every log line of the process to a stream, by default stderr, as one JSON object."""
    stream = stream or sys.stderr
    number = _LEVELS.get(level.lower(), logging.INFO)
    shared_processors: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        _call,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _trace_id,
        structlog.processors.ExceptionRenderer(_traceback),
    ]
    structlog.configure(
        processors=[*shared_processors, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared_processors,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    # Of libraries only warnings and errors.
    root.setLevel(max(number, logging.WARNING))


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of a service."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(service=name)
    return logger


def _call(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the method and the ids of the current call."""
    call = current_call()
    return event if call is None else {"method": call.path, **call.log_fields(), **event}


def _trace_id(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        event["trace_id"] = f"{span.trace_id:032x}"
    return event


def _traceback(exc_info: structlog.typing.ExcInfo) -> list[dict[str, Any]]:
    """Return the stack and the class of an error.

    Messages of libraries are left out, because they quote values: Postgres the failing row, a parser its input.
    """
    stacks = _TRACEBACK(exc_info)
    _mask(stacks, exc_info[1])
    return stacks


def _mask(stacks: list[dict[str, Any]], error: BaseException | None) -> None:
    for stack in stacks:
        stack["exc_value"] = _message(error)
        stack.pop("exc_notes", None)
        if isinstance(error, BaseExceptionGroup):
            for inner, inner_error in zip(stack["exceptions"], error.exceptions, strict=True):
                _mask(inner, inner_error)
        error = (error.__cause__ or (None if error.__suppress_context__ else error.__context__)) if error else None


def _message(error: BaseException | None) -> str:
    if isinstance(error, asyncpg.PostgresError):
        return " ".join(str(fact) for fact in (error.sqlstate, error.table_name, error.constraint_name) if fact)
    if isinstance(error, OSError):
        return error.strerror or ""
    return str(error) if type(error).__module__.startswith("skein_") else ""


class LogThrottle(Generic[K]):
    """Allows one line of each kind per `seconds`, for at most `max_kinds` kinds; it suppresses further kinds."""

    def __init__(self, seconds: float, *, max_kinds: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._max_kinds = max_kinds
        self._clock = clock
        # Oldest first.
        self._report_times: OrderedDict[K, float] = OrderedDict()

    def is_first(self, kind: K) -> bool:
        """Return whether to log this line, and remember its kind."""
        at = self._clock()
        while self._report_times and next(iter(self._report_times.values())) + self._seconds <= at:
            self._report_times.popitem(last=False)
        if kind in self._report_times or len(self._report_times) >= self._max_kinds:
            return False
        self._report_times[kind] = at
        return True
