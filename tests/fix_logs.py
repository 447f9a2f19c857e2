"""What the process under test logs, and the logging before it back again afterwards."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from skein_kit.telemetry import logs


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Every log line of the test, as JSON; whatever other tests configured counts again at its end."""
    text = io.StringIO()
    root = logging.getLogger()
    before = (structlog.get_config(), structlog.is_configured(), root.handlers, root.level)
    logs.configure("info", text)
    yield text
    config, configured, root.handlers, level = before
    root.setLevel(level)
    if configured:
        structlog.configure(**config)
    else:
        structlog.reset_defaults()
