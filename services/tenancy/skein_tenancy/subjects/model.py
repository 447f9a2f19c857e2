"""Subjects, their drafts and changes, and the properties that find them. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

import asyncpg

from skein_kit.filters import json_properties
from skein_kit.filters.json_properties import Property
from skein_kit.json_values import exact
from skein_kit.text.writers import Writers
from skein_tenancy.validation import check_time_zone

# Columns with JSON, whose scalar values are the subject's properties.
OBJECTS = ("profile", "preferences")
# Fields that state something, each with the principals that it has words of.
STATED_FIELDS = ("display_name", "timezone", *OBJECTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A person whom memories are about."""

    subject_id: str
    display_name: str
    status: str
    # Empty: the tenant's.
    timezone: str
    # JSON texts.
    profile: str | None
    preferences: str | None
    account_id: UUID | None
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    updated_by: str
    # None: not deleted.
    delete_time: datetime | None
    # By field; the trust follows from their ratings. None: none is rated, or it was not read.
    writers: Writers
    trust: float | None = None
    # In lists: where it lies.
    space_id: UUID | None = None

    @classmethod
    def of_row(cls, row: asyncpg.Record) -> Self:
        """Read a row with all columns."""
        return cls(**dict(row) | {"writers": Writers.read(row["writers"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class SubjectFilter:
    """The conditions of a list of subjects."""

    # A subject needs all of these.
    properties: Sequence[Property]
    # None: any.
    status: str | None
    show_deleted: bool = False


def writers_after(row: asyncpg.Record, values: Mapping[str, object], *, by: str) -> Writers:
    """Return the writers of a stored subject with new values: an object that keeps an item keeps its writers too."""
    writers = Writers.read(row["writers"])
    for name in STATED_FIELDS:
        if name not in values or row[name] == values[name]:
            continue
        former: tuple[str, ...] = ()
        if name in OBJECTS:
            before, after = (exact.loads(text) if isinstance(text, str) else {} for text in (row[name], values[name]))
            if before == after:
                continue
            if any(key in after and after[key] == value for key, value in before.items()):
                former = writers.of_fields.get(name, ())
        writers = writers.replaced(name, *former, by)
    return writers


def properties_of(objects: Mapping[str, str | None]) -> frozenset[Property]:
    """Return the properties in a subject's objects (JSON texts). Raises FieldInvalid for too many."""
    return json_properties.extract_properties(objects, owner="subject")


def parse_timezone(name: str) -> str:
    """Return an IANA name, or an empty one for the tenant's zone. Raises FieldInvalid."""
    check_time_zone(name, "subject.timezone")
    return name
