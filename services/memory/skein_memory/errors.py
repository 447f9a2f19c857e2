"""What the memory service refuses, beyond the refusals that every service knows."""

from __future__ import annotations

from skein_kit.errors import AlreadyExists, InvalidArgument, NotFound


class MemoryNotFound(NotFound):
    """No such memory is visible to the caller."""

    reason = "MEMORY_NOT_FOUND"


class LinkNotFound(NotFound):
    """No such link is visible to the caller."""

    reason = "LINK_NOT_FOUND"


class FactKeyTaken(AlreadyExists):
    """Another fact of the tenant holds this key."""

    reason = "FACT_KEY_TAKEN"


class LinkExists(AlreadyExists):
    """The two memories are linked by this relation already."""

    reason = "LINK_EXISTS"


class LinkToItself(InvalidArgument):
    """A memory cannot be linked to itself."""

    reason = "LINK_TO_ITSELF"
