"""Ids and tags of LangGraph's items in Skein: an external id, and a tag for each enclosing namespace.

The labels of a namespace hold no period and are not empty, so "users.anna" is a path and ".." ends one. Labels and keys
are taken in the form in which Skein stores names: every form of Unicode of them means the same item.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from skein_client.plain_names import plain_name

Namespace = tuple[str, ...]
# Longest id or tag.
_MAX_CHARACTERS = 255
# A memory has at most 100 tags: one per level of the namespace, and two more.
MAX_DEPTH = 90
_ROOT = re.compile(r"[a-z][a-z0-9_]{0,31}")
# Suffixes of a root in tags and ids, with which no root may end.
_TAKEN = ("_in", "_namespace", "_namespaces")


@dataclass(frozen=True, slots=True)
class StoreRoot:
    """The name that separates one store's memories from others in the tenant."""

    name: str

    def __post_init__(self) -> None:
        """Raise ValueError for an ambiguous name."""
        if not _ROOT.fullmatch(self.name):
            raise ValueError(
                f"a store's root is a lower-case word of letters, digits and _, up to 32, not {self.name!r}"
            )
        if self.name.endswith(_TAKEN):
            raise ValueError(
                f"a store's root does not end in {', '.join(_TAKEN)}, as {self.name!r} does: other roots' tags do"
            )

    def item_id(self, namespace: Namespace, key: str) -> str:
        """Return the external id of an item."""
        return _shorten(f"{self.name}:", f"{_path(namespace)}..{plain_name(key)}")

    def namespace_id(self, namespace: Namespace) -> str:
        """Return the external id of the memory that registers a namespace."""
        return _shorten(f"{self.name}_namespace:", _path(namespace))

    def prefix_tag(self, prefix: Sequence[str]) -> str:
        """Return the tag of all items in a namespace and below it."""
        return _shorten(f"{self.name}:", _path(prefix)) if prefix else self.name

    def own_tag(self, namespace: Namespace) -> str:
        """Return the tag of the items directly in a namespace."""
        return _shorten(f"{self.name}_in:", _path(namespace))

    def registry_tag(self, prefix: Sequence[str]) -> str:
        """Return the tag of the memories that register namespaces below a prefix."""
        name = f"{self.name}_namespaces"
        return _shorten(f"{name}:", _path(prefix)) if prefix else name

    def item_tags(self, namespace: Namespace) -> list[str]:
        """Return the tags of an item. Raises ValueError for a namespace that is too deep."""
        _require_length(namespace)
        return [*(self.prefix_tag(namespace[:depth]) for depth in range(len(namespace) + 1)), self.own_tag(namespace)]

    def registry_tags(self, namespace: Namespace) -> list[str]:
        """Return the tags of the memory that registers a namespace."""
        _require_length(namespace)
        return [self.registry_tag(namespace[:depth]) for depth in range(len(namespace) + 1)]


def _path(labels: Sequence[str]) -> str:
    """Return the path of labels. Raises ValueError for one that is another path in the form of names."""
    plain = [plain_name(label) for label in labels]
    for label, name in zip(labels, plain, strict=True):
        if "." in name or not name.strip():
            raise ValueError(f"a label of a namespace holds no period in any form, and is not blank: {label!r}")
    return ".".join(plain)


def _shorten(start: str, path: str) -> str:
    """Return a path, or its digest when it is too long; no path begins with two periods."""
    whole = f"{start}{path}"
    if len(whole) <= _MAX_CHARACTERS:
        return whole
    return f"{start}..{hashlib.sha256(path.encode()).hexdigest()}"


def _require_length(namespace: Namespace) -> None:
    if len(namespace) > MAX_DEPTH:
        raise ValueError(f"a namespace has up to {MAX_DEPTH} labels here, not {len(namespace)}")
