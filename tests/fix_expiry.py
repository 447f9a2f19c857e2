"""Memories that have expired: only an import may store one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from google.protobuf import json_format

from skein.memory.v1 import memory_pb2, snapshots_pb2, snapshots_pb2_grpc


async def expire(
    snapshots: snapshots_pb2_grpc.SnapshotServiceAsyncStub,
    memory: memory_pb2.Memory,
    *,
    ago: timedelta = timedelta(minutes=1),
) -> snapshots_pb2.ImportDataResponse:
    """Store a memory, new or known, with an expiry that lies so long ago."""
    expired = memory_pb2.Memory()
    expired.CopyFrom(memory)
    expired.expire_time.FromDatetime(datetime.now(UTC) - ago)
    line = json.dumps({"memory": json_format.MessageToDict(expired, preserving_proto_field_name=True)})
    imported = await snapshots.ImportData(
        snapshots_pb2.ImportDataRequest(lines=line, mode=snapshots_pb2.IMPORT_MODE_OVERWRITE)
    )
    assert not imported.errors
    return imported
