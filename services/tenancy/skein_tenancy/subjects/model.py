"""Subjects on their way in. No SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID
from zoneinfo import available_timezones

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.rpc import well_known_types
from skein_tenancy.subjects.properties import parse_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from google.protobuf.field_mask_pb2 import FieldMask

    from skein_tenancy.subjects.properties import Property

OBJECTS = ("profile", "preferences")
UPDATABLE = ("display_name", "status", "timezone", *OBJECTS, "account_id")
DEFAULT_TIMEZONE = "UTC"


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A subject on its way in."""

    # Empty: the service makes one.
    subject_id: str
    values: Mapping[str, object]

    @classmethod
    def of(cls, subject: pb.Subject) -> Draft:
        return cls(subject_id=subject.subject_id, values=_values(subject, UPDATABLE))


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """New values for some fields of one subject."""

    subject_id: str
    # 0: whatever it is now.
    revision: int
    values: Mapping[str, object]

    @classmethod
    def of(cls, subject: pb.Subject, mask: FieldMask) -> Change:
        """Read the fields that the mask names; all when it names none."""
        fields = well_known_types.updated_fields(mask, UPDATABLE)
        return cls(subject_id=subject.subject_id, revision=subject.revision, values=_values(subject, fields))


@dataclass(frozen=True, kw_only=True, slots=True)
class SubjectFilter:
    """What a list of subjects is restricted to."""

    # All of these; none: whatever they have.
    properties: Sequence[Property]
    # None: any.
    status: str | None
    show_deleted: bool = False

    @classmethod
    def of(cls, request: pb.ListSubjectsRequest) -> SubjectFilter:
        return cls(
            properties=parse_matches(request.properties),
            status=_status(request.status) if request.status else None,
            show_deleted=request.show_deleted,
        )


def _values(subject: pb.Subject, fields: Iterable[str]) -> dict[str, object]:
    """Return the fields by column, JSON as text; what is unset has its default."""
    values: dict[str, object] = {}
    for field in fields:
        if field in OBJECTS:
            values[field] = well_known_types.json_text(subject, field)
        elif field == "status":
            values[field] = _status(subject.status or pb.SUBJECT_STATUS_ACTIVE)
        elif field == "timezone":
            values[field] = _timezone(subject.timezone)
        elif field == "account_id":
            values[field] = UUID(subject.account_id) if subject.account_id else None
        else:
            values[field] = subject.display_name
    return values


def _status(value: pb.SubjectStatus) -> str:
    return pb.SubjectStatus.Name(value).removeprefix("SUBJECT_STATUS_").lower()


def _timezone(name: str) -> str:
    if name and name not in _timezones():
        raise FieldInvalid(violations=[("subject.timezone", "is no name of the IANA time zone database")])
    return name or DEFAULT_TIMEZONE


@cache
def _timezones() -> frozenset[str]:
    # This machine's own is no name that another one knows.
    return frozenset(available_timezones() - {"localtime"})
