"""API keys as protobuf messages; secrets and hashes stay out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2 as pb
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_auth.api_keys.model import ApiKey


def api_key(value: ApiKey) -> pb.ApiKey:
    return pb.ApiKey(
        api_key_id=str(value.api_key_id),
        display_name=value.display_name,
        permissions=value.permissions,
        agent_id=value.agent_id,
        create_time=to_timestamp(value.create_time),
        expire_time=to_timestamp(value.expire_time),
        revoke_time=to_timestamp(value.revoke_time),
        created_by=value.created_by,
        service_account_id=str(value.service_account_id or ""),
        use_time=to_timestamp(value.use_time),
        replaced_by=str(value.replaced_by or ""),
        grant_ids=map(str, value.grant_ids),
    )
