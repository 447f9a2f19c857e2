"""Trust in sources, aliases, conflicts that were resolved, the policy, and watches.

What the cluster shows of them is put into the form of the call that wrote it: a comparison sees the same fields then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import curation_pb2, memory_pb2, watches_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_client.errors import NotFound
from skein_client.pagination import iterate_pages
from skein_importers.records import Kind
from skein_importers.writers.base import Writer, WriterContext

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.protobuf.message import Message

    from skein_importers.records import Record

_PAGE = 1000
# The revision of a policy that nobody has changed.
_AS_MADE = 1


class Trust(Writer):
    """How far sources are trusted; what somebody said here already stays."""

    kind = Kind.TRUST
    checks_first = True
    # The cluster keeps it in its own spelling.
    not_compared: ClassVar = frozenset({"source"})

    async def get(self, item: curation_pb2.SetSourceTrustRequest) -> Message:
        """Return what was said of the source."""
        request = curation_pb2.GetSourceTrustRequest(source=item.source)
        found = (await self._api.curation.GetSourceTrust(request)).source_trust
        return curation_pb2.SetSourceTrustRequest(
            source=found.source_key,
            trust=found.trust,
            notes=found.notes,
            create_time=found.create_time,
            update_time=found.update_time,
        )

    async def write(self, records: Sequence[Record]) -> None:
        """Say it of one source."""
        request = curation_pb2.SetSourceTrustRequest()
        request.CopyFrom(records[0].item)
        await self._write_with_times(self._api.curation.SetSourceTrust, request, records)


class Aliases(Writer):
    """Memories that are other names for what a second one stands for."""

    kind = Kind.ALIAS
    checks_first = True
    not_compared: ClassVar = frozenset({"alias_memory_id", "canonical_memory_id"})

    async def get(self, item: curation_pb2.ResolveEntityRequest) -> Message:
        """Return what the alias stands for. Raises NotFound when it stands for itself."""
        request = curation_pb2.GetCanonicalRequest(memory_id=item.alias_memory_id)
        found = await self._api.curation.GetCanonical(request)
        if not found.HasField("alias"):
            raise NotFound("The memory stands for itself.")
        return curation_pb2.ResolveEntityRequest(
            confidence=found.alias.confidence,
            note=found.alias.note,
            create_time=found.alias.create_time,
            update_time=found.alias.update_time,
        )

    async def write(self, records: Sequence[Record]) -> None:
        """Make one memory an alias."""
        request = curation_pb2.ResolveEntityRequest()
        request.CopyFrom(records[0].item)
        await self._write_with_times(self._api.curation.ResolveEntity, request, records)


class Conflicts(Writer):
    """What was said of conflicts. All of the tenant's are read once: none can be asked for by itself."""

    kind = Kind.CONFLICT
    checks_first = True
    # Shown by ids of here.
    not_compared: ClassVar = frozenset({"a_memory_id", "b_memory_id", "canonical_memory_id"})

    def __init__(self, context: WriterContext) -> None:
        """Know of none yet."""
        super().__init__(context)
        self._find_trust: dict[str, curation_pb2.ConflictResolution] | None = None

    async def find(self, records: Sequence[Record]) -> Mapping[str, Message]:
        """Return what was said of these pairs."""
        if self._find_trust is None:
            request = curation_pb2.ListConflictResolutionsRequest(page_size=_PAGE)
            listed = iterate_pages(self._api.curation.ListConflictResolutions, request, "resolutions")
            self._find_trust = {found.pair_key: found async for found in listed}
        if not self._find_trust:
            return {}
        names = {name for record in records for name in (record.item.a_memory_id, record.item.b_memory_id)}
        ids: dict[str, str] = {}
        while names:
            answer = await self._api.memories.BatchGetMemories(
                memory_pb2.BatchGetMemoriesRequest(memory_ids=sorted(names))
            )
            for memory in answer.memories:
                ids[memory.external_id] = ids[memory.memory_id] = memory.memory_id
            names = set(answer.deferred)
        found: dict[str, Message] = {}
        for record in records:
            pair = sorted(ids.get(name, "") for name in (record.item.a_memory_id, record.item.b_memory_id))
            said = self._find_trust.get("|".join(pair))
            if said is not None:
                found[record.name] = curation_pb2.ResolveConflictRequest(
                    status=said.status, note=said.note, create_time=said.create_time, update_time=said.update_time
                )
        return found

    async def write(self, records: Sequence[Record]) -> None:
        """Say it of one pair."""
        request = curation_pb2.ResolveConflictRequest()
        request.CopyFrom(records[0].item)
        await self._write_with_times(self._api.curation.ResolveConflict, request, records)


class Policies(Writer):
    """The rules of the tenant. An import sets them once: rules that somebody set here already stay."""

    kind = Kind.POLICY
    checks_first = True
    not_compared: ClassVar = frozenset({"update_mask"})

    async def existing_names(self, records: Sequence[Record]) -> set[str]:
        """Say that the rules are there when somebody ever set some."""
        answer = await self._api.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())
        return {record.name for record in records} if answer.policy.revision > _AS_MADE else set()

    async def get(self, item: subjects_pb2.UpdatePolicyRequest) -> Message:
        """Return those of the tenant's rules that the record has."""
        answer = await self._api.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())
        found = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy())
        for name in item.update_mask.paths:
            setattr(found.policy, name, getattr(answer.policy, name))
        return found

    async def write(self, records: Sequence[Record]) -> None:
        """Set the rules that the record has."""
        await self._api.tenancy.UpdatePolicy(records[0].item)


class Watches(Writer):
    """Watches, by their names: made, and switched off at once unless their record says that they are active."""

    kind = Kind.WATCH
    checks_first = True

    def __init__(self, context: WriterContext) -> None:
        """Know of none yet."""
        super().__init__(context)
        self._there: dict[str, watches_pb2.Watch] | None = None

    async def find(self, records: Sequence[Record]) -> Mapping[str, Message]:
        """Return the tenant's watches with these names."""
        if self._there is None:
            request = watches_pb2.ListWatchesRequest(page_size=_PAGE)
            listed = iterate_pages(self._api.history.ListWatches, request, "watches")
            self._there = {watch.display_name: watch async for watch in listed}
        return {record.name: self._there[record.name] for record in records if record.name in self._there}

    async def write(self, records: Sequence[Record]) -> None:
        """Make one watch."""
        request_item: watches_pb2.Watch = records[0].item
        made = await self._api.history.CreateWatch(watches_pb2.CreateWatchRequest(watch=request_item))
        if not request_item.active:
            off = watches_pb2.Watch(watch_id=made.watch.watch_id, active=False)
            await self._api.history.UpdateWatch(
                watches_pb2.UpdateWatchRequest(watch=off, update_mask=FieldMask(paths=["active"]))
            )
