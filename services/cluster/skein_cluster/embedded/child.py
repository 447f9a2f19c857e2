"""Script that changes the user, binds its life to the parent, and executes a program.

It replaces `preexec_fn`, because Python code between fork and exec may deadlock in a parent with threads such as
gRPC's. It imports the standard library only, and no module may import it.
Arguments: PARENT_PID USER_ID GROUP_ID PROGRAM [ARGUMENT…]; a USER_ID of -1 keeps the user.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, user: int, group: int, program: list[str]) -> None:
    """Replace this process by the program; never returns."""
    os.chdir("/")
    os.umask(0o077)
    if user >= 0:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    # After the change of user, which clears the setting; it survives exec. The signal comes when the *thread* that
    # started this process ends. So `running_server` belongs in a thread that lives as long as the server.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent ended before the program could start")
    os.execv(program[0], program)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
