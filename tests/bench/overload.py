"""`python tests/bench/overload.py`: prints what a cluster still does when more is asked of it than it can do.

Nothing here is asserted. Its capacity is measured first, with as many calls in flight as keep it busy; then calls
arrive at multiples of it, by chance and whether or not earlier ones are answered. Goodput is what is answered well
within the deadline. The cluster is a `skein up` of its own; the load comes from another process on the same cores,
which sends what was serialised before and takes some hundred microseconds a call.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The folder of the tests, so that what lies in this one has a name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import uvloop
from bench import household, processes, report
from bench.arrivals import Flow, Plan, sent
from bench.figures import ratio
from bench.subject import FORMS, ONE_PROCESS, DidNotStart, data_folder, running
from bench.ways import Material
from rich import box
from rich.table import Table

from skein.gateway.v1 import gateway_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.arrivals import Outcome
    from bench.household import Household
    from bench.subject import Subject
    from google.protobuf.message import Message

LOADS = (0.5, 1.0, 1.5, 2.0, 3.0)
GOAL_LOAD, GOAL = 2.0, 0.8
HEALTH_SECONDS = 1.0
_HEALTH = "health"
_SEED = 3
_STORED = 600
_REQUESTS = 400
_BUSY = 16
_HEALTH_CHECKS = 5.0
# What a fleet of agents asks: shares of the calls.
_MIX = {"Recall": 0.4, "AppendMessages": 0.2, "CreateMemory": 0.2, "GetMemory": 0.2}
_PATHS = {
    "Recall": "/skein.gateway.v1.GatewayService/Recall",
    "AppendMessages": "/skein.session.v1.SessionService/AppendMessages",
    "CreateMemory": "/skein.memory.v1.MemoryService/CreateMemory",
    "GetMemory": "/skein.memory.v1.MemoryService/GetMemory",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What came of one load."""

    times: float
    seconds: float
    outcomes: Sequence[Outcome] = field(repr=False)
    health: Outcome = field(repr=False)
    deadline: float
    capacity: float
    resident_before: int
    resident_after: int
    client_cpu: float
    lag: float

    @property
    def goodput(self) -> float:
        """Return how many calls a second were answered well in time."""
        return sum(outcome.within(self.deadline) for outcome in self.outcomes)

    def as_json(self) -> dict[str, Any]:
        """Return the figures for a program."""
        every = merged(self.outcomes)
        return {
            "times_capacity": self.times,
            "offered_per_second": round(every.offered / self.seconds, 1),
            "goodput_per_second": round(self.goodput, 1),
            "goodput_of_capacity": round(ratio(self.goodput, self.capacity) or 0.0, 3),
            "p50_ms": round(every.milliseconds(0.5), 1),
            "p95_ms": round(every.milliseconds(0.95), 1),
            "p99_ms": round(every.milliseconds(0.99), 1),
            "refused": {reason: len(times) for reason, times in every.refused.items()},
            "others": every.others,
            "shed_share": round(every.shed, 3),
            "without_a_reason_share": round(every.lost, 3),
            "resident_mib": [self.resident_before >> 20, self.resident_after >> 20],
            "health_answered": len(self.health.latencies),
            "health_asked": self.health.offered,
            "health_worst_ms": round(self.health.milliseconds(1.0), 1),
            "client_cpu_share": round(self.client_cpu / self.seconds, 3),
            "client_lag_ms": round(self.lag * 1e3, 1),
            "methods": {
                outcome.name: {
                    "offered": outcome.offered,
                    "within_deadline": round(outcome.within(self.deadline), 1),
                    "p50_ms": round(outcome.milliseconds(0.5), 1),
                }
                for outcome in self.outcomes
            },
        }


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """Return what came of several flows together."""
    whole = replace(outcomes[0], name="all", latencies=[], refused={}, others={}, offered=0)
    for outcome in outcomes:
        whole.latencies += outcome.latencies
        whole.offered += outcome.offered
        for reason, times in outcome.refused.items():
            whole.refused.setdefault(reason, []).extend(times)
        for code, count in outcome.others.items():
            whole.others[code] = whole.others.get(code, 0) + count
    return whole


@click.command()
@click.option("--seconds", type=click.FloatRange(min=1), default=12.0, show_default=True, help="Of each load.")
@click.option("--deadline", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Of each call.")
@click.option("--only", type=click.Choice(list(_MIX)), help="This method alone, instead of the mix.")
@click.option("--off", is_flag=True, help="Without admission control, for comparison.")
@click.option("--form", type=click.Choice(list(FORMS)), default=ONE_PROCESS, show_default=True, help="Processes.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(*, seconds: float, deadline: float, only: str | None, off: bool, form: str, json_file: Path | None) -> None:
    """Print goodput, latencies, refusals and memory at multiples of what the cluster can do."""
    mix = {only: 1.0} if only else _MIX
    try:
        loads = uvloop.run(_bench(form, mix, seconds=seconds, deadline=deadline, off=off))
    except DidNotStart as error:
        raise click.ClickException(str(error)) from None
    if json_file is not None:
        json_file.write_text(json.dumps([load.as_json() for load in loads], indent=2) + "\n", "utf-8")


async def _bench(form: str, mix: Mapping[str, float], *, seconds: float, deadline: float, off: bool) -> list[Load]:
    out = report.console()
    settings = {"SKEIN_ADMISSION": "false"} if off else {}
    loads: list[Load] = []
    with data_folder() as folder:
        async with running(folder, form, **settings) as subject:
            home = await household.moved_in(subject, memories=_STORED, messages=_STORED)
            flows = _flows(subject, home, mix)
            plan = Plan(address=subject.addresses["gateway"], seconds=seconds, deadline=deadline, flows=flows)
            warm = replace(plan, seconds=3.0, in_flight=_BUSY, deadline=10.0)
            await sent(warm)
            busy = await sent(replace(warm, seconds=min(seconds, 10.0)))
            capacity = sum(outcome.within(deadline) for outcome in busy.outcomes.values())
            out.print(
                f"Capacity: {capacity:.0f} calls a second with {_BUSY} in flight ({', '.join(mix)}), load average "
                f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
            )
            for number, times in enumerate(LOADS):
                loads.append(await _loaded(subject, plan, times, capacity, seed=number))
                await asyncio.sleep(1.0)
    out.print(_table(loads))
    for load in loads:
        if load.times == GOAL_LOAD:
            share = ratio(load.goodput, capacity) or 0.0
            met = "met" if share >= GOAL else "missed"
            out.print(f"Goodput at {GOAL_LOAD:g} × capacity: {share:.0%} of capacity (goal ≥ {GOAL:.0%}: {met})")
    worst = max(load.health.milliseconds(1.0) for load in loads)
    missing = sum(load.health.offered - len(load.health.latencies) for load in loads)
    out.print(f"Health checks: the slowest took {worst:.0f} ms, {missing} were not answered within {deadline:g} s")
    return loads


async def _loaded(subject: Subject, plan: Plan, times: float, capacity: float, *, seed: int) -> Load:
    flows = [replace(flow, rate=flow.rate * capacity * times) for flow in plan.flows]
    health = Flow(name=_HEALTH, path="/grpc.health.v1.Health/Check", rate=_HEALTH_CHECKS, requests=[""])
    before = _resident(subject)
    told = await sent(replace(plan, flows=[*flows, health], seed=seed))
    return Load(
        times=times,
        seconds=plan.seconds,
        outcomes=[told.outcomes[flow.name] for flow in flows],
        health=told.outcomes[_HEALTH],
        deadline=plan.deadline,
        capacity=capacity,
        resident_before=before,
        resident_after=_resident(subject),
        client_cpu=told.cpu_seconds,
        lag=told.lag_seconds,
    )


def _resident(subject: Subject) -> int:
    """Return the memory of the cluster's own processes, Postgres left out."""
    family = processes.family(subject.pid)
    return sum(process.resident_bytes for process in family if process.name != "postgres")


def _flows(subject: Subject, home: Household, mix: Mapping[str, float]) -> list[Flow]:
    material, numbers = Material(home.memory_ids, _SEED), itertools.count()

    def request(method: str) -> Message:
        number = next(numbers)
        if method == "Recall":
            return gateway_pb2.RecallRequest(query=material.question())
        if method == "GetMemory":
            return material.read(number)
        made = material.append(number) if method == "AppendMessages" else material.create(number)
        # Sent more than once, and each time meant.
        made.request_id = ""
        return made

    metadata = {"authorization": f"Bearer {subject.api_key}"}
    return [
        Flow(
            name=method,
            path=_PATHS[method],
            rate=share,
            requests=[request(method).SerializeToString().hex() for _ in range(_REQUESTS)],
            metadata={**metadata, "skein-request-id": f"bench-{uuid.uuid4()}"},
        )
        for method, share in mix.items()
    ]


def _table(loads: Sequence[Load]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("× capacity", justify="right")
    for name in (
        *("offered/s", "goodput/s", "of capacity", "p50 ms", "p95 ms", "p99 ms", "shed", "no reason", "MiB"),
        *("health ms", "client CPU"),
    ):
        made.add_column(name, justify="right", no_wrap=True)
    for load in loads:
        figures = load.as_json()
        made.add_row(
            f"{load.times:g}",
            f"{figures['offered_per_second']:.0f}",
            f"{figures['goodput_per_second']:.0f}",
            f"{figures['goodput_of_capacity']:.0%}",
            *(f"{figures[name]:.0f}" for name in ("p50_ms", "p95_ms", "p99_ms")),
            f"{figures['shed_share']:.0%}",
            f"{figures['without_a_reason_share']:.0%}",
            "{}→{}".format(*figures["resident_mib"]),
            f"{figures['health_worst_ms']:.0f}",
            f"{figures['client_cpu_share']:.0%}",
        )
    return made


if __name__ == "__main__":
    main()
