"""Errors of the gateway."""

from __future__ import annotations

import grpc

from skein_kit import errors


class RecallIncomplete(errors.Unavailable):
    """These branches did not respond: {branches}. Try again, or accept partial results with on_partial."""

    reason = "RECALL_INCOMPLETE"


class ReceiptWithoutContext(errors.FailedPrecondition):
    """The receipt is of an answer of Recall, or the context is not stored yet, which takes a second."""

    reason = "RECEIPT_WITHOUT_CONTEXT"


class ContextLedgerNotFound(errors.NotFound):
    """The caller has no such ledger, or it has expired: ask for a first text, with ledger_revision 0."""

    reason = "CONTEXT_LEDGER_NOT_FOUND"


class ContextLedgerChanged(errors.Aborted):
    """Another turn of the ledger came first: wait for its answer, or ask for a first text with ledger_revision 0."""

    reason = "CONTEXT_LEDGER_CHANGED"


class StreamNotSupported(errors.RpcError):
    """The method answers with a stream, which this port does not support in this form; call it over gRPC."""

    code = grpc.StatusCode.UNIMPLEMENTED
    reason = "STREAM_NOT_SUPPORTED"


class JsonMethodUnknown(errors.MethodNotFound):
    """Unknown method. GET / with accept: application/json lists all methods; GET /openapi.json describes them."""


class OAuthMethodHasHttpEndpoint(errors.MethodNotFound):
    """OAuthService is served at OAuth's endpoints: use {endpoint}; GET {metadata} lists the others."""


class RecallTimedOut(errors.RpcError):
    """These branches did not respond in time: {branches}. Allow more time, or accept a partial result by on_partial."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED
    reason = "RECALL_TIMED_OUT"
