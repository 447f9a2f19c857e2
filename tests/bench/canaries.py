"""`make soak`: no canary of a forgotten person is left anywhere, on the disk and after a restore included.

    .venv/bin/python tests/bench/canaries.py
    .venv/bin/python tests/bench/canaries.py --seed 7 --count 200

A cluster of its own learns words of one person in every field of every entity, and is backed up twice meanwhile. After
Forget it looks for them in rows, searches, exports that were begun before, dead letters, cold storage and, once dead
rows and the log are gone, in each byte of the disk. Both backups are restored to moments before the Forget. It fails
when a word is found, when a proof fails, or when a changed certificate verifies.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from fix_cluster import Cluster, Tenant
from rich.console import Console

from skein_cluster.backup.repository import Backup

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/canaries.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
from bench import report
from fix_canaries import PERSON, Canaries, DeadLetters, Exports, published_keys
from fix_cluster import running_cluster
from fix_disk import files_holding, spellings, write_anew
from fix_drill import backed_up, environment_of, open_folder
from fix_forgetting import finish
from fix_marker import files_with, packed_files_with, places_of

from skein.auth.v1 import certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein_cluster import embedded
from skein_cluster.backup import restore as restoring
from skein_cluster.backup.repository import BackupRepository
from skein_cluster.certificates import proof
from skein_kit.erasure_certificates import document

_CALLERS = 4
_STATUS_503 = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_STATUS_204 = b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
# Every so many words is asked for before the Forget, so that caches know its answers.
_WARM_STEP = 10


@dataclass
class Receiver:
    """A receiver of webhooks that is away at first, and keeps what it is sent."""

    url: str = ""
    is_away: bool = True
    bodies: list[bytes] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def listening(cls) -> AsyncIterator[Receiver]:
        receiver = cls()
        server = await asyncio.start_server(receiver.answer, "127.0.0.1", 0)
        receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        try:
            yield receiver
        finally:
            server.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            body = await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0]))
            if not self.is_away:
                self.bodies.append(head.encode() + body)
            writer.write(_STATUS_503 if self.is_away else _STATUS_204)
            await writer.drain()
        writer.close()


@dataclass(kw_only=True)
class Trial:
    """The attempt, what it saw, and what it found that should not be."""

    place: Path
    seed: int
    count: int
    receiver: Receiver
    out: Console
    canaries: Canaries
    failures: list[str] = field(default_factory=list)
    # Each with a moment before the Forget.
    backups: list[tuple[Backup, datetime]] = field(default_factory=list)
    file: bytes = b""
    keys: dict[str, Ed25519PublicKey] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **environment_of(self.place, "first"),
            "SKEIN_OUTBOUND_ALLOW": self.receiver.url.removesuffix("/hook"),
        }

    def note(self, text: str) -> None:
        """Print what was done."""
        self.out.print(f"{time.monotonic() - self._started:4.0f} s  {text}", style="dim")

    def check(self, what: str, found: Any) -> None:
        """Note a failure if something was found."""
        if found:
            self.failures.append(f"{what}: {str(found)[:300]}")

    def _folders(self, cluster: Cluster) -> list[Path]:
        """Return where the cluster keeps everything but its backups."""
        return [cluster.postgres.data_dir, self.place / "first"]

    async def run(self) -> None:
        """Plant, forget, and look everywhere."""
        async with running_cluster(self.place / "first", self.environment) as cluster:
            tenant = await cluster.new_tenant()
            async with cluster.superuser() as connection:
                letters = await DeadLetters.listening(cluster, tenant, self.receiver.url)
                await self._plant(cluster, tenant, connection)
                dead = await letters.die(connection)
                exports = await self._look_before(cluster, tenant, connection)
                response = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id=PERSON), timeout=300)
                await finish(connection, tenant, cluster.addresses)
                self.note(f"forgotten; {dead:,} deliveries are dead")
                await self._look_after(cluster, tenant, connection, exports)
                await self._deliver_again(letters, connection)
                await self._certify(tenant, connection, response.certificate_id)
                await self._read_disk(cluster, connection)
        for name, (backup, moment) in zip(("second", "third"), self.backups, strict=True):
            await self._restore(name, backup, moment)

    async def _plant(self, cluster: Cluster, tenant: Tenant, connection: Any) -> None:
        await self.canaries.plant_person(tenant)
        for share in (2, 1):
            await self.canaries.plant_until(tenant, self.count // share)
            backup = await backed_up(self.place / "first", self.environment)
            self.backups.append((backup, await connection.fetchval("SELECT clock_timestamp()")))
        missing = set(self.canaries.planted) - await self.canaries.found(connection, cluster)
        self.check("planted, but nowhere before the Forget", missing)
        tables = {place.rpartition(".")[0] for place in await places_of(connection, self.canaries.prefix)}
        self.note(f"{len(self.canaries.planted):,} canaries in {len(tables)} tables, and two backups")

    async def _look_before(self, cluster: Cluster, tenant: Tenant, connection: Any) -> Exports:
        exports = await Exports.begin(tenant)
        self.check("an export is over", not exports.are_in_progress)
        known = 0
        for word in self.canaries.planted[::_WARM_STEP]:
            known += any(
                self.canaries.prefix in text.replace(word, "") for text in await self.canaries.answers(tenant, word)
            )
        self.check("no search knew a canary before the Forget", not known)
        self.check("cold storage knew no canary before the Forget", not files_with(cluster, self.canaries.prefix))
        await connection.execute("CHECKPOINT")
        held = await asyncio.to_thread(files_holding, self._folders(cluster), spellings(self.canaries.prefix))
        kinds = {name.partition("/")[0] for name in held}
        self.check("tables or the log knew no canary before the Forget", {"base", "pg_wal"} - kinds)
        self.note(f"{len(held):,} files hold canaries")
        return exports

    async def _look_after(self, cluster: Cluster, tenant: Tenant, connection: Any, exports: Exports) -> None:
        self.check("rows", await places_of(connection, self.canaries.prefix))
        self.check("cold storage", files_with(cluster, self.canaries.prefix))
        pages = [page async for page in exports.rest()]
        self.check("exports in progress", [page for page in pages if self.canaries.prefix in page])
        words = iter(self.canaries.planted)

        async def ask(words: Iterator[str]) -> None:
            for word in words:
                for text in await self.canaries.answers(tenant, word):
                    # An answer may repeat the question.
                    self.check(f"the search for {word}", self.canaries.prefix in text.replace(word, ""))

        await asyncio.gather(*(ask(words) for _ in range(_CALLERS)))
        # Asking is no trace: the audit log has no text of a query unless the policy says so.
        self.check("rows after the searches", await places_of(connection, self.canaries.prefix))
        self.note(f"{4 * len(self.canaries.planted):,} searches and {len(pages):,} pages of exports")

    async def _deliver_again(self, letters: DeadLetters, connection: Any) -> None:
        self.receiver.is_away = False
        seen = await letters.retry(connection)
        self.check("no dead letter was delivered again", not self.receiver.bodies)
        prefix = self.canaries.prefix
        self.check("dead letters", [text for text in seen if prefix in text])
        self.check("deliveries", [body for body in self.receiver.bodies if prefix.encode() in body])
        self.note(f"{len(self.receiver.bodies):,} dead letters delivered again")

    async def _certify(self, tenant: Tenant, connection: Any, certificate_id: str) -> None:
        request = certificates_pb2.GetErasureCertificateRequest(certificate_id=certificate_id)
        self.file = (await tenant.auth.GetErasureCertificate(request)).certificate.document.encode()
        self.keys = await published_keys(tenant)
        await self._prove("the running cluster", connection)
        source, accepted = random.Random(self.seed), 0
        for _ in range(self.count):
            at, digit = source.randrange(len(self.file)), source.randrange(32, 127)
            changed = self.file[:at] + bytes([digit]) + self.file[at + 1 :]
            with suppress(document.CertificateInvalid):
                document.verify(changed, self.keys)
                accepted += changed != self.file
        self.check("changed certificates that verify", accepted)
        self.note(f"a certificate of {len(self.file):,} bytes, and {self.count:,} changed ones")

    async def _prove(self, where: str, connection: Any) -> None:
        proved = await proof.prove(connection, document.verify(self.file, self.keys), [("subject", PERSON)])
        self.check(f"{where} disproves the certificate", None if proved.is_gone else proved)

    async def _read_disk(self, cluster: Cluster, connection: Any) -> None:
        """Read each byte after the steps of docs/security/erasure.md."""
        await write_anew(connection)
        folders = self._folders(cluster)
        self.check("the disk", await asyncio.to_thread(files_holding, folders, spellings(self.canaries.prefix)))
        total = sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())
        self.note(f"{total / 2**20:,.0f} MiB of disk read after VACUUM FULL")

    async def _restore(self, name: str, backup: Backup, moment: datetime) -> None:
        """Restore a backup to a moment before the Forget, and look for what the restore purges again."""
        repository = BackupRepository(Path(self.environment["SKEIN_BACKUP_DIR"]))
        environment = environment_of(self.place, name)
        result = await restoring.restore(
            repository, backup, self.place / name, environment, to=moment, timeline=None, on_progress=_hear_nothing
        )
        self.check(f"{name}: nothing was purged again", not result.purged)
        async with embedded.running_server(self.place / name / "postgres") as server:
            connection = await asyncpg.connect(**server.dsn())
            try:
                self.check(f"rows of the {name} cluster", await places_of(connection, self.canaries.prefix))
                self.check(
                    f"cold storage of the {name} cluster",
                    packed_files_with(self.place / name, self.canaries.prefix),
                )
                await self._prove(f"the {name} cluster", connection)
            finally:
                await connection.close()
        self.note(f"restored to {moment:%H:%M:%S}: purged again {_counts(result.purged)}")


@click.command()
@click.option("--seed", type=int, default=25, show_default=True, help="Of the words and of the changed certificates.")
@click.option("--count", type=click.IntRange(min=100), default=1000, show_default=True, help="Least number of words.")
def main(*, seed: int, count: int) -> None:
    """Plant canaries, forget the person, and look everywhere; exit with 1 when one is left."""
    sys.exit(0 if asyncio.run(_bench(seed, count)) else 1)


async def _bench(seed: int, count: int) -> bool:
    out = report.console()
    with open_folder() as place:
        async with Receiver.listening() as receiver:
            canaries = Canaries.of_seed(seed)
            trial = Trial(place=place, seed=seed, count=count, receiver=receiver, out=out, canaries=canaries)
            await trial.run()
    for failure in trial.failures[:20]:
        out.print(f"FOUND: {failure}")
    planted = len(canaries.planted)
    out.print(
        f"FAIL: {len(trial.failures)} finds." if trial.failures else f"PASS: none of {planted:,} canaries is left."
    )
    return not trial.failures


def _counts(purged: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in purged.items() if count)


def _hear_nothing(_text: str) -> None:
    """Ignore progress."""


if __name__ == "__main__":
    main()
