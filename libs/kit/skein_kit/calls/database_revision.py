"""Revisions: positions in the database's log. With them a caller's reads never go backwards, whichever server answers.

An answer, or an error, shows nothing newer than the revision that it reports. The caller sends its newest revision with
its next read. A replica that has replayed the log so far answers it, or else the primary. The primary answers every
write, and every read without a revision.
"""

from __future__ import annotations

import re

# With a read: the oldest state that it may show, "0" for any. With an answer: the newest state that it shows.
MIN_REVISION_KEY = "skein-min-revision"
REVISION_KEY = "skein-revision"
# No server gets so far: the primary answers a call whose revision cannot be parsed.
UNREACHABLE_REVISION = (1 << 64) - 1
_DIGITS = 16
_REVISION = re.compile(rf"[0-9a-f]{{1,{_DIGITS}}}")

# Methods that replicas may answer. No decision about identity, uniqueness or the order of events depends on them.
REPLICA_READS = frozenset(
    f"/skein.{service}/{method}"
    for service, methods in {
        "memory.v1.MemoryService": ("GetMemory", "BatchGetMemories", "ListMemories"),
        "memory.v1.LinkService": ("ListLinks", "TraverseLinks", "FindPaths"),
        "memory.v1.BlockService": ("GetBlock", "ListBlocks", "CompileBlocks"),
        "session.v1.SessionService": (
            *("GetSession", "ListSessions", "GetMessage", "ListMessages", "SearchMessages", "GetRecentWindow"),
        ),
        "recall.v1.RecallService": ("Recall", "FindSimilar"),
        "gateway.v1.GatewayService": ("Recall", "BuildContext"),
    }.items()
    for method in methods
)
# Services with such methods.
SERVICES = frozenset({"memory", "session", "recall"})


def min_revision_of(path: str, header: str | None) -> int | None:
    """Return the revision that a call must show; None when only the primary may answer it."""
    if header is None or path not in REPLICA_READS:
        return None
    return int(header, 16) if _REVISION.fullmatch(header) else UNREACHABLE_REVISION


def format_revision(revision: int) -> str:
    """Return a revision as callers see it: 16 hexadecimal digits."""
    return f"{revision:0{_DIGITS}x}"
