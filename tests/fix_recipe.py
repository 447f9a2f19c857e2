"""How a request for one RPC is made from the things of a tenant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fix_world import World
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message


@dataclass(frozen=True)
class Recipe:
    """How a request for one RPC is made."""

    needs: tuple[str, ...]
    build: Callable[[dict[str, Any], World], Message]
    # The reason that the tenant's own caller is refused for, where the request cannot be right (a guessed code, say).
    own: str = ""


RECIPES: dict[str, Recipe] = {}


def service(prefix: str, module: Any) -> Callable[..., None]:
    """Return a function that adds recipes of one gRPC service, whose requests are in `module`."""

    def add(
        name: str,
        *needs: str,
        build: Callable[[dict[str, Any], World], dict[str, Any]] | None = None,
        own: str = "",
        request: type[Message] | None = None,
    ) -> None:
        kind = request or getattr(module, f"{name}Request")

        def made(things: dict[str, Any], world: World) -> Message:
            values = things if build is None else build(things, world)
            message: Message = kind(**values)
            return message

        RECIPES[f"/{prefix}/{name}"] = Recipe(needs=needs, build=made, own=own)

    return add


def mask(*paths: str) -> FieldMask:
    return FieldMask(paths=paths)


def tenant_id(_things: dict[str, Any], world: World) -> dict[str, Any]:
    return {"tenant_id": str(world.tenant.tenant_id)}


def a_token(_things: dict[str, Any], _world: World) -> dict[str, Any]:
    return {"token": "skein_once_nonsense"}
