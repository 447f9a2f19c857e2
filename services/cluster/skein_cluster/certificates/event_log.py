"""What verifies a certificate: the file of published keys, and its purges in the event log, at its position."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from skein.memory.v1 import history_pb2, history_pb2_grpc
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_kit.erasure_certificates import key_set
from skein_kit.erasure_certificates.key_set import KeySetInvalid

_PURGES = ("memory_purged", "block_purged")
_PAGE_SIZE = 1000
# The clocks of two machines of a cluster differ by less.
_SLACK = timedelta(minutes=10)


def position_problem(statement: Mapping[str, Any]) -> str:
    """Return why a statement cannot be found in the log; empty for one that can, or that names no receipts."""
    if statement["receipt_ids"] and not statement.get("event_position"):
        return "it names receipts, and no position in the event log"
    return ""


async def log_problem(history: history_pb2_grpc.HistoryServiceAsyncStub, statement: Mapping[str, Any]) -> str:
    """Return what of a certificate the event log lacks; empty when it has every purge, the first at the position."""
    missing = set(statement["receipt_ids"])
    if not missing:
        return ""
    end = datetime.fromisoformat(statement["end_time"]) + _SLACK
    request = history_pb2.ListChangesRequest(
        position=statement["event_position"],
        page_size=_PAGE_SIZE,
        filter=history_pb2.ChangeFilter(event_types=_PURGES),
    )
    is_first = True
    while True:
        response = await history.ListChanges(request)
        for change in response.changes:
            receipt_id = str(dict(change.payload).get("receipt_id", ""))
            if is_first and receipt_id not in missing:
                return "the event log has another purge at its position, or none"
            is_first = False
            missing.discard(receipt_id)
            if not missing or change.create_time.ToDatetime(UTC) > end:
                break
        if not missing:
            return ""
        request.page_token = response.next_page_token
        last = response.changes[-1].create_time.ToDatetime(UTC) if response.changes else None
        if not request.page_token or (last is not None and last > end):
            return f"the event log has {len(missing)} of its {len(statement['receipt_ids'])} purges not"


def read_published_keys(file: Path) -> dict[str, Ed25519PublicKey]:
    """Read the published keys, a JWK Set that callers of the command saved, by key id. Raises CommandError."""
    try:
        return key_set.read(file.read_text("utf-8"))
    except (KeySetInvalid, UnicodeDecodeError):
        message = "The file of keys is no JWK Set; `skein certificates keys` writes one."
        raise CommandError(message, ExitCode.REFUSED) from None
