"""Writers of source trust, aliases, conflict resolutions, pages, policies and webhooks.

They return stored records in the form of the request, so that comparisons see the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from skein.memory.v1 import curation_pb2, pages_pb2, webhooks_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_client.errors import NotFound, SkeinError
from skein_client.pagination import iterate_pages
from skein_importers.records import Kind, Record
from skein_importers.writers.base import Writer, WriterContext

_PAGE = 1000
# The revision of an unchanged policy.
_FIRST_REVISION = 1


class Trust(Writer):
    """Trust in sources; existing trust stays."""

    kind = Kind.TRUST
    checks_first = True
    # The cluster normalizes the spelling.
    not_compared: ClassVar = frozenset({"source"})

    async def get(self, item: curation_pb2.SetSourceTrustRequest) -> Message:
        """Return the source's trust."""
        request = curation_pb2.GetSourceTrustRequest(source=item.source)
        trust = (await self._api.curation.GetSourceTrust(request)).source_trust
        return curation_pb2.SetSourceTrustRequest(
            source=trust.source_key,
            trust=trust.trust,
            notes=trust.notes,
            create_time=trust.create_time,
            update_time=trust.update_time,
        )

    async def write(self, records: Sequence[Record]) -> None:
        """Set the trust of one source."""
        request = curation_pb2.SetSourceTrustRequest()
        request.CopyFrom(records[0].item)
        await self._write_with_times(self._api.curation.SetSourceTrust, request, records)


class Aliases(Writer):
    """Aliases of entities."""

    kind = Kind.ALIAS
    checks_first = True
    not_compared: ClassVar = frozenset({"alias_memory_id", "canonical_memory_id"})

    async def get(self, item: curation_pb2.ResolveEntityRequest) -> Message:
        """Return the alias's target. Raises NotFound for a memory that is not an alias."""
        request = curation_pb2.GetCanonicalMemoryRequest(memory_id=item.alias_memory_id)
        response = await self._api.curation.GetCanonicalMemory(request)
        if not response.HasField("alias"):
            raise NotFound("The memory stands for itself.")
        return curation_pb2.ResolveEntityRequest(
            confidence=response.alias.confidence,
            note=response.alias.note,
            create_time=response.alias.create_time,
            update_time=response.alias.update_time,
        )

    async def write(self, records: Sequence[Record]) -> None:
        """Make one memory an alias."""
        request = curation_pb2.ResolveEntityRequest()
        request.CopyFrom(records[0].item)
        await self._write_with_times(self._api.curation.ResolveEntity, request, records)


class Conflicts(Writer):
    """Resolutions of conflicts. All of the tenant's are read once, because no call returns a single one."""

    kind = Kind.CONFLICT
    checks_first = True
    # Returned with this cluster's ids.
    not_compared: ClassVar = frozenset({"a_memory_id", "b_memory_id", "canonical_memory_id"})

    def __init__(self, context: WriterContext) -> None:
        """Nothing is read yet."""
        super().__init__(context)
        self._resolutions: dict[str, curation_pb2.ConflictResolution] | None = None

    async def find(self, records: Sequence[Record]) -> Mapping[str, Message]:
        """Return the resolutions of these pairs."""
        if self._resolutions is None:
            request = curation_pb2.ListConflictResolutionsRequest(page_size=_PAGE)
            resolutions = iterate_pages(self._api.curation.ListConflictResolutions, request, "resolutions")
            self._resolutions = {result.pair_key: result async for result in resolutions}
        if not self._resolutions:
            return {}
        names = {name for record in records for name in (record.item.a_memory_id, record.item.b_memory_id)}
        ids = await self._memory_ids(names)
        result: dict[str, Message] = {}
        for record in records:
            pair = sorted(ids.get(name, "") for name in (record.item.a_memory_id, record.item.b_memory_id))
            resolution = self._resolutions.get("|".join(pair))
            if resolution is not None:
                result[record.name] = curation_pb2.ResolveConflictRequest(
                    status=resolution.status,
                    note=resolution.note,
                    create_time=resolution.create_time,
                    update_time=resolution.update_time,
                )
        return result

    async def write(self, records: Sequence[Record]) -> None:
        """Resolve one pair."""
        request = curation_pb2.ResolveConflictRequest()
        request.CopyFrom(records[0].item)
        await self._write_with_times(self._api.curation.ResolveConflict, request, records)


class Pages(Writer):
    """The questions of pages, each once. All of the tenant's are read once."""

    kind = Kind.PAGE
    checks_first = True
    # The cluster makes the id, and returns its own id of the entity.
    not_compared: ClassVar = frozenset({"page_id", "entity_memory_id", "pinned"})

    def __init__(self, context: WriterContext) -> None:
        """Nothing is read yet."""
        super().__init__(context)
        self._pages: dict[bytes, pages_pb2.Page] | None = None

    async def find(self, records: Sequence[Record]) -> Mapping[str, Message]:
        """Return the tenant's pages that have the same questions."""
        if self._pages is None:
            pages = iterate_pages(self._api.curation.ListPages, pages_pb2.ListPagesRequest(page_size=_PAGE), "pages")
            self._pages = {_question(page, page.entity_memory_id): page async for page in pages if page.revision}
        if not self._pages:
            return {}
        ids = await self._memory_ids({record.item.entity_memory_id for record in records} - {""})
        questions = {
            record.name: _question(record.item, ids.get(record.item.entity_memory_id, "")) for record in records
        }
        return {
            name: _as_exported(self._pages[question]) for name, question in questions.items() if question in self._pages
        }

    async def write(self, records: Sequence[Record]) -> None:
        """Create one page."""
        page = pages_pb2.Page()
        page.CopyFrom(records[0].item)
        page.page_id = ""
        await self._api.curation.CreatePage(pages_pb2.CreatePageRequest(page=page))


class Policies(Writer):
    """The tenant's policy. An import sets it once; a policy that was changed before stays."""

    kind = Kind.POLICY
    checks_first = True
    not_compared: ClassVar = frozenset({"update_mask"})

    async def existing_names(self, records: Sequence[Record]) -> set[str]:
        """Treat a policy that was ever changed as existing."""
        response = await self._api.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())
        return {record.name for record in records} if response.policy.revision > _FIRST_REVISION else set()

    async def get(self, item: subjects_pb2.UpdatePolicyRequest) -> Message:
        """Return the policy's fields that the record has."""
        response = await self._api.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())
        return _masked_policy(item, response.policy)

    def as_stored(self, item: subjects_pb2.UpdatePolicyRequest) -> Message:
        """Return the policy's fields that the record has."""
        return _masked_policy(item, item.policy)

    async def write(self, records: Sequence[Record]) -> None:
        """Set the policy's fields that the record has, but for a model that this cluster does not offer."""
        request: subjects_pb2.UpdatePolicyRequest = records[0].item
        try:
            await self._api.tenancy.UpdatePolicy(request)
        except SkeinError as error:
            if error.reason != "EMBEDDING_MODEL_NOT_OFFERED" or request.update_mask.paths == ["embedding_model"]:
                raise
            rest = subjects_pb2.UpdatePolicyRequest(policy=request.policy)
            rest.update_mask.paths.extend(path for path in request.update_mask.paths if path != "embedding_model")
            await self._api.tenancy.UpdatePolicy(rest)


class Webhooks(Writer):
    """Webhooks by name, created and switched off unless the record is active."""

    kind = Kind.WEBHOOK
    checks_first = True

    def __init__(self, context: WriterContext) -> None:
        """Nothing is read yet."""
        super().__init__(context)
        self._webhooks: dict[str, webhooks_pb2.Webhook] | None = None

    async def find(self, records: Sequence[Record]) -> Mapping[str, Message]:
        """Return the tenant's webhooks with these names."""
        if self._webhooks is None:
            request = webhooks_pb2.ListWebhooksRequest(page_size=_PAGE)
            webhooks = iterate_pages(self._api.history.ListWebhooks, request, "webhooks")
            self._webhooks = {webhook.display_name: webhook async for webhook in webhooks}
        return {record.name: self._webhooks[record.name] for record in records if record.name in self._webhooks}

    async def write(self, records: Sequence[Record]) -> None:
        """Create one webhook."""
        request_item: webhooks_pb2.Webhook = records[0].item
        response = await self._api.history.CreateWebhook(webhooks_pb2.CreateWebhookRequest(webhook=request_item))
        if not request_item.active:
            off = webhooks_pb2.Webhook(webhook_id=response.webhook.webhook_id, active=False)
            await self._api.history.UpdateWebhook(
                webhooks_pb2.UpdateWebhookRequest(webhook=off, update_mask=FieldMask(paths=["active"]))
            )


def _as_exported(page: pages_pb2.Page) -> pages_pb2.Page:
    """Return a page without what the service makes."""
    return pages_pb2.Page(
        title=page.title,
        subject_id=page.subject_id,
        entity_memory_id=page.entity_memory_id,
        filter=page.filter if page.HasField("filter") else None,
        sections=page.sections,
    )


def _question(page: pages_pb2.Page, entity_memory_id: str) -> bytes:
    """Return what a page asks, with this cluster's id of its entity."""
    question = _as_exported(page)
    question.entity_memory_id = entity_memory_id
    return question.SerializeToString(deterministic=True)


def _masked_policy(item: subjects_pb2.UpdatePolicyRequest, policy: subjects_pb2.Policy) -> Message:
    """Return the fields of a policy that a request names."""
    result = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy())
    item.update_mask.MergeMessage(policy, result.policy, True, True)  # noqa: FBT003 - replaces messages and lists.
    return result
