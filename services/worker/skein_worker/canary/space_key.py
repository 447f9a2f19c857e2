"""A key that sees one space of the canary's third tenant and nothing else: its agent is bound to the space."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from skein.auth.v1 import auth_pb2
from skein.tenancy.v1 import spaces_pb2
from skein_kit.canary import CanaryTenant
from skein_kit.identity.permissions import AGENT_PERMISSIONS
from skein_worker.canary.gateway_client import GatewayClient
from skein_worker.canary.synthetic_data import AUTH, TENANCY


async def create_space_key(admin: GatewayClient, canary: CanaryTenant, expire_time: Timestamp) -> tuple[str, str]:
    """Create the space and its grant if they are missing, and a key; return its secret and the space's id.

    Raises AioRpcError.
    """
    spaces = (await admin.call(f"{TENANCY}ListSpaces", spaces_pb2.ListSpacesRequest())).spaces
    space = next((one for one in spaces if one.display_name == canary.slug), None)
    if space is None:
        create_request = spaces_pb2.CreateSpaceRequest(space=spaces_pb2.Space(display_name=canary.slug))
        space = (await admin.call(f"{TENANCY}CreateSpace", create_request)).space
    # A new grant for each key would leave a row each.
    grants_request = spaces_pb2.ListSpaceGrantsRequest(space_id=space.space_id)
    if not (await admin.call(f"{TENANCY}ListSpaceGrants", grants_request)).grants:
        grant = spaces_pb2.SpaceGrant(
            space_id=space.space_id, principal=f"agent:{canary.slug}", role=spaces_pb2.SPACE_ROLE_WRITER
        )
        await admin.call(f"{TENANCY}GrantSpace", spaces_pb2.GrantSpaceRequest(grant=grant, bind=True))
    key_request = auth_pb2.CreateApiKeyRequest(
        display_name=canary.slug,
        permissions=sorted(AGENT_PERMISSIONS | {"spaces.read"}),
        agent_id=canary.slug,
        expire_time=expire_time,
    )
    secret: str = (await admin.call(f"{AUTH}CreateApiKey", key_request)).secret
    return secret, str(space.space_id)
