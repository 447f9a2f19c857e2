"""Subjects as protobuf messages, and drafts, changes and filters of requests."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from google.protobuf.field_mask_pb2 import FieldMask

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.filters.json_properties import parse_matches
from skein_kit.rpc import well_known_types
from skein_tenancy.rows import RowChange, RowDraft
from skein_tenancy.subjects.model import OBJECTS, Subject, SubjectFilter, parse_timezone

_UPDATABLE = ("display_name", "status", "timezone", *OBJECTS, "account_id")
_STATUS_PREFIX = "SUBJECT_STATUS_"
# Requests whose saved responses contain a subject.
METHODS_WITH_SUBJECT = [
    kind.DESCRIPTOR.full_name for kind in (pb.CreateSubjectRequest, pb.UpdateSubjectRequest, pb.UndeleteSubjectRequest)
]


def subject(value: Subject) -> pb.Subject:
    return well_known_types.to_message(pb.Subject, value, writers=value.writers.names)


def subject_prefix(subject_id: str) -> bytes:
    """Return the bytes with which the subject begins inside a saved response."""
    return pb.Subject(subject_id=subject_id).SerializeToString()


def draft(message: pb.Subject) -> RowDraft:
    return RowDraft(row_id=message.subject_id, values=_values(message, _UPDATABLE))


def change(message: pb.Subject, mask: FieldMask) -> RowChange:
    """Read the fields that the mask names, or all when it is empty."""
    updated_names = well_known_types.updated_fields(mask, _UPDATABLE)
    return RowChange(row_id=message.subject_id, revision=message.revision, values=_values(message, updated_names))


def subject_filter(request: pb.ListSubjectsRequest) -> SubjectFilter:
    return SubjectFilter(
        properties=parse_matches(request.properties),
        status=_status_name(request.status) if request.status else None,
        show_deleted=request.show_deleted,
    )


def _values(message: pb.Subject, names: Iterable[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name in names:
        if name in OBJECTS:
            values[name] = well_known_types.json_text(message, name)
        elif name == "status":
            values[name] = _status_name(message.status or pb.SUBJECT_STATUS_ACTIVE)
        elif name == "timezone":
            values[name] = parse_timezone(message.timezone)
        elif name == "account_id":
            values[name] = UUID(message.account_id) if message.account_id else None
        else:
            values[name] = message.display_name
    return values


def _status_name(value: pb.SubjectStatus) -> str:
    return pb.SubjectStatus.Name(value).removeprefix(_STATUS_PREFIX).lower()
