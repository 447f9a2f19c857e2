"""Errors of the memory service, in addition to those of the kit."""

from __future__ import annotations

from skein_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, ResourceExhausted


class MemoryNotFound(NotFound):
    """No such memory is visible to the caller."""

    reason = "MEMORY_NOT_FOUND"


class MemoryArchived(FailedPrecondition):
    """The memory lies in cold storage, which does not move: bring its archive back with UnarchiveMemories first."""

    reason = "MEMORY_ARCHIVED"


class AliasApart(FailedPrecondition):
    """A memory and its aliases move together; name this one too."""

    reason = "ALIAS_APART"


class SpacesDiffer(FailedPrecondition):
    """The memories lie in different spaces, which are not merged; move them into one first."""

    reason = "SPACES_DIFFER"


class MemoryNotYetKnown(NotFound):
    """The memory was not recorded yet at that time; read it at a later time."""

    reason = "MEMORY_NOT_KNOWN_THEN"


class SelectionEmpty(InvalidArgument):
    """The selection names no memories; give ids or a filter."""

    reason = "SELECTION_EMPTY"


class SourceNotFound(NotFound):
    """No such message or memory is visible to the caller, so nothing can derive from it."""

    reason = "SOURCE_NOT_FOUND"


class LineageCycle(FailedPrecondition):
    """The memory would be made of itself: one of its sources derives from it."""

    reason = "LINEAGE_CYCLE"


class LineageTooLong(FailedPrecondition):
    """A chain through the memory would be too long, or have too many memories, to be followed; name nearer origins."""

    reason = "LINEAGE_TOO_LONG"


class OrderUnknown(InvalidArgument):
    """The list does not support this order; use one that the violations name."""

    reason = "ORDER_UNKNOWN"


class LinkNotFound(NotFound):
    """No such link is visible to the caller."""

    reason = "LINK_NOT_FOUND"


class FactKeyTaken(AlreadyExists):
    """Another fact about the subject has this key, in any case: set on_conflict, update it, or use another key."""

    reason = "FACT_KEY_TAKEN"


class LinkExists(AlreadyExists):
    """The two memories are linked by this relation already."""

    reason = "LINK_EXISTS"


class LinkToItself(InvalidArgument):
    """A memory cannot be linked to itself."""

    reason = "LINK_TO_ITSELF"


class PageNotFound(NotFound):
    """No such page is visible to the caller."""

    reason = "PAGE_NOT_FOUND"


class BlockNotFound(NotFound):
    """No such block is visible to the caller."""

    reason = "BLOCK_NOT_FOUND"


class BlockNotDeleted(FailedPrecondition):
    """Only a deleted block can be purged; delete it first."""

    reason = "BLOCK_NOT_DELETED"


class BlockExists(AlreadyExists):
    """Another block of the tenant has this block_id, perhaps a deleted one."""

    reason = "BLOCK_EXISTS"


class BlockTooLong(InvalidArgument):
    """The value has more characters than the block may have; shorten it, or raise the block's limit."""

    reason = "BLOCK_TOO_LONG"


class BlockReadOnly(FailedPrecondition):
    """The block is read-only; an update that changes read_only may change its value as well."""

    reason = "BLOCK_READ_ONLY"


class BlockTextNotUnique(FailedPrecondition):
    """The text to replace must occur exactly once in the block; include more of the text around it."""

    reason = "BLOCK_TEXT_NOT_UNIQUE"


class BlockVariableMissing(InvalidArgument):
    """Variables of the template have no value; give one for each."""

    reason = "BLOCK_VARIABLE_MISSING"


class BlockLabelTaken(AlreadyExists):
    """The agent has another block with this label for the same subject, or without a subject; detach it first."""

    reason = "BLOCK_LABEL_TAKEN"


class BlockNotAttached(NotFound):
    """The agent does not have this block."""

    reason = "BLOCK_NOT_ATTACHED"


class BlockRevisionNotFound(NotFound):
    """The block has no such earlier revision."""

    reason = "BLOCK_REVISION_NOT_FOUND"


class BlockLineMissing(InvalidArgument):
    """The block has fewer lines; choose a lower line."""

    reason = "BLOCK_LINE_MISSING"


class AgentBlocksFull(FailedPrecondition):
    """The agent has the maximum number of blocks for one subject, or without a subject; detach one first."""

    reason = "AGENT_BLOCKS_FULL"


class BlockTemplateNotFound(NotFound):
    """No such template is visible to the caller."""

    reason = "BLOCK_TEMPLATE_NOT_FOUND"


class PendingMemoryNotFound(NotFound):
    """Nothing waits for approval under this id; it was decided on, or it expired."""

    reason = "PENDING_MEMORY_NOT_FOUND"


class PendingMemoriesFull(ResourceExhausted):
    """Too many memories wait for approval; approve or refuse some."""

    reason = "PENDING_MEMORIES_FULL"


class SourceTrustNotFound(NotFound):
    """No trust is stored for this source; it counts as 0.5."""

    reason = "SOURCE_TRUST_NOT_FOUND"


class AliasNotFound(NotFound):
    """No such alias is visible to the caller."""

    reason = "ALIAS_NOT_FOUND"


class AliasCycle(FailedPrecondition):
    """The memory would become an alias of itself; remove the alias that leads back to it first."""

    reason = "ALIAS_CYCLE"


class AliasToItself(AliasCycle):
    """Both names belong to the same memory; name two different ones."""


class AliasesTooMany(FailedPrecondition):
    """The memory has more aliases than one call moves; choose it as the canonical one, or remove some."""

    reason = "ALIASES_TOO_MANY"


class CanonicalNotInPair(InvalidArgument):
    """The canonical memory must be one of the two that are in conflict."""

    reason = "CANONICAL_NOT_IN_PAIR"


class MergeTooLarge(FailedPrecondition):
    """The memories have more links or tags together than one memory may have; merge fewer."""

    reason = "MERGE_TOO_LARGE"


class ReadersWidened(FailedPrecondition):
    """The text would reach readers, or be about a person, other than those it is for; create a memory for them."""

    reason = "READERS_WIDENED"


class PositionInvalid(InvalidArgument):
    """The position is damaged or belongs to another log; start again without a position."""

    reason = "POSITION_INVALID"


class StreamTooSlow(ResourceExhausted):
    """The caller reads more slowly than changes are made; resume from the position in the metadata."""

    reason = "STREAM_TOO_SLOW"
    retry_after = 0.1


class WebhookNotFound(NotFound):
    """No such webhook is visible to the caller."""

    reason = "WEBHOOK_NOT_FOUND"


class DeliveryNotFound(NotFound):
    """No such delivery is visible to the caller, or it was delivered already."""

    reason = "DELIVERY_NOT_FOUND"


class EventTypeUnknown(InvalidArgument):
    """There is no event of this type; use a type that the violation names."""

    reason = "EVENT_TYPE_UNKNOWN"


class MemoryTypeNotAllowed(InvalidArgument):
    """The tenant's policy does not allow this type; use one that it names."""

    reason = "TYPE_NOT_ALLOWED"


class MemoryDataInvalid(InvalidArgument):
    """The data does not match the type of the memory; ListMemoryTypes returns its schema."""

    reason = "MEMORY_DATA_INVALID"


class MasterKeyMissing(FailedPrecondition):
    """The cluster has no master key to encrypt secrets; its operator must set SKEIN_MASTER_KEY."""

    reason = "MASTER_KEY_MISSING"


class SecretNotFound(NotFound):
    """The memory has no secret."""

    reason = "SECRET_NOT_FOUND"


class SecretUndecryptable(FailedPrecondition):
    """No configured master key decrypts the secret; the cluster's operator must restore the right one."""

    reason = "SECRET_UNDECRYPTABLE"


class LevelOutOfRange(FailedPrecondition):
    """The memory already has the highest or the lowest level; it cannot move further."""

    reason = "LEVEL_OUT_OF_RANGE"


class NotATask(FailedPrecondition):
    """The memory is neither a task nor, where allowed, an objective."""

    reason = "NOT_A_TASK"


class ObjectiveNotFound(NotFound):
    """No such objective is visible to the caller."""

    reason = "OBJECTIVE_NOT_FOUND"


class PathToItself(InvalidArgument):
    """A path needs two different memories."""

    reason = "PATH_TO_ITSELF"


class SnapshotNotFound(NotFound):
    """No such snapshot is visible to the caller."""

    reason = "SNAPSHOT_NOT_FOUND"


class SnapshotNotReady(FailedPrecondition):
    """The snapshot is still being created; GetSnapshot returns its state."""

    reason = "SNAPSHOT_NOT_READY"


class ImportFormatUnknown(InvalidArgument):
    """The lines have another format than the request names."""

    reason = "IMPORT_FORMAT_UNKNOWN"


class ArchiveNotFound(NotFound):
    """No such archive is visible to the caller."""

    reason = "ARCHIVE_NOT_FOUND"
