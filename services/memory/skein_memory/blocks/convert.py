"""Blocks: protobuf to model and back."""

from __future__ import annotations

from skein.memory.v1 import blocks_pb2
from skein_kit.json_values.fields import fields
from skein_kit.rpc.well_known_types import json_text, to_timestamp
from skein_memory.blocks.model import DEFAULT_LIMIT, Block, BlockDraft


def draft(message: blocks_pb2.Block) -> BlockDraft:
    """Read a caller's block. Raises TextNotStorable, FieldInvalid and BlockTooLong."""
    return BlockDraft(
        label=message.label,
        value=message.value,
        max_characters=message.limit or DEFAULT_LIMIT,
        description=message.description or None,
        read_only=message.read_only,
        is_template=message.is_template,
        template_name=message.template_name or None,
        subject_id=message.subject_id,
        metadata=json_text(message, "metadata"),
    ).validate()


def block(value: Block) -> blocks_pb2.Block:
    draft = value.draft
    return blocks_pb2.Block(
        block_id=value.block_id,
        label=draft.label,
        value=draft.value,
        limit=draft.max_characters,
        description=draft.description or "",
        read_only=draft.read_only,
        is_template=draft.is_template,
        template_name=draft.template_name or "",
        subject_id=draft.subject_id,
        revision=value.revision,
        create_time=to_timestamp(value.create_time),
        update_time=to_timestamp(value.update_time),
        record_time=to_timestamp(value.record_time),
        delete_time=to_timestamp(value.delete_time),
        created_by=value.created_by,
        updated_by=value.updated_by,
        character_count=len(draft.value),
        nearly_full=value.is_nearly_full,
        writers=value.writers.names,
        trust=value.trust,
        **fields(metadata=draft.metadata),
    )


def block_prefix(block_id: str) -> bytes:
    """Return the bytes with which a block begins in a serialized response."""
    return blocks_pb2.Block(block_id=block_id).SerializeToString()
