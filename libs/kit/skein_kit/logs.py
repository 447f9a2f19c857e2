"""JSON logs: an event and its facts, with request id, trace id and tenant bound. Never content, never a secret."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import structlog
from opentelemetry import trace

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any, TextIO

# Without the values of local variables, which hold requests and keys.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send every log line of the process to a stream, by default stderr, as one JSON object."""
    stream = stream or sys.stderr
    number = _LEVELS.get(level.lower(), logging.INFO)
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _trace_id,
        _TRACEBACKS,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    # Other people's libraries speak only when something is wrong.
    root.setLevel(max(number, logging.WARNING))


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of a service."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(service=name)
    return logger


def _trace_id(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        event["trace_id"] = f"{span.trace_id:032x}"
    return event
