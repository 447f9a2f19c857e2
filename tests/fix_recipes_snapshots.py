"""A request for every RPC of snapshots, export and import."""

from __future__ import annotations

import json

from fix_recipe import service
from fix_world import MAKERS, World

from skein.memory.v1 import memory_pb2
from skein.memory.v1 import snapshots_pb2 as pb

_snapshots = service("skein.memory.v1.SnapshotService", pb)
_internal = service("skein.memory.v1.MemoryInternalService", memory_pb2)


async def _snapshot(world: World) -> str:
    await world.thing("memory_id")
    request = pb.CreateSnapshotRequest(label=world.text("label "), summary=world.text())
    return (await world.tenant.snapshots.CreateSnapshot(request)).snapshot.snapshot_id


MAKERS |= {"snapshot_id": _snapshot, "old_snapshot_id": _snapshot}

_snapshots("CreateSnapshot", build=lambda _t, w: {"label": w.text()})
_snapshots("GetSnapshot", "snapshot_id")
_snapshots("ListSnapshots", "snapshot_id", build=lambda _t, _w: {})
_snapshots("DiffSnapshots", "snapshot_id")
_snapshots("RestoreSnapshot", "snapshot_id")
_snapshots("DeleteSnapshot", "old_snapshot_id", build=lambda t, _w: {"snapshot_id": t["old_snapshot_id"]})
_snapshots("ExportData", "memory_id", build=lambda _t, _w: {})
_snapshots("ImportData", "memory_id", build=lambda t, w: {"lines": json.dumps({"memory": {**t, "content": w.text()}})})
_internal("ContinueSnapshots", "snapshot_id", build=lambda _t, _w: {})
