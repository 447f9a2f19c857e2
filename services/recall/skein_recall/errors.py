"""What the recall service refuses, beyond the refusals that every service knows."""

from __future__ import annotations

from skein_kit.errors import AlreadyExists, InvalidArgument, NotFound


class QueryEmpty(InvalidArgument):
    """Recall needs a text or a vector to look for."""

    reason = "QUERY_EMPTY"


class DimensionsMismatch(InvalidArgument):
    """The vector does not have the dimensions of the active model."""

    reason = "DIMENSIONS_MISMATCH"


class ModelNotFound(NotFound):
    """No such embedding model is registered, or none that this cluster can embed with is active."""

    reason = "MODEL_NOT_FOUND"


class ModelExists(AlreadyExists):
    """An embedding model of this name, or of one that differs in punctuation only, is registered already."""

    reason = "MODEL_EXISTS"
