"""The scalar values of profiles and preferences, as they are looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.filters import json_properties
from skein_kit.filters.json_properties import MAX_PATH_CHARACTERS, MAX_PROPERTIES, Property, parse_matches

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MAX_PATH_CHARACTERS", "MAX_PROPERTIES", "Property", "parse_matches", "properties_of"]


def properties_of(objects: Mapping[str, str | None]) -> frozenset[Property]:
    """Return the properties of a subject's objects. Raises FieldInvalid when there are too many."""
    return json_properties.extract_properties(objects, owner="subject")
