"""The methods of the services of skein/memory/v1/snapshots.proto, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from skein.memory.v1 import snapshots_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotServiceMethods:
    """What answers each RPC of SnapshotService."""

    CreateSnapshot: Callable[[snapshots_pb2.CreateSnapshotRequest, Any], Awaitable[snapshots_pb2.CreateSnapshotResponse]]
    GetSnapshot: Callable[[snapshots_pb2.GetSnapshotRequest, Any], Awaitable[snapshots_pb2.GetSnapshotResponse]]
    ListSnapshots: Callable[[snapshots_pb2.ListSnapshotsRequest, Any], Awaitable[snapshots_pb2.ListSnapshotsResponse]]
    DiffSnapshots: Callable[[snapshots_pb2.DiffSnapshotsRequest, Any], Awaitable[snapshots_pb2.DiffSnapshotsResponse]]
    RestoreSnapshot: Callable[[snapshots_pb2.RestoreSnapshotRequest, Any], Awaitable[snapshots_pb2.RestoreSnapshotResponse]]
    DeleteSnapshot: Callable[[snapshots_pb2.DeleteSnapshotRequest, Any], Awaitable[snapshots_pb2.DeleteSnapshotResponse]]
    ExportData: Callable[[snapshots_pb2.ExportDataRequest, Any], Awaitable[snapshots_pb2.ExportDataResponse]]
    ImportData: Callable[[snapshots_pb2.ImportDataRequest, Any], Awaitable[snapshots_pb2.ImportDataResponse]]
