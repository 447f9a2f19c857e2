"""`python tests/bench/fairness.py`: prints what a tenant that calls ten times as often as it may costs the others.

Nothing here is asserted. Quiet tenants call at a low rate, alone and then beside a noisy one, in turns, so that what
else this machine does is fair to both; what counts is the ratio of their 95th percentiles. The noisy tenant has a
quota of requests, of which it makes ten times as many; with `--unlimited` nothing but the order of turns protects the
others. The load comes from another process on the same cores.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The folder of the tests, so that what lies in this one has a name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
import uvloop
from bench import report
from bench.arrivals import Flow, Plan, sent
from bench.figures import percentile, ratio
from bench.loading import make_tenants
from bench.subject import ONE_PROCESS, DidNotStart, data_folder, running
from bench.ways import Material
from rich import box
from rich.table import Table

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_client.client import Client

if TYPE_CHECKING:
    from bench.arrivals import Told
    from bench.loading import Member
    from bench.subject import Subject

GOAL = 1.2
# Calls a second of each quiet tenant; of the quota; and how many times it the noisy one makes.
QUIET_RATE = 1.0
QUOTA = 10
TIMES = 10
_MEMORIES = 100
_AT_ONCE = 20
_DEADLINE = 2.0
_SEED = 5
_GET, _RECALL = "/skein.memory.v1.MemoryService/GetMemory", "/skein.gateway.v1.GatewayService/Recall"
# Of the calls of every tenant.
_SHARE_OF_RECALLS = 0.5


@dataclass(kw_only=True, slots=True)
class Seen:
    """What the quiet tenants had, and the noisy one, over all rounds of one kind."""

    quiet: list[float] = field(default_factory=list)
    offered: int = 0
    refused: int = 0
    noisy_offered: int = 0
    noisy_served: int = 0
    noisy_refused: dict[str, int] = field(default_factory=dict)

    def take(self, told: Told) -> None:
        """Add a round."""
        for name, outcome in told.outcomes.items():
            refused = {reason: len(times) for reason, times in outcome.refused.items()}
            if name.startswith("noisy"):
                self.noisy_offered += outcome.offered
                self.noisy_served += len(outcome.latencies)
                for reason, count in refused.items():
                    self.noisy_refused[reason] = self.noisy_refused.get(reason, 0) + count
            else:
                self.quiet += outcome.latencies
                self.offered += outcome.offered
                self.refused += outcome.offered - len(outcome.latencies)

    def milliseconds(self, share: float) -> float:
        """Return a percentile of what the quiet tenants waited."""
        return percentile(self.quiet, share) * 1e3

    def as_json(self) -> dict[str, Any]:
        """Return the figures for a program."""
        return {
            "quiet_calls": self.offered,
            "quiet_not_answered_well": self.refused,
            "quiet_p50_ms": round(self.milliseconds(0.5), 2),
            "quiet_p95_ms": round(self.milliseconds(0.95), 2),
            "noisy_calls": self.noisy_offered,
            "noisy_served": self.noisy_served,
            "noisy_refused": self.noisy_refused,
        }


@click.command()
@click.option("--tenants", type=click.IntRange(min=1), default=10, show_default=True, help="Quiet ones.")
@click.option("--rounds", type=click.IntRange(min=1), default=4, show_default=True, help="Of each kind.")
@click.option("--seconds", type=click.FloatRange(min=1), default=10.0, show_default=True, help="Of a round.")
@click.option("--unlimited", is_flag=True, help="The noisy tenant has no quota, and calls more than can be done.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(*, tenants: int, rounds: int, seconds: float, unlimited: bool, json_file: Path | None) -> None:
    """Print the latencies of quiet tenants alone and beside a noisy one."""
    try:
        alone, beside = uvloop.run(_bench(tenants, rounds, seconds, unlimited=unlimited))
    except DidNotStart as error:
        raise click.ClickException(str(error)) from None
    if json_file is not None:
        figures = {"alone": alone.as_json(), "beside": beside.as_json(), "p95_ratio": _ratio(alone, beside)}
        json_file.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")


async def _bench(tenants: int, rounds: int, seconds: float, *, unlimited: bool) -> tuple[Seen, Seen]:
    out = report.console()
    limits = {} if unlimited else _limits()
    with data_folder() as folder:
        async with running(folder, ONE_PROCESS, **limits) as subject:
            members = await _members(subject, tenants + 1)
            flows = [flow for number, member in enumerate(members) for flow in await _flows(subject, member, number)]
            noisy_rate = QUOTA * TIMES * (2 if unlimited else 1)
            noisy = [
                replace(flow, name=f"noisy {flow.name}", rate=flow.rate / QUIET_RATE * noisy_rate) for flow in flows[:2]
            ]
            quiet = flows[2:]
            plan = Plan(address=subject.addresses["gateway"], seconds=seconds, deadline=_DEADLINE, flows=quiet)
            await sent(replace(plan, seconds=3.0))
            alone, beside = Seen(), Seen()
            for seed in range(rounds):
                alone.take(await sent(replace(plan, seed=seed)))
                beside.take(await sent(replace(plan, seed=seed, flows=[*quiet, *noisy])))
                # The allowance of the noisy one fills again.
                await asyncio.sleep(1.0)
    out.print(_table(alone, beside))
    times = _ratio(alone, beside)
    out.print(
        f"p95 of {tenants} quiet tenants beside one at {'no limit' if unlimited else f'{TIMES} × its quota'}: "
        f"{times:.2f} × what it is alone (goal < {GOAL}: {'met' if times < GOAL else 'missed'})"
    )
    return alone, beside


def _limits() -> dict[str, str]:
    """Return settings that limit every tenant to the quota, which the quiet ones do not come near."""
    return {"SKEIN_TENANT_REQUESTS_PER_SECOND": str(QUOTA), "SKEIN_TENANT_REQUEST_BURST": str(QUOTA)}


async def _members(subject: Subject, count: int) -> list[Member]:
    connection = await asyncpg.connect(subject.database_url)
    try:
        return await make_tenants(connection, count)
    finally:
        await connection.close()


async def _flows(subject: Subject, member: Member, number: int) -> list[Flow]:
    """Give a tenant some memories, and return how it calls."""
    material = Material((), _SEED + number)
    memory_ids: list[str] = []
    async with Client(endpoint=subject.addresses["gateway"], api_key=member.api_key, timeout=60.0) as skein:
        for _ in range(_MEMORIES // _AT_ONCE):
            batch = [material.memory() for _ in range(_AT_ONCE)]
            made = await skein.memories.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=batch))
            memory_ids += [memory.memory_id for memory in made.memories]
    ids = itertools.cycle(memory_ids)
    reads = [memory_pb2.GetMemoryRequest(memory_id=next(ids)).SerializeToString().hex() for _ in memory_ids]
    asked = [gateway_pb2.RecallRequest(query=material.question()).SerializeToString().hex() for _ in memory_ids]
    metadata = {"authorization": f"Bearer {member.api_key}"}
    return [
        Flow(
            name=f"recall {number}",
            path=_RECALL,
            rate=QUIET_RATE * _SHARE_OF_RECALLS,
            requests=asked,
            metadata=metadata,
        ),
        Flow(
            name=f"get {number}",
            path=_GET,
            rate=QUIET_RATE * (1 - _SHARE_OF_RECALLS),
            requests=reads,
            metadata=metadata,
        ),
    ]


def _ratio(alone: Seen, beside: Seen) -> float:
    return ratio(beside.milliseconds(0.95), alone.milliseconds(0.95)) or 0.0


def _table(alone: Seen, beside: Seen) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("quiet tenants")
    for name in ("calls", "not well", "p50 ms", "p95 ms", "noisy calls", "served", "refused"):
        made.add_column(name, justify="right")
    for name, seen in (("alone", alone), ("beside a noisy one", beside)):
        made.add_row(
            name,
            f"{seen.offered:,}",
            f"{seen.refused:,}",
            f"{seen.milliseconds(0.5):.1f}",
            f"{seen.milliseconds(0.95):.1f}",
            f"{seen.noisy_offered:,}",
            f"{seen.noisy_served:,}",
            ", ".join(f"{count:,} {reason}" for reason, count in seen.noisy_refused.items()),
        )
    return made


if __name__ == "__main__":
    main()
