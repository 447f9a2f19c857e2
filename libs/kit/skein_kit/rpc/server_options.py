"""What every gRPC server of ours is set to: sizes, and the limits of a connection that grpc's core keeps by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.rpc.grpc_handler import REQUEST_LIMIT, WIRE_LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_kit.settings import ProcessSettings

_OPTIONS = (
    ("grpc.max_receive_message_length", REQUEST_LIMIT),
    ("grpc.max_send_message_length", WIRE_LIMIT),
    # Without this a second process on the same port starts and takes half of the calls.
    ("grpc.so_reuseport", 0),
    # Bit 0 is "identity". A compressed message ends its call with UNIMPLEMENTED before it is unpacked: a few kilobytes
    # may stand for 5 MiB.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # Lets client-side balancing see new replicas.
    ("grpc.max_connection_age_ms", 300_000),
    # Callers may ask now and then whether the connection is alive, and are asked as well: a stream whose listener
    # is gone without a word ends.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    # Without this, the third ping of a client whose calls have ended here is abuse, and the core closes the connection.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
)
# Calls that one connection from outside may have open. Services call each other without this limit: the streams of all
# tenants share their connections.
_MOST_CALLS_OF_A_CONNECTION = 4_096
# The longest call on a connection that takes no new calls gets so much more time than it may take.
_AGE_GRACE_SECONDS = 30.0


def server_options(settings: ProcessSettings, *, connections: int, is_edge: bool) -> Sequence[tuple[str, int]]:
    """Return the options of a server that has so many connections at most; the core closes further ones at once."""
    longest = max(settings.max_stream_seconds, settings.max_deadline_seconds) + _AGE_GRACE_SECONDS
    options = (
        *_OPTIONS,
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server_handshake_timeout_ms", _milliseconds(settings.grpc_handshake_seconds)),
        ("grpc.max_connection_idle_ms", _milliseconds(settings.grpc_idle_seconds)),
        ("grpc.max_connection_age_grace_ms", _milliseconds(longest)),
    )
    return (*options, ("grpc.max_concurrent_streams", _MOST_CALLS_OF_A_CONNECTION)) if is_edge else options


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
