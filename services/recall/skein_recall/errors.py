"""What the recall service refuses, beyond the refusals that every service knows."""

from __future__ import annotations

from skein_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Unavailable


class QueryEmpty(InvalidArgument):
    """Recall needs a text or a vector to look for."""

    reason = "QUERY_EMPTY"


class ModelNotFound(NotFound):
    """No such embedding model is registered, or none that this cluster can embed with is active."""

    reason = "MODEL_NOT_FOUND"


class ModelExists(AlreadyExists):
    """An embedding model of this name, or of one that differs in punctuation only, is registered already."""

    reason = "MODEL_EXISTS"


class ModelActive(FailedPrecondition):
    """The model is in force; put another one in force first."""

    reason = "MODEL_IN_FORCE"


class ModelInUse(FailedPrecondition):
    """A reindex of the model stands, or some process may still believe that it is in force: cancel it, or wait."""

    reason = "MODEL_IN_USE"


class VectorsMissing(FailedPrecondition):
    """Items have no vectors of the model, or it is not known whether all have: reindex first, or force it."""

    reason = "VECTORS_MISSING"


class ReindexNotFound(NotFound):
    """No such reindex."""

    reason = "REINDEX_NOT_FOUND"


class DocumentNotFound(NotFound):
    """No such memory or message can be recalled."""

    reason = "DOCUMENT_NOT_FOUND"


class ModelUnavailable(Unavailable):
    """The model's endpoint does not answer; try again soon."""

    reason = "MODEL_UNAVAILABLE"

    def __init__(self, *, model: str, why: str, seconds: float = 0.0, passing: bool = False) -> None:
        """Say whether another attempt makes sense (`passing`), and how many `seconds` later it is wished for."""
        super().__init__(model=model, why=why)
        self.seconds = seconds
        self.passing = passing


class ModelResponseInvalid(FailedPrecondition):
    """The model's endpoint answers with something other than the vectors that it was registered for."""

    reason = "MODEL_ANSWER_INVALID"
