"""No text that the contract calls content gets past the content guard, whichever method stores it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
from fix_catalogue import over
from fix_cluster import Cluster, Tenant, reason_in, refused
from fix_recipes import request_for
from fix_world import World
from google.protobuf import field_mask_pb2, json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from grpc import aio

from skein.memory.v1 import blocks_pb2, snapshots_pb2
from skein.options.v1 import options_pb2 as options
from skein.tenancy.v1 import subjects_pb2
from skein_kit.rpc.declarations import method_rule, paths, response_class, screening, text_kind
from skein_memory.transfer.model import KINDS, MESSAGES

TOKEN = "ghp_" + "a1B2" * 9
IMPORT = "/skein.memory.v1.SnapshotService/ImportData"
SCREENED = [
    path
    for path in paths()
    # The texts of an import stand in its lines, of which each is answered by itself.
    if screening(path) in {options.SCREENING_RULE_CHAIN, options.SCREENING_RULE_METHOD} and path != IMPORT
]
# JSON text stands for the structure beside it, and a request has one of the two.
_JSON_TEXT = "_json"
_FREE_FORM = frozenset({"google.protobuf.Struct", "google.protobuf.Value"})
# The second one refuses the field, whatever it holds.
_REFUSED = {"CONTENT_REFUSED", "UPDATE_MASK_INVALID"}


def test_only_what_operators_and_administrators_name_is_unscreened() -> None:
    unscreened = {path for path in paths() if method_rule(path).screening == options.SCREENING_RULE_NONE}

    assert {path.rpartition("/")[2] for path in unscreened} == {
        "CreateOrganization", "UpdateOrganization", "CreateTenant", "UpdateTenant",
    }  # fmt: skip


def with_secrets(request: Message) -> Iterator[tuple[str, Message]]:
    """Yield the request with a secret in each of its texts, one at a time, by the path of the field."""
    for path in _places(request, ()):
        changed = type(request)()
        changed.CopyFrom(request)
        target: Any = changed
        for name in path[:-1]:
            target = getattr(target, name)[0] if _is_list(target, name) else getattr(target, name)
        _set(target, path[-1])
        if "update_mask" in request.DESCRIPTOR.fields_by_name:
            changed.update_mask.CopyFrom(field_mask_pb2.FieldMask(paths=[path[-1]]))  # type: ignore[attr-defined]
        yield ".".join(path), changed


def _places(message: Message, outer: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in message.DESCRIPTOR.fields:
        kind = field.message_type
        if field.type == FieldDescriptor.TYPE_STRING:
            if text_kind(field) == options.TEXT_KIND_CONTENT and not field.name.endswith(_JSON_TEXT):
                yield (*outer, field.name)
        elif kind is not None and (kind.full_name in _FREE_FORM or kind.GetOptions().map_entry):
            yield (*outer, field.name)
        elif kind is not None and not kind.full_name.startswith("google."):
            value = getattr(message, field.name)
            if field.is_repeated and value:
                yield from _places(value[0], (*outer, field.name))
            elif not field.is_repeated and (not outer or message.HasField(field.name)):
                yield from _places(value, (*outer, field.name))


def _is_list(message: Message, name: str) -> bool:
    return message.DESCRIPTOR.fields_by_name[name].is_repeated


def _set(message: Any, name: str) -> None:
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.message_type is not None and field.message_type.name == "Value":
        getattr(message, name).string_value = TOKEN
    elif field.message_type is not None:
        getattr(message, name).update({"note": TOKEN})
    elif field.is_repeated:
        getattr(message, name).append(TOKEN)
    else:
        setattr(message, name, f"it is {TOKEN}")


async def outcome(world: World, path: str, request: Message) -> str:
    """Return the reason of a call's refusal; "" if it is answered."""
    call = world.tenant.channel.unary_unary(
        path, request_serializer=type(request).SerializeToString, response_deserializer=response_class(path).FromString
    )
    try:
        await call(request)
    except aio.AioRpcError as fault:
        return reason_in(fault)
    return ""


@over("path", SCREENED, at_once=4)
async def test_a_secret_in_any_text_is_refused(cluster: Cluster, path: str) -> None:
    world = await World.new(cluster)
    # First of all: a write reads the policy, which is cached for a second.
    policy = subjects_pb2.Policy(guard_secrets="refuse")
    mask = field_mask_pb2.FieldMask(paths=["guard_secrets"])
    await world.tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    request = await request_for(path, world)

    outcomes = {place: await outcome(world, path, changed) for place, changed in with_secrets(request)}

    assert outcomes
    assert {place: reason for place, reason in outcomes.items() if reason not in _REFUSED} == {}


@over("kind", KINDS)
async def test_a_secret_in_any_text_of_an_imported_line_is_refused(cluster: Cluster, kind: str) -> None:
    world = await World.new(cluster)
    policy = subjects_pb2.Policy(guard_secrets="refuse")
    mask = field_mask_pb2.FieldMask(paths=["guard_secrets"])
    await world.tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    places = dict(with_secrets(MESSAGES[kind]()))
    lines = [json.dumps({kind: json_format.MessageToDict(item)}) for item in places.values()]

    answer = await world.tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines="\n".join(lines)))

    assert places
    reasons = {place: error.reason for place, error in zip(places, answer.errors, strict=True)}
    assert {place: reason for place, reason in reasons.items() if reason != "CONTENT_REFUSED"} == {}


async def write_in_pieces(tenant: Tenant) -> blocks_pb2.Block:
    """Write a token into a block so that no request has it as a whole."""
    block = await tenant.create_block(label="notes", value=f"The token is {TOKEN[:20]}-END")
    request = blocks_pb2.ReplaceInBlockRequest(block_id=block.block_id, old_text="-END", new_text=TOKEN[20:])
    return (await tenant.blocks.ReplaceInBlock(request)).block


async def test_a_block_is_redacted_by_what_it_becomes(tenant: Tenant) -> None:
    await tenant.set_policy(guard_secrets="redact")

    block = await write_in_pieces(tenant)

    assert TOKEN not in block.value
    assert block.value.startswith("The token is [")


async def test_a_block_is_refused_by_what_it_becomes(tenant: Tenant) -> None:
    await tenant.set_policy(guard_secrets="refuse")
    template = await tenant.create_block(label="form", value="{{first}}{{second}}", is_template=True)
    filled = blocks_pb2.CreateBlockFromTemplateRequest(
        template_block_id=template.block_id, variables={"first": TOKEN[:20], "second": TOKEN[20:]}
    )

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_REFUSED"):
        await write_in_pieces(tenant)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_REFUSED"):
        await tenant.blocks.CreateBlockFromTemplate(filled)
