"""`python tests/bench/forgeries.py`: prints what honest callers notice of 2,000 invented credentials a second.

Nothing here is asserted. Honest calls come with many keys, each so seldom that every call is an exchange. They are
measured alone, and beside each kind of invented credential from the same address, in a `skein cluster` of its own: a
process for each service, on the cores that the load client needs as well.
"""

from __future__ import annotations

import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

# The folder of the tests, so that what lies in this one has a name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
import uvloop
from bench import processes, report
from bench.arrivals import Flow, Plan, sent
from bench.loading import make_tenants
from bench.subject import FORMS, PROCESSES, data_folder, running
from rich import box
from rich.table import Table

from skein_auth.api_keys.model import ApiKeyToken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.arrivals import Outcome

GET_ME = "/skein.auth.v1.AuthService/GetMe"
# Every honest key calls once in eight seconds: the gateway remembers an exchange for less than half of that.
HONEST_KEYS, HONEST_RATE = 200, 0.125
FORGED_KEYS = 1000
# Parts of a cluster of separate processes, by what their command lines hold.
PARTS = ("gateway", "auth", "tenancy", "postgres")
DEADLINE_SECONDS = 5.0
KINDS: Mapping[str, Callable[[], str]] = {
    "legacy tokens": lambda: uuid.uuid4().hex,
    "invented keys": lambda: ApiKeyToken.new(uuid.uuid4(), uuid.uuid4(), b"an attacker's").encode(),
    "keys without check digits": lambda: ApiKeyToken.new(uuid.uuid4(), uuid.uuid4()).encode(),
}


@click.command()
@click.option("--rate", default=2000.0, show_default=True, help="Invented credentials a second.")
@click.option("--seconds", default=20.0, show_default=True, help="How long each is measured.")
@click.option("--form", type=click.Choice(list(FORMS)), default=PROCESSES, show_default=True)
def main(rate: float, seconds: float, form: str) -> None:
    """Print the latencies of honest exchanges alone and beside floods."""
    uvloop.run(_print(rate, seconds, form))


async def _print(rate: float, seconds: float, form: str) -> None:
    out = report.console()
    names = (
        "beside",
        "honest calls",
        "p50 ms",
        "p99 ms",
        "refused",
        "forged answered",
        *(f"{p} ms CPU" for p in PARTS),
    )
    table = Table(*names, box=box.SIMPLE)
    with data_folder() as folder:
        async with running(folder, form) as subject:
            connection = await asyncpg.connect(dsn=subject.database_url)
            try:
                members = await make_tenants(connection, HONEST_KEYS)
            finally:
                await connection.close()
            honest = [_flow("honest", member.api_key, HONEST_RATE) for member in members]
            address = subject.addresses["gateway"]
            await _measured(address, honest, [], seconds / 2)
            spent = _spent(subject.pid)
            found = await _measured(address, honest, [], seconds)
            quiet = _difference(_spent(subject.pid), spent)
            _row(table, "nothing", found, quiet)
            for kind, make in KINDS.items():
                flood = [_flow("forged", make(), rate / FORGED_KEYS) for _ in range(FORGED_KEYS)]
                spent = _spent(subject.pid)
                found = await _measured(address, honest, flood, seconds)
                _row(table, f"{rate:,.0f}/s {kind}", found, _difference(_spent(subject.pid), spent))
    out.print(table)


def _flow(name: str, credential: str, rate: float) -> Flow:
    metadata = {"authorization": f"Bearer {credential}"}
    return Flow(name=f"{name} {uuid.uuid4().hex}", path=GET_ME, rate=rate, requests=[""], metadata=metadata)


async def _measured(
    address: str, honest: Sequence[Flow], flood: Sequence[Flow], seconds: float
) -> Mapping[str, list[Outcome]]:
    """Return what came of the honest flows and of the forged ones."""
    plan = Plan(address=address, seconds=seconds, deadline=DEADLINE_SECONDS, flows=[*honest, *flood])
    told = await sent(plan)
    return {
        kind: [outcome for name, outcome in told.outcomes.items() if name.startswith(kind)]
        for kind in ("honest", "forged")
    }


def _spent(pid: int) -> dict[str, float]:
    """Return the processor time of each part of a cluster so far, in seconds."""
    spent = dict.fromkeys(PARTS, 0.0)
    for process in processes.family(pid):
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        part = next((part for part in PARTS if part in command), None)
        if part is not None:
            spent[part] += process.cpu_seconds
    return spent


def _difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {part: after[part] - before[part] for part in PARTS}


def _row(table: Table, beside: str, found: Mapping[str, list[Outcome]], spent: Mapping[str, float]) -> None:
    honest, forged = found["honest"], found["forged"]
    latencies = sorted(latency for outcome in honest for latency in outcome.latencies)
    offered = sum(outcome.offered for outcome in honest)
    refused: Counter[str] = Counter()
    for outcome in honest:
        refused.update(outcome.others)
        refused.update({reason: len(times) for reason, times in outcome.refused.items()})
    answered = sum(sum(o.others.values()) + sum(map(len, o.refused.values())) for o in forged)
    table.add_row(
        beside,
        f"{offered}",
        f"{_share(latencies, 0.5):.1f}",
        f"{_share(latencies, 0.99):.1f}",
        " ".join(f"{name}:{count}" for name, count in sorted(refused.items())) or "0",
        f"{answered}",
        *(f"{spent[part] * 1e3:.0f}" for part in PARTS),
    )


def _share(latencies: Sequence[float], share: float) -> float:
    return latencies[min(len(latencies) - 1, int(share * len(latencies)))] * 1e3 if latencies else float("nan")


if __name__ == "__main__":
    sys.exit(main())
