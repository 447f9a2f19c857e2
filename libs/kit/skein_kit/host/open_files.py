"""The limit of open files of a process, and the share of each kind of connection.

Every connection is an open file. What HTTP and gRPC leave, more than a third, is the reserve: connections to the
database and to other services, the assistants' sockets, logs. A flood of connections therefore stops none of these.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

# More connections than one process can serve; a higher limit costs memory of the kernel.
MAX_FILES = 65_536
# Systems whose hard limit is "unlimited" may refuse more than this (macOS: OPEN_MAX).
_MAX_WHERE_UNLIMITED = 10_240
# A server of a process with few open files still needs some connections.
_MIN_FILES = 8


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard one, at most to MAX_FILES; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for maximum in (MAX_FILES, _MAX_WHERE_UNLIMITED):
        target = maximum if hard == resource.RLIM_INFINITY else min(hard, maximum)
        if soft == resource.RLIM_INFINITY or soft >= target:
            break
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            break
    return limit()


def limit() -> int:
    """Return the soft limit of open files, at most MAX_FILES."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_FILES if soft == resource.RLIM_INFINITY else min(soft, MAX_FILES)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileDescriptorShares:
    """The most open connections of each kind of server of a process."""

    # The gateway's HTTP port.
    http: int
    # The admin port.
    admin: int
    # All gRPC ports of the process together.
    grpc: int
    # HTTP accepts no connection with this descriptor or a higher one. The kernel assigns the lowest free number, so a
    # high one shows that the process uses its reserve, for whatever part.
    reserve_from: int

    @classmethod
    def divide(cls, limit: int) -> Self:
        """Divide a limit of open files."""
        return cls(http=limit * 3 // 8, admin=limit // 32, grpc=limit // 4, reserve_from=limit * 7 // 8)

    def grpc_server_connections(self, *, is_edge: bool, servers: int) -> int:
        """Return the connections of one of the process's `servers`: all, or half for the edge beside others."""
        if servers == 1:
            return max(_MIN_FILES, self.grpc)
        return max(_MIN_FILES, self.grpc // 2 if is_edge else self.grpc // (2 * servers))
