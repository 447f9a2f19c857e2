"""Checks of requests, and the field that an error is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from skein_kit.errors import RevisionStale, RpcError, TextNotStorable

# An escaped NUL in JSON text, not an escaped backslash before "u0000".
_JSON_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def check_storable(texts: Iterable[tuple[str, str | None]], json: Iterable[tuple[str, str | None]]) -> None:
    """Reject NUL characters, which Postgres cannot store, in fields of plain and of JSON text."""
    for field, text in texts:
        if text is not None and "\0" in text:
            raise TextNotStorable(violations=[(field, "holds a NUL character")])
    for field, text in json:
        if text is not None and _JSON_NUL.search(text):
            raise TextNotStorable(violations=[(field, "holds a NUL character")])


def check_revision(expected: int, current: int) -> None:
    """Reject a revision that is not the current one; 0 matches any revision. Raises RevisionStale."""
    if expected and expected != current:
        raise RevisionStale(requested=expected, current=current)


@contextmanager
def prefix_field_paths(path: str, *, index: int | None = None) -> Iterator[None]:
    """Prefix the fields of errors with the path of their message in the request."""
    try:
        yield
    except RpcError as error:
        violations = [(f"{path}.{field}", description) for field, description in error.violations]
        raise type(error)(violations=violations, index=index, **error.metadata) from None


@dataclass(frozen=True, slots=True)
class ItemPaths:
    """Where the items of a request are: `memories[2]` of a batch, or `memory`."""

    name: str
    is_batch: bool

    def path(self, index: int) -> str:
        """Return the path of an item."""
        return f"{self.name}[{index}]" if self.is_batch else self.name

    def prefix(self, index: int) -> AbstractContextManager[None]:
        """Prefix the fields of errors with the path of an item; of a batch, errors have its "index" too."""
        return prefix_field_paths(self.path(index), index=index if self.is_batch else None)


MEMORY, MEMORIES = ItemPaths("memory", is_batch=False), ItemPaths("memories", is_batch=True)
