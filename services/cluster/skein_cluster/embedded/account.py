"""The operating-system user of the server, and programs started as that user."""

from __future__ import annotations

import io
import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skein_cluster.embedded.errors import PostgresDidNotStart

_CHILD = Path(__file__).with_name("child.py")
_UNPRIVILEGED = "nobody"
_ENTER = 'cd -- "$1"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """A user; `switch` is true when it differs from ours (Postgres refuses to run as root)."""

    user: int
    group: int
    switch: bool

    @classmethod
    def for_server(cls) -> Account:
        """Return our own user, or `nobody` for root: the server's user needs an entry in the passwd file."""
        if os.geteuid() != 0:
            return cls(user=os.geteuid(), group=os.getegid(), switch=False)
        try:
            entry = pwd.getpwnam(_UNPRIVILEGED)
        except KeyError:
            raise PostgresDidNotStart(
                f"as root it runs as the user {_UNPRIVILEGED!r}, which does not exist here"
            ) from None
        return cls(user=entry.pw_uid, group=entry.pw_gid, switch=True)

    def chown(self, path: Path) -> None:
        """Change the owner of one file or folder to this user."""
        if self.switch:
            os.chown(path, self.user, self.group, follow_symlinks=False)

    def may_enter(self, folder: Path) -> bool:
        """Tell whether this user can enter the folder: tried, not computed from mode bits."""
        if not self.switch:
            return os.access(folder, os.X_OK)
        return self.can_run("/bin/sh", "-c", _ENTER, "sh", str(folder))

    def can_run(self, *command: str) -> bool:
        """Run a short command as this user; return whether it started and succeeded."""
        try:
            process = subprocess.run(
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
        return process.returncode == 0

    def start(self, command: Sequence[str], *, log: io.FileIO) -> subprocess.Popen[bytes]:
        """Start a long-running program as this user, bound to the life of the calling thread.

        It has its own session, so that Ctrl-C reaches this process alone, which then stops it in order. Its
        environment is PATH alone, so that another user's process holds no secret.
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
