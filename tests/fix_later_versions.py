"""Later versions of Skein: copies of a package of ours with more migrations, run as processes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from fix_cluster import test_environment
from fix_command import CommandResult, start

import skein_memory
from skein_cluster import registry

NEWEST = registry.migrations()[-1].number
# Each adds a column and fills it in a table with row-level security; the second table has a history too.
TEXTS = (
    """
    ALTER TABLE memory.memories ADD COLUMN later_length integer;
    ALTER TABLE memory.memories NO FORCE ROW LEVEL SECURITY;
    UPDATE memory.memories SET later_length = length(content);
    ALTER TABLE memory.memories FORCE ROW LEVEL SECURITY;
    """,
    """
    ALTER TABLE session.messages_history ADD COLUMN later_words integer NOT NULL DEFAULT 0;
    ALTER TABLE session.messages ADD COLUMN later_words integer NOT NULL DEFAULT 0;
    DROP TRIGGER keep_updated ON session.messages;
    ALTER TABLE session.messages NO FORCE ROW LEVEL SECURITY;
    UPDATE session.messages SET later_words = cardinality(string_to_array(content, ' '));
    ALTER TABLE session.messages FORCE ROW LEVEL SECURITY;
    DO $$
    DECLARE columns text := (
        SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = 'session.messages'::regclass AND attnum > 0 AND NOT attisdropped
    );
    BEGIN
        EXECUTE 'CREATE TRIGGER keep_updated BEFORE UPDATE ON session.messages FOR EACH ROW'
            ' WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION skein.keep_updated('
            || quote_literal('session.messages_history (' || columns || ', until_time)') || ')';
    END
    $$;
    CREATE INDEX messages_later ON session.messages (tenant_id, later_words);
    """,
)


@dataclass(frozen=True)
class Later:
    """A later version of Skein."""

    version: str
    path: Path

    @property
    def settings(self) -> dict[str, str]:
        """What makes a process one of this version."""
        return {"PYTHONPATH": str(self.path)}

    async def run(self, *arguments: str, **settings: str) -> CommandResult:
        """Run the command of this version to its end."""
        environment = {**test_environment(), **self.settings, **settings}
        process = await start(*arguments, environment=environment)
        out, err = await process.communicate()
        assert process.returncode is not None
        return CommandResult(process.returncode, out.decode(), err.decode())


def later(folder: Path, version: str, *texts: str) -> Later:
    """Make a later version, which has these migrations more."""
    package = folder / "skein_memory"
    shutil.copytree(Path(skein_memory.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for number, text in enumerate(texts, NEWEST + 1):
        (package / "migrations" / f"{number:04d}_later.sql").write_text(text, "utf-8")
    about = folder / f"skein_protos-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: skein-protos\nVersion: {version}\n", "utf-8")
    return Later(version, folder)
