"""Revisions: places in the database's log, by which a caller's reads never go backwards, whichever server answers.

Nothing that an answer shows, or did, is newer than the revision that it tells; a refusal is an answer too. A caller
brings the newest that it was told with its next read, which is then served by a replica that has come that far, or by
the primary. A read that brings none, and every write, is the primary's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_kit.calls.call import Call

# With a read: what it must show at least; "0" for any age. With an answer: what it showed at most.
MIN_REVISION_KEY = "skein-min-revision"
REVISION_KEY = "skein-revision"
# No server comes so far: what is not understood is answered by the primary.
UNREACHABLE_REVISION = (1 << 64) - 1
_DIGITS = 16
_REVISION = re.compile(rf"[0-9a-f]{{1,{_DIGITS}}}")

# What replicas may answer. No decision about identity, uniqueness or the order of events rests on any of these.
READS = frozenset(
    f"/skein.{service}/{method}"
    for service, methods in {
        "memory.v1.MemoryService": ("GetMemory", "BatchGetMemories", "ListMemories"),
        "memory.v1.LinkService": ("ListLinks", "Traverse", "FindPaths"),
        "memory.v1.BlockService": ("GetBlock", "ListBlocks", "CompileBlocks"),
        "session.v1.SessionService": (
            *("GetSession", "ListSessions", "GetMessage", "ListMessages", "SearchMessages", "GetRecentWindow"),
        ),
        "recall.v1.RecallService": ("Recall", "FindSimilar"),
        "gateway.v1.GatewayService": ("Recall", "BuildContext"),
    }.items()
    for method in methods
)
# The services that read so.
SERVICES = frozenset({"memory", "session", "recall"})


def min_revision_of(path: str, said: str | None) -> int | None:
    """Return what a call must show at least; None when it is the primary's."""
    if said is None or path not in READS:
        return None
    return int(said, 16) if _REVISION.fullmatch(said) else UNREACHABLE_REVISION


def format_revision(revision: int) -> str:
    """Write a revision as callers see it: opaque, of one length."""
    return f"{revision:0{_DIGITS}x}"


def revision_trailers(call: Call) -> tuple[tuple[str, str], ...]:
    """Return what goes with an answer, or a refusal, besides itself: its revision, if it has one."""
    return ((REVISION_KEY, format_revision(call.revision)),) if call.revision else ()


def reports_revision(call: Call) -> bool:
    """Say whether the answer to a call should tell its revision: it writes, or its caller goes on from there."""
    return call.min_revision is not None or call.path not in READS
