"""Trust in sources. No I/O, no clock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from skein_kit.errors import FieldInvalid
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.text.source_keys import source_key
from skein_memory.scoring.model import NEUTRAL_TRUST
from skein_memory.validation import check_revision, check_storable


def key_of(source: str) -> str:
    """Return the key of a source that a caller names; reject a blank one."""
    check_storable([("source", source)], [])
    key = source_key(source)
    if not key:
        raise FieldInvalid(violations=[("source", "holds only spaces")])
    return key


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceTrust:
    """The trust in a source."""

    source_key: str
    trust: float
    notes: str | None
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    updated_by: str

    @property
    def source_trust_id(self) -> str:
        """Return an id that does not reveal the source, for events and revisions."""
        return self.id_of(self.source_key)

    @staticmethod
    def id_of(key: str) -> str:
        """Return the id of the trust in a source."""
        return hashlib.sha256(key.encode()).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrustDraft:
    """A caller's trust in a source, validated."""

    source_key: str
    # None: as before, or neutral.
    trust: float | None
    # None: as before. An empty text removes them.
    notes: str | None
    # The revision of the trust before; 0 matches any.
    revision: int
    # None: now.
    times: ImportTimes | None = None

    def to_source_trust(self, before: SourceTrust | None, last_revision: int, *, at: datetime, by: str) -> SourceTrust:
        """Return the new trust; `last_revision` is the number of the last stored revision."""
        check_revision(self.revision, 0 if before is None else before.revision)
        trust, notes = self.trust, self.notes
        if trust is None:
            trust = NEUTRAL_TRUST if before is None else before.trust
        if notes is None:
            notes = None if before is None else before.notes
        return SourceTrust(
            source_key=self.source_key,
            trust=trust,
            notes=notes or None,
            revision=(last_revision if before is None else before.revision) + 1,
            create_time=(self.times.create_time if self.times else at) if before is None else before.create_time,
            update_time=self.times.update_time if self.times else at,
            created_by=by if before is None else before.created_by,
            updated_by=by,
        )
