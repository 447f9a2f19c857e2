"""Conflicts and their resolutions: protobuf to model and back."""

from __future__ import annotations

from collections.abc import Mapping

from skein.memory.v1 import curation_pb2 as pb
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import to_message
from skein_memory.conflicts.model import OPEN, Conflict, Resolution, ResolutionDraft, pair_key
from skein_memory.memories import convert as memories_convert
from skein_memory.validation import check_storable

# Names as the database has them, by number; an unspecified one has none.
STATUSES: Mapping[int, str] = {
    number: name.removeprefix("CONFLICT_STATUS_").lower() for name, number in pb.ConflictStatus.items() if number
}


def statuses(request: pb.ListConflictsRequest) -> frozenset[str | None]:
    """Return the statuses that a request selects; None: conflicts without a resolution."""
    if request.statuses:
        return frozenset(STATUSES.get(status) for status in request.statuses)
    return frozenset({None, *STATUSES.values()}) if request.show_settled else OPEN


def resolution_draft(request: pb.ResolveConflictRequest, times: ImportTimes) -> ResolutionDraft:
    """Read a caller's resolution. Raises TextNotStorable and FieldInvalid."""
    check_storable([("note", request.note)], [])
    draft = ResolutionDraft(
        a_name=request.a_memory_id,
        b_name=request.b_memory_id,
        status=STATUSES[request.status],
        canonical_name=request.canonical_memory_id or None,
        note=request.note or None,
        revision=request.revision,
        times=times,
    )
    draft.check()
    return draft


def resolution(value: Resolution) -> pb.ConflictResolution:
    return to_message(pb.ConflictResolution, value, pair_key=pair_key(value.a_memory_id, value.b_memory_id))


def conflict(value: Conflict) -> pb.Conflict:
    return pb.Conflict(
        pair_key=pair_key(value.a.memory_id, value.b.memory_id),
        reason=f"CONFLICT_REASON_{value.reason.upper()}",
        a=memories_convert.memory(value.a),
        b=memories_convert.memory(value.b),
        score=value.score,
        resolution=None if value.resolution is None else resolution(value.resolution),
    )
