"""Requests for the RPCs of links and of the graph that they make."""

from __future__ import annotations

from fix_recipe import mask, service

from skein.memory.v1 import memory_pb2

_links = service("skein.memory.v1.LinkService", memory_pb2)


def _fill() -> None:
    _links(
        "BatchCreateLinks",
        "memory_id",
        "other_memory_id",
        build=lambda t, _w: {
            "links": [
                memory_pb2.Link(from_memory_id=t["memory_id"], to_memory_id=t["other_memory_id"], relation="causes")
            ]
        },
    )
    _links(
        "UpsertLink",
        "memory_id",
        "other_memory_id",
        build=lambda t, w: {
            "link": memory_pb2.Link(
                from_memory_id=t["other_memory_id"], to_memory_id=t["memory_id"], label=w.text("upserted ")
            ),
            "either_direction": True,
        },
    )
    _links("GetLink", "link_id")
    _links(
        "UpdateLink",
        "link_id",
        build=lambda t, w: {
            "link": memory_pb2.Link(link_id=t["link_id"], label=w.text("updated ")),
            "update_mask": mask("label"),
        },
    )
    _links("TraverseLinks", "link_id", "memory_id", build=lambda t, _w: {"memory_id": t["memory_id"]})
    _links(
        "GetSubgraph",
        "link_id",
        "memory_id",
        build=lambda t, _w: {"memory_ids": [t["memory_id"]], "infer_links": True, "include_memories": True},
    )
    _links(
        "FindPaths",
        "link_id",
        "memory_id",
        "other_memory_id",
        build=lambda t, _w: {"from_memory_id": t["memory_id"], "to_memory_id": t["other_memory_id"]},
    )
    _links(
        "SpreadActivation",
        "link_id",
        "memory_id",
        build=lambda t, _w: {"seeds": [memory_pb2.ActivationSeed(memory_id=t["memory_id"])]},
    )
    _links("SuggestLinks", "memory_id")


_fill()
