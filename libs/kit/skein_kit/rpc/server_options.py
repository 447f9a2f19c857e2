"""Options of the gRPC servers: sizes, and limits of a connection that grpc's core enforces."""

from __future__ import annotations

from collections.abc import Sequence

from skein_kit.rpc.grpc_handler import REQUEST_LIMIT, WIRE_LIMIT
from skein_kit.settings import ProcessSettings

_OPTIONS = (
    ("grpc.max_receive_message_length", REQUEST_LIMIT),
    ("grpc.max_send_message_length", WIRE_LIMIT),
    # The probe widens the windows of a fast sender to megabytes for each connection. Unread bodies of strangers filled
    # them: 480 MiB for 400 calls. Without it a call may send 64 KiB ahead.
    ("grpc.http2.bdp_probe", 0),
    # Bit 0 is "identity". A compressed message ends its call with UNIMPLEMENTED before it is unpacked: a few kilobytes
    # may stand for 5 MiB.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # Lets client-side balancing see new replicas.
    ("grpc.max_connection_age_ms", 300_000),
    # Both sides may probe an idle connection, so that a stream whose reader is gone ends.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    # Without this, the core closes the connection at the third ping of a client without open calls.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
)
# Concurrent calls of one connection from outside. Services have no such limit, because the streams of all tenants share
# their connections.
_MAX_CALLS_PER_CONNECTION = 4_096
# Seconds beyond the longest call until a connection that takes no new calls is closed.
_AGE_GRACE_SECONDS = 30.0


def server_options(settings: ProcessSettings, *, connections: int, is_edge: bool) -> Sequence[tuple[str, int]]:
    """Return the options of a server with at most this many connections; the core closes further ones."""
    max_call_seconds = max(settings.max_stream_seconds, settings.max_deadline_seconds) + _AGE_GRACE_SECONDS
    options = (
        *_OPTIONS,
        # When on by mistake, a second process could bind the same port and get half of the calls.
        ("grpc.so_reuseport", int(is_edge and settings.share_gateway_ports)),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server_handshake_timeout_ms", _milliseconds(settings.grpc_handshake_seconds)),
        ("grpc.max_connection_idle_ms", _milliseconds(settings.grpc_idle_seconds)),
        ("grpc.max_connection_age_grace_ms", _milliseconds(max_call_seconds)),
    )
    return (*options, ("grpc.max_concurrent_streams", _MAX_CALLS_PER_CONNECTION)) if is_edge else options


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
