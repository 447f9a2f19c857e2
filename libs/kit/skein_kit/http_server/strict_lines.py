"""The receive buffer of h11 without bare line feeds: docs/decisions/line-ends.md says why it looks into h11."""

from __future__ import annotations

import h11
from h11 import Connection
from h11._receivebuffer import ReceiveBuffer


class _StrictBuffer(ReceiveBuffer):
    """A buffer whose header lines end with CR LF."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines of a complete header. Raises RemoteProtocolError for a bare line feed in it."""
        received = bytes(self)
        lines = super().maybe_extract_lines()
        if lines is not None:
            head = received[: len(received) - len(self)]
            if head.count(b"\n") != head.count(b"\r\n"):
                message = "a line of the header ends without CR"
                raise h11.RemoteProtocolError(message)
        return lines


def require_line_ends(connection: Connection) -> None:
    """Have a new connection refuse headers with bare line feeds, as invalid requests are refused."""
    connection._receive_buffer = _StrictBuffer()  # noqa: SLF001 - h11 has no setting for it.
