"""Whether the person was told in this session that Skein fails: a file for each coding agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Notices:
    """Remembers for one coding agent the session that was told."""

    def __init__(self, agent: str, environment: Mapping[str, str]) -> None:
        """Keep the file in XDG_STATE_HOME, else in ~/.local/state."""
        base = environment.get("XDG_STATE_HOME") or f"{environment.get('HOME') or '~'}/.local/state"
        self._path = Path(base).expanduser() / "skein" / "hooks" / f"{agent}.told"

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
