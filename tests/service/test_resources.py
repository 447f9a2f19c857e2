"""What every resource does alike: get, list by pages, update by a mask, repeat, delete, and bring back.

The table is compared with the contract: a resource that is added there is added here, or the first test fails.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from fix_calls import all_pages
from fix_cluster import Cluster, Stubs, Tenant, refused
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import blocks_pb2, curation_pb2, history_pb2, memory_pb2, snapshots_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_kit.identity.permissions import PUBLIC_SERVICES

CONTRACT = (
    auth_pb2, blocks_pb2, curation_pb2, history_pb2, memory_pb2, recall_pb2, session_pb2, snapshots_pb2, tenancy_pb2,
)  # fmt: skip
METHODS: dict[str, MethodDescriptor] = {
    method.name: method
    for file in CONTRACT
    for service in file.DESCRIPTOR.services_by_name.values()
    if service.full_name in PUBLIC_SERVICES
    for method in service.methods
}
STUBS = {
    "AuthService": "auth", "BlockService": "blocks", "CurationService": "curation",
    "HistoryService": "history", "LinkService": "links", "MemoryService": "memory", "SessionService": "sessions",
    "TenancyService": "tenancy",
}  # fmt: skip
# They tell of a change, and are not what was changed.
STAMPS = ("revision", "update_time", "updated_by", "record_time")


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource of the contract, and how one is made and changed."""

    name: str
    # Fields of a new one.
    fields: dict[str, Any]
    # A field with its new value, and another that the mask does not name.
    change: tuple[str, Any]
    other: tuple[str, Any]
    plural: str = ""
    # The operator's, not a tenant's.
    is_operators: bool = False
    # A field in which no two are the same.
    unique_field: str = ""
    # The fields by which a new one names memories, which are made first.
    memory_fields: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The field in the contract's messages: "service_account"."""
        return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in self.name).lstrip("_")

    @property
    def list_method(self) -> str:
        return f"List{self.plural or self.name + 's'}"

    def id_of(self, message: Any) -> str:
        result: str = getattr(message, f"{self.key}_id")
        return result

    async def call(self, caller: Stubs, verb: str, **fields: Any) -> Any:
        """Call a verb's RPC; `caller` has the stubs."""
        name = self.list_method if verb == "List" else f"{verb}{self.name}"
        method = METHODS[name]
        request = message_factory.GetMessageClass(method.input_type)(**fields)
        return await getattr(getattr(caller, STUBS[method.containing_service.name]), name)(request)

    async def create(self, caller: Stubs, *, request_id: str = "") -> Any:
        fields = dict(self.fields)
        if self.unique_field:
            fields[self.unique_field] = uuid.uuid4().hex
        for name in self.memory_fields:
            fields[name] = await caller.remember(uuid.uuid4().hex)
        return await self.create_of(caller, fields, request_id=request_id)

    async def create_of(self, caller: Stubs, fields: dict[str, Any], *, request_id: str = "") -> Any:
        response = await self.call(caller, "Create", **{self.key: fields}, request_id=request_id)
        return getattr(response, self.key)

    async def get(self, caller: Stubs, resource_id: str) -> Any:
        return getattr(await self.call(caller, "Get", **{f"{self.key}_id": resource_id}), self.key)

    async def update(self, caller: Stubs, resource_id: str, paths: list[str], **fields: Any) -> Any:
        changed = {f"{self.key}_id": resource_id, **fields}
        response = await self.call(caller, "Update", **{self.key: changed}, update_mask=FieldMask(paths=paths))
        return getattr(response, self.key)


RESOURCES = [
    Resource(
        name="Memory", plural="Memories", fields={"content": "tea", "title": "t"}, change=("title", "new"),
        other=("content", "coffee"),
    ),
    Resource(
        name="Block", fields={"label": "human", "value": "tea"}, change=("description", "new"), other=("value", "x"),
    ),
    Resource(
        name="Link", fields={"relation": "causes"}, change=("label", "new"), other=("weight", 0.25),
        memory_fields=("from_memory_id", "to_memory_id"),
    ),
    Resource(name="Session", fields={"title": "t"}, change=("title", "new"), other=("agent_id", "other")),
    Resource(
        name="Agent", fields={"display_name": "a"}, change=("display_name", "new"), other=("system_prompt", "other"),
    ),
    Resource(
        name="Subject", fields={"display_name": "a"}, change=("display_name", "new"), other=("timezone", "Europe/Rome"),
    ),
    Resource(
        name="Space", fields={"display_name": "a"}, change=("description", "new"), other=("display_name", "other"),
        unique_field="display_name",
    ),
    Resource(
        name="Tool", fields={"name": "a"}, change=("description", "new"), other=("name", "other"), unique_field="name",
    ),
    Resource(
        name="ServiceAccount", fields={"display_name": "a", "permissions": ["memory.read"]},
        change=("display_name", "new"), other=("permissions", ["memory.write"]),
    ),
    Resource(
        name="Webhook", fields={"display_name": "w", "event_types": ["*"], "webhook_url": "https://hooks.invalid/"},
        change=("display_name", "new"), other=("event_types", ["memory_created"]),
    ),
    Resource(
        name="Page", fields={"title": "t", "filter": {"types": ["note"]}}, change=("title", "new"),
        other=("pinned", True),
    ),
    Resource(
        name="Organization", fields={"display_name": "o"}, change=("display_name", "new"), other=("slug", "other"),
        is_operators=True,
    ),
    Resource(
        name="Tenant", fields={"display_name": "t"}, change=("display_name", "new"), other=("slug", "other"),
        is_operators=True,
    ),
]  # fmt: skip
EVERY = pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.name)
OF_TENANTS = pytest.mark.parametrize(
    "resource", [each for each in RESOURCES if not each.is_operators], ids=lambda resource: resource.name
)


def _without_stamps(message: Message) -> Message:
    result = type(message)()
    result.CopyFrom(message)
    for name in STAMPS:
        if name in result.DESCRIPTOR.fields_by_name:
            result.ClearField(name)
    return result


def _caller(resource: Resource, cluster: Cluster, tenant: Tenant) -> Stubs:
    return cluster.operator if resource.is_operators else tenant


def test_the_table_has_every_resource_of_the_contract() -> None:
    named = {
        part.message_type.name
        for method in METHODS.values()
        for part in method.input_type.fields
        if part.message_type
        and method.name == f"Create{part.message_type.name}"
        and f"Update{part.message_type.name}" in METHODS
    }

    assert named == {resource.name for resource in RESOURCES}


@EVERY
async def test_what_is_made_is_read_as_it_was_answered(resource: Resource, cluster: Cluster, tenant: Tenant) -> None:
    caller = _caller(resource, cluster, tenant)

    made = await resource.create(caller)

    assert _without_stamps(await resource.get(caller, resource.id_of(made))) == _without_stamps(made)


@OF_TENANTS
async def test_a_request_id_is_its_callers_own(resource: Resource, cluster: Cluster, tenant: Tenant) -> None:
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="another"))
    another, request_id = cluster.with_key(key.secret), uuid.uuid4().hex

    first = await resource.create(tenant, request_id=request_id)
    second = await resource.create(another, request_id=request_id)

    assert resource.id_of(second) != resource.id_of(first)


@pytest.mark.system
@EVERY
async def test_each_page_goes_on_where_the_one_before_ended(
    resource: Resource, cluster: Cluster, tenant: Tenant
) -> None:
    caller = _caller(resource, cluster, tenant)
    made = [await resource.create(caller) for _ in range(3)]
    listing = {"memory_id": made[0].from_memory_id} if resource.memory_fields else {}
    expected = {resource.id_of(each) for each in (made[:1] if listing else made)}
    request = message_factory.GetMessageClass(METHODS[resource.list_method].input_type)(page_size=1, **listing)
    service = STUBS[METHODS[resource.list_method].containing_service.name]
    items = resource.plural.lower() or f"{resource.key}s"

    listed = await all_pages(getattr(getattr(caller, service), resource.list_method), request, items)

    ids = [resource.id_of(each) for each in listed]
    assert len(ids) == len(set(ids))
    assert expected <= set(ids)
    assert resource.is_operators or expected == set(ids)


@EVERY
async def test_an_update_changes_what_the_mask_names_and_nothing_else(
    resource: Resource, cluster: Cluster, tenant: Tenant
) -> None:
    caller = _caller(resource, cluster, tenant)
    made = await resource.create(caller)
    (name, value), (other, ignored) = resource.change, resource.other

    changed = await resource.update(caller, resource.id_of(made), [name], **{name: value, other: ignored})

    assert getattr(changed, name) == value
    expected = _without_stamps(made)
    setattr(expected, name, value)
    assert _without_stamps(changed) == expected
    assert _without_stamps(await resource.get(caller, resource.id_of(made))) == expected
    if "revision" in made.DESCRIPTOR.fields_by_name:
        assert changed.revision > made.revision
        with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
            await resource.update(caller, resource.id_of(made), [name], **{name: "later", "revision": made.revision})


@EVERY
async def test_what_is_deleted_is_gone_until_it_is_brought_back(
    resource: Resource, cluster: Cluster, tenant: Tenant
) -> None:
    caller = _caller(resource, cluster, tenant)
    made, kept = await resource.create(caller), await resource.create(caller)
    named = {f"{resource.key}_id": resource.id_of(made), "request_id": uuid.uuid4().hex}

    await resource.call(caller, "Delete", **named)
    await resource.call(caller, "Delete", **named)

    if resource.name != "Tenant":
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await resource.get(caller, resource.id_of(made))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert _without_stamps(await resource.get(caller, resource.id_of(kept))) == _without_stamps(kept)
    if f"Undelete{resource.name}" in METHODS:
        await resource.call(caller, "Undelete", **{f"{resource.key}_id": resource.id_of(made)})
        assert _without_stamps(await resource.get(caller, resource.id_of(made))) == _without_stamps(made)
