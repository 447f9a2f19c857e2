"""The retry delay of a job as a protobuf duration."""

from __future__ import annotations

from datetime import timedelta

from google.protobuf.duration_pb2 import Duration


def retry_delay(seconds: float) -> Duration | None:
    """Convert seconds; None for 0, which leaves the field unset."""
    if not seconds:
        return None
    result = Duration()
    result.FromTimedelta(timedelta(seconds=seconds))
    return result
