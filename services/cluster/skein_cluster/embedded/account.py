"""The operating-system user that the server runs as, and starting programs as that user."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skein_cluster.embedded.errors import PostgresDidNotStart

if TYPE_CHECKING:
    import io
    from collections.abc import Sequence

_CHILD = Path(__file__).with_name("child.py")
_UNPRIVILEGED = "nobody"
_ENTER = 'cd -- "$1"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """A user; `switch` is true when it is not the one we already are (Postgres refuses to run as root)."""

    user: int
    group: int
    switch: bool

    @classmethod
    def for_server(cls) -> Account:
        """Ourselves, or `nobody` for root: the server's user needs an entry in the passwd file."""
        if os.geteuid() != 0:
            return cls(user=os.geteuid(), group=os.getegid(), switch=False)
        try:
            entry = pwd.getpwnam(_UNPRIVILEGED)
        except KeyError:
            problem = f"as root it runs as the user {_UNPRIVILEGED!r}, which does not exist here"
            raise PostgresDidNotStart(problem) from None
        return cls(user=entry.pw_uid, group=entry.pw_gid, switch=True)

    def own(self, path: Path) -> None:
        """Give one file or folder to this user."""
        if self.switch:
            os.chown(path, self.user, self.group, follow_symlinks=False)

    def may_enter(self, folder: Path) -> bool:
        """Whether this user can reach what lies in the folder: tried, not computed from mode bits."""
        if not self.switch:
            return os.access(folder, os.X_OK)
        return self.can_run("/bin/sh", "-c", _ENTER, "sh", str(folder))

    def can_run(self, *command: str) -> bool:
        """Run a short harmless command to its end as this user; whether it could be started and succeeded."""
        try:
            done = subprocess.run(
                command,
                user=self.user if self.switch else None,
                group=self.group if self.switch else None,
                extra_groups=[] if self.switch else None,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except OSError:
            return False
        return done.returncode == 0

    def start(self, command: Sequence[str], *, log: io.FileIO) -> subprocess.Popen[bytes]:
        """Start a long-running program as this user, bound to the life of the calling thread.

        It gets a session of its own, so a Ctrl-C on the terminal reaches us alone and we end it in order, and an
        environment of PATH alone, so that no secret of ours lies in the environment of another user's process.
        """
        user, group = (self.user, self.group) if self.switch else (-1, -1)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_CHILD), str(os.getpid()), str(user), str(group), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
