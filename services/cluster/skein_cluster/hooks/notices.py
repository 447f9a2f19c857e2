"""What hooks remember between their processes, in files for each coding agent.

Whether the person was told in this session that Skein fails, and how far the context of each session is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Sessions whose context goes on; that of an older one begins anew.
_MAX_SESSIONS = 50


def _file(agent: str, kind: str, environment: Mapping[str, str]) -> Path:
    """Return the path of a file in XDG_STATE_HOME, else in ~/.local/state."""
    base = environment.get("XDG_STATE_HOME") or f"{environment.get('HOME') or '~'}/.local/state"
    return Path(base).expanduser() / "skein" / "hooks" / f"{agent}.{kind}"


class Contexts:
    """Remembers for one coding agent the revisions of its sessions' context ledgers."""

    def __init__(self, agent: str, environment: Mapping[str, str]) -> None:
        """Keep the file beside that of the notices."""
        self._path = _file(agent, "contexts", environment)

    def revision(self, session_id: str) -> int:
        """Return the revision that a session's context has; 0 if it is not known."""
        revision = self._read().get(session_id)
        return revision if isinstance(revision, int) and revision > 0 else 0

    def keep(self, session_id: str, revision: int) -> None:
        """Note the revision of a session's context; 0: it begins anew. It does so too where nothing can be kept."""
        revisions = self._read()
        revisions.pop(session_id, None)
        if revision:
            revisions[session_id] = revision
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path.write_text(json.dumps(dict(list(revisions.items())[-_MAX_SESSIONS:])), "utf-8")
        except OSError:
            return

    def _read(self) -> dict[str, object]:
        try:
            revisions = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return revisions if isinstance(revisions, dict) else {}


class Notices:
    """Remembers for one coding agent the session that was told."""

    def __init__(self, agent: str, environment: Mapping[str, str]) -> None:
        """Keep the file in XDG_STATE_HOME, else in ~/.local/state."""
        self._path = _file(agent, "told", environment)

    def was_shown(self, session_id: str) -> bool:
        """Return whether the session has shown the notice since Skein last answered."""
        try:
            return self._path.read_text("utf-8") == session_id
        except (OSError, ValueError):
            return False

    def tell(self, session_id: str) -> bool:
        """Note that the session is told; False when that cannot be kept, so that each hook would tell again."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path.write_text(session_id, "utf-8")
        except OSError:
            return False
        return True

    def answered(self) -> None:
        """Forget what was told: the next failure is news."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            return
