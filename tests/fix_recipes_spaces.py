"""A request for every RPC of spaces, and the things that they name."""

from __future__ import annotations

import uuid

from fix_recipe import mask, service
from fix_world import MAKERS, World

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import spaces_pb2 as pb

_PRINCIPAL = "agent:the agent of the matrix"
_spaces = service("skein.tenancy.v1.TenancyService", pb)


async def _space(world: World) -> str:
    request = pb.CreateSpaceRequest(
        space=pb.Space(display_name=world.text(f"space {uuid.uuid4().hex} "), description=world.text())
    )
    return (await world.tenant.tenancy.CreateSpace(request)).space.space_id


MAKERS |= {"space_id": _space}

_spaces("CreateSpace", build=lambda _t, w: {"space": pb.Space(display_name=w.text(f"new space {uuid.uuid4().hex} "))})
_spaces("GetSpace", "space_id")
_spaces("ListSpaces", "space_id", build=lambda _t, _w: {})
_spaces(
    "UpdateSpace",
    "space_id",
    build=lambda t, _w: {"space": pb.Space(**t, description="renamed"), "update_mask": mask("description")},
)
_spaces("DeleteSpace", "space_id")
_spaces(
    "GrantSpace",
    "space_id",
    build=lambda t, _w: {"grant": pb.SpaceGrant(**t, principal=_PRINCIPAL, role=pb.SPACE_ROLE_READER)},
)
# Nothing is granted here: from a tenant's first grant on, some calls are refused in it.
_spaces(
    "RevokeSpaceGrant",
    "space_id",
    build=lambda t, _w: {**t, "principal": _PRINCIPAL},
    own="SPACE_GRANT_NOT_FOUND",
)
_spaces("ListSpaceGrants", "space_id")
_spaces("ExplainAccess", "memory_id")
service("skein.memory.v1.MemoryService", memory_pb2)(
    "MoveMemories",
    "memory_id",
    "space_id",
    build=lambda t, _w: {"memory_ids": [t["memory_id"]], "space_id": t["space_id"]},
    own="SPACE_NOT_FOUND",
)
service("skein.memory.v1.BlockService", blocks_pb2)(
    "MoveBlock", "block_id", "space_id", build=lambda t, _w: dict(t), own="SPACE_NOT_FOUND"
)
service("skein.session.v1.SessionService", session_pb2)(
    "MoveSession", "session_id", "space_id", build=lambda t, _w: dict(t), own="SPACE_NOT_FOUND"
)
