"""Where Unix sockets of this process lie: in folders of its own, at addresses that are short enough."""

from __future__ import annotations

import os
import tempfile

# The address of a Unix socket holds 107 bytes on Linux and 103 on macOS; a folder's name and a socket's take some.
_MAX_BASE_BYTES = 64


def socket_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that this user alone may enter, where temporary files are unless that path is too long."""
    bases = (tempfile.gettempdir(), "/tmp", "/var/tmp")  # noqa: S108 - a folder of our own is made in it.
    base = next((one for one in bases if len(os.fsencode(one)) <= _MAX_BASE_BYTES and os.access(one, os.W_OK)), None)
    return tempfile.TemporaryDirectory(prefix="skein-pc2-", dir=base)
