"""Files of Skein's own records or of LoCoMo conversations, as sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from skein_importers.errors import SourceInvalid
from skein_importers.locomo import read_locomo
from skein_importers.records import Record, RecordInvalid, UnreadableRecord, read_jsonl
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm

READERS: Mapping[str, Callable[[Path], Iterator[Record | UnreadableRecord]]] = {
    "jsonl": read_jsonl,
    "locomo": read_locomo,
}


class File:
    """A file of records."""

    def __init__(self, name: str, path: Path) -> None:
        """Read the file at `path` as `name` says."""
        self.name = name
        self._path = path

    def tenants(self) -> list[Realm]:
        """Return its one realm."""
        return [Realm(key=self.name, name=self._path.name, slug=self.name)]

    def records(self, _realm: Realm, _notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read record by record. Raises SourceInvalid."""
        try:
            yield from READERS[self.name](self._path)
        except RecordInvalid as error:
            raise SourceInvalid(str(error)) from error
        except OSError as error:
            raise SourceInvalid(
                f"{self._path} cannot be read ({error.strerror}): check its name and who may read it."
            ) from None

    def accounts(self, _notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing."""
        return iter(())


@contextmanager
def open_file(name: str, path: str) -> Iterator[File]:
    """Return a file as a source; it is opened when it is read and may be a pipe."""
    yield File(name, Path(path))
