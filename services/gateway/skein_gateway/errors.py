"""Refusals of the gateway."""

from __future__ import annotations

import grpc

from skein_kit import errors


class RecallIncomplete(errors.Unavailable):
    """Not everything that was asked answered: {arms}. Ask again, or take what there is."""

    reason = "RECALL_INCOMPLETE"


class JsonMethodUnknown(errors.MethodNotFound):
    """No such method; GET / with accept: application/json lists all, GET /openapi.json describes them."""


class OAuthMethodHasHttpEndpoint(errors.MethodNotFound):
    """OAuthService answers at OAuth's own endpoints: {endpoint}; GET {metadata} lists the others."""


class RecallTimedOut(errors.RpcError):
    """Not everything that was asked answered in time: {arms}. Ask again with more time, or take what there is."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED
    reason = "RECALL_LATE"
