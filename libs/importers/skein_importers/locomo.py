"""LoCoMo: long conversations of two people, as their authors published them (snap-research/LoCoMo).

Each conversation session becomes a session, each turn a message. A shared picture is known by its caption alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skein.session.v1 import session_pb2
from skein_importers.records import Kind, Record, RecordInvalid, UnreadableRecord
from skein_importers.sources.reading_limits import read_file

SESSION = re.compile(r"^session_(\d{1,9})$")
# "1:56 pm on 8 May, 2023"; no time zone is given, so it is taken as UTC.
TIME_FORMAT = "%I:%M %p on %d %B, %Y"


def read_locomo(path: Path) -> Iterator[Record | UnreadableRecord]:
    """Read every session and turn, in order. Raises RecordInvalid for a file that is something else."""
    try:
        samples = json.loads(read_file(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RecordInvalid(f"{path} is not JSON in UTF-8: {error}") from None
    if not isinstance(samples, list) or not all(isinstance(sample, dict) for sample in samples):
        raise RecordInvalid(f"{path} is no list of LoCoMo samples.")
    for number, sample in enumerate(samples, start=1):
        conversation = sample.get("conversation")
        if not isinstance(conversation, dict) or not isinstance(sample.get("sample_id"), str):
            yield UnreadableRecord(where=f"sample {number}", reason="has no sample_id or no conversation")
            continue
        yield from _sample(sample["sample_id"], conversation)


def _sample(sample_id: str, conversation: dict[str, Any]) -> Iterator[Record | UnreadableRecord]:
    numbers = sorted(int(match.group(1)) for name in conversation if (match := SESSION.match(name)))
    for number in numbers:
        name = f"session_{number}"
        where = session_id = f"{sample_id}/{name}"
        try:
            at = datetime.strptime(str(conversation.get(f"{name}_date_time")), TIME_FORMAT).replace(tzinfo=UTC)
        except ValueError:
            yield UnreadableRecord(where=where, reason=f"{name}_date_time is no time such as '1:56 pm on 8 May, 2023'")
            continue
        names = " and ".join(str(conversation.get(speaker, "?")) for speaker in ("speaker_a", "speaker_b"))
        session = session_pb2.Session(session_id=session_id, title=f"{names}, session {number}")
        session.create_time.FromDatetime(at)
        yield Record(where=where, kind=Kind.SESSION, item=session)
        for turn_number, turn in enumerate(conversation[name], start=1):
            yield _turn(f"{where} turn {turn_number}", sample_id, session_id, at, turn)


def _turn(where: str, sample_id: str, session_id: str, at: datetime, turn: Any) -> Record | UnreadableRecord:
    try:
        speaker, dia_id, text = str(turn["speaker"]), str(turn["dia_id"]), str(turn["text"])
    except (KeyError, TypeError):
        return UnreadableRecord(where=where, reason="a turn needs speaker, dia_id and text")
    caption = turn.get("blip_caption")
    message = session_pb2.Message(
        external_id=f"{sample_id}/{dia_id}",
        session_id=session_id,
        # Both are people; neither is an assistant.
        role=session_pb2.MESSAGE_ROLE_USER,
        name=speaker,
        content=f"{text} [shares {caption}]" if caption else text,
    )
    message.create_time.FromDatetime(at)
    return Record(where=where, kind=Kind.MESSAGE, item=message)
