"""Refusals of the gateway."""

from __future__ import annotations

import grpc

from skein_kit import errors


class RecallIncomplete(errors.Unavailable):
    """Not everything that was asked answered: {arms}. Ask again, or take what there is."""

    reason = "RECALL_INCOMPLETE"


class RecallLate(errors.Refusal):
    """Not everything that was asked answered in time: {arms}. Ask again with more time, or take what there is."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED
    reason = "RECALL_LATE"
