"""Enums of protobuf as names in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping


# Names as the database has them, by number; an unspecified one has none.
SCOPES: Mapping[int, str] = {
    value: name.removeprefix("SCOPE_").lower() for name, value in pb.Scope.items() if value != pb.SCOPE_UNSPECIFIED
}

LEVELS: Mapping[int, str] = {
    value: name.removeprefix("LEVEL_").lower() for name, value in pb.Level.items() if value != pb.LEVEL_UNSPECIFIED
}
