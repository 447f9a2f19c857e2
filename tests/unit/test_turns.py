"""Whose call is next: fair, short and bounded, against simulated servers on a clock of their own."""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from statistics import median

import pytest
from fix_catalogue import over

from skein_kit.admission.adaptive_limit import AdaptiveLimit
from skein_kit.admission.fair_queue import BURST, CallState, FairQueue, QueuedCall

WAIT = 0.1
TICK = 0.001
# Of one call, on the simulated processor: a hundred calls a second.
WORK = 0.01
CAPACITY = 1 / WORK
# How late the simulated event loop is for each call that is worked on.
LAG = 0.0005


def turns(*, calls: int = 1, waiting: int = 1000, wait: float = WAIT) -> FairQueue:
    """Return turns for a fixed number of calls at once."""
    return FairQueue(
        AdaptiveLimit(minimum=calls, maximum=calls, target_seconds=1.0), max_waiting=waiting, wait_seconds=wait
    )


@dataclass(slots=True)
class Job:
    """A call that is worked on."""

    turn: QueuedCall
    tenant: str
    remaining_seconds: float


@dataclass(slots=True)
class Server:
    """One processor that works on all running calls in turn, and callers that go by themselves."""

    rates: dict[str, float]
    costs: dict[str, float] = field(default_factory=dict)
    at: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(5))
    offered: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _running: deque[Job] = field(default_factory=deque)
    _waiting: list[tuple[QueuedCall, str]] = field(default_factory=list)
    limit: AdaptiveLimit = field(default_factory=lambda: AdaptiveLimit(minimum=4, maximum=200, target_seconds=0.01))
    turns: FairQueue = field(init=False)

    def __post_init__(self) -> None:
        self.turns = FairQueue(self.limit, max_waiting=1000, wait_seconds=WAIT)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / TICK)):
            self.at += TICK
            for tenant, rate in self.rates.items():
                expected = rate * TICK
                count = int(expected) + (self.chance.random() < expected % 1)
                for _ in range(count):
                    self._arrive(tenant)
            self._look_at_those_who_wait()
            self.limit.observe_delay("event loop", LAG * len(self._running))
            self._work()

    def forget(self) -> None:
        """Count anew."""
        for counter in (self.offered, self.done, self.refused):
            counter.clear()
        self.waits.clear()

    def _arrive(self, tenant: str) -> None:
        self.offered[tenant] += 1
        turn = self.turns.enqueue(tenant, at=self.at, cost=self.costs.get(tenant, WORK))
        self._waiting.append((turn, tenant))

    def _look_at_those_who_wait(self) -> None:
        for turn, _ in self._waiting:
            if turn.state is CallState.WAITING and turn.wait_until <= self.at:
                self.turns.time_out(turn, self.at)
        for turn, tenant in self._waiting:
            if turn.state is CallState.RUNNING:
                self.waits[tenant].append(self.at - turn.arrival_time)
                self._running.append(Job(turn, tenant, self.costs.get(tenant, WORK)))
            elif turn.state is not CallState.WAITING:
                self.refused[tenant] += 1
        self._waiting = [(turn, tenant) for turn, tenant in self._waiting if turn.state is CallState.WAITING]

    def _work(self) -> None:
        if not self._running:
            return
        job = self._running.popleft()
        job.remaining_seconds -= TICK
        if job.remaining_seconds > TICK / 2:
            self._running.append(job)
        else:
            self.done[job.tenant] += 1
            self.turns.finish(job.turn, self.at)


def test_below_capacity_no_call_is_refused_or_waits_long() -> None:
    server = Server({"one": 0.7 * CAPACITY})

    server.run(20)

    assert not server.refused
    assert median(server.waits["one"]) <= 2 * TICK


def test_at_capacity_it_is_stable() -> None:
    server = Server({"one": CAPACITY})

    server.run(30)

    assert server.done["one"] / server.offered["one"] > 0.9
    assert median(server.waits["one"]) <= WAIT + TICK


@pytest.mark.system
@over("times", [1.5, 2, 3, 10])
def test_beyond_capacity_as_much_is_done_as_can_be_and_who_waits_waits_shortly(times: float) -> None:
    server = Server({"one": times * CAPACITY})
    server.run(2)
    server.forget()

    server.run(10)

    assert server.done["one"] / 10 >= 0.95 * CAPACITY
    assert median(server.waits["one"]) <= WAIT + TICK
    assert server.refused["one"] / server.offered["one"] == pytest.approx(1 - 1 / times, abs=0.05)


@pytest.mark.system
def test_it_recovers_when_the_load_falls() -> None:
    server = Server({"one": 10 * CAPACITY})
    server.run(10)
    server.rates["one"] = 0.5 * CAPACITY
    server.run(1)
    server.forget()

    server.run(10)

    assert not server.refused
    assert server.turns.waiting == 0


@pytest.mark.system
def test_a_noisy_tenant_only_waits_behind_itself() -> None:
    quiet = {f"quiet {number}": 0.05 * CAPACITY for number in range(6)}
    server = Server({**quiet, "noisy": 10 * CAPACITY})

    server.run(20)

    waits = [wait for tenant in quiet for wait in server.waits[tenant]]
    assert sum(server.refused[tenant] for tenant in quiet) <= 0.01 * len(waits)
    # Until one of those that are worked on is done, mostly.
    assert median(waits) <= 3 * WORK
    assert server.refused["noisy"] > 0.8 * server.offered["noisy"]
    assert server.done["noisy"] / 20 >= 0.9 * (CAPACITY - sum(quiet.values()))


@pytest.mark.system
def test_tenants_that_want_more_than_there_is_get_the_same() -> None:
    server = Server({"one": 3 * CAPACITY, "two": 3 * CAPACITY, "three": 1.5 * CAPACITY})

    server.run(20)

    shares = [server.done[tenant] / server.done.total() for tenant in server.rates]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.03)


@pytest.mark.system
def test_expensive_calls_count_for_what_they_cost() -> None:
    server = Server({"cheap": 6 * CAPACITY, "dear": 3 * CAPACITY}, costs={"cheap": WORK / 2, "dear": 2 * WORK})

    server.run(30)

    # It is not refused for being dear either.
    assert server.done["cheap"] / server.done["dear"] == pytest.approx(4, rel=0.15)


@pytest.mark.system
def test_an_idle_tenant_saves_nothing_up_and_owes_nothing() -> None:
    server = Server({"one": 2 * CAPACITY, "two": 0.0})
    server.run(10)
    server.rates["two"] = 2 * CAPACITY
    server.run(1)
    server.forget()

    server.run(10)

    assert server.done["one"] / server.done.total() == pytest.approx(0.5, abs=0.05)


def test_a_tenant_that_was_idle_takes_turns_with_one_that_was_busy() -> None:
    queue = turns()
    running = queue.enqueue("busy", at=0.0)
    for _ in range(10):
        following = queue.enqueue("busy", at=0.0)
        queue.finish(running, 0.0)
        running = following
    waiting = {name: [queue.enqueue(name, at=0.0) for _ in range(5)] for name in ("busy", "idle")}

    order = []
    for _ in range(10):
        queue.finish(running, 0.0)
        name, running = next(
            (name, call) for name in waiting for call in waiting[name] if call.state is CallState.RUNNING
        )
        order.append(name)

    assert Counter(order[:6]) == {"busy": 3, "idle": 3}


def test_the_operator_goes_first_and_still_leaves_room() -> None:
    server = turns(calls=8)
    running = [server.enqueue("one", at=0.0) for _ in range(8)]
    theirs = [server.enqueue("two", at=0.0) for _ in range(8)]
    ours = [server.enqueue("operators", at=0.1, has_priority=True) for _ in range(8)]

    for turn in running:
        server.finish(turn, 0.2)

    assert [turn.state for turn in ours].count(CallState.RUNNING) == 6
    assert [turn.state for turn in theirs].count(CallState.RUNNING) == 2


def test_the_calls_of_one_tenant_that_hang_do_not_take_all_room() -> None:
    server = turns(calls=8)

    hanging = [server.enqueue("hanging", at=0.0) for _ in range(20)]
    other = server.enqueue("other", at=0.0)

    assert [turn.state for turn in hanging].count(CallState.RUNNING) == 6
    assert other.state is CallState.RUNNING


def test_callers_that_go_away_leave_no_trace() -> None:
    server = turns()
    first = server.enqueue("first", at=0.0)
    waiting = [server.enqueue(number % 500, at=0.0) for number in range(900)]
    random.Random(1).shuffle(waiting)

    for turn in waiting:
        server.finish(turn, 0.1)
    server.finish(first, 0.2)

    assert (server.waiting, server.running, server.flows) == (0, 0, 0)
    assert server.enqueue("next", at=0.3).state is CallState.RUNNING


def test_a_caller_that_goes_away_when_its_turn_has_come_gives_it_back() -> None:
    server = turns()
    first, second, third = (server.enqueue(number, at=0.0) for number in range(3))
    server.finish(first, 0.01)

    server.finish(second, 0.01)

    assert (second.state, third.state) == (CallState.ENDED, CallState.RUNNING)


def test_a_call_is_given_up_in_time_to_tell_its_caller() -> None:
    server = turns()
    server.enqueue("one", at=0.0)

    turn = server.enqueue("two", at=0.0, remaining=0.08)

    assert turn.wait_until == pytest.approx(0.04)


def test_a_call_whose_time_is_over_does_not_run() -> None:
    server = turns()
    first = server.enqueue("one", at=0.0)
    late, next_one = server.enqueue("two", at=0.0, remaining=0.02), server.enqueue("three", at=0.0)

    # Nothing has polled it in the meantime.
    server.finish(first, 0.05)

    assert (late.state, next_one.state) == (CallState.LATE, CallState.RUNNING)


def test_calls_wait_longer_for_a_burst_than_in_a_standing_line() -> None:
    server = turns()
    server.enqueue("one", at=0.0)
    first = server.enqueue("two", at=0.0)

    later = server.enqueue("two", at=BURST * WAIT + 0.01)

    assert first.wait_until == pytest.approx(BURST * WAIT)
    assert later.wait_until - later.arrival_time == pytest.approx(WAIT)


def test_a_full_queue_drops_calls_of_the_longest_line() -> None:
    server = turns(waiting=10)
    server.enqueue("running", at=0.0)
    noisy = [server.enqueue("noisy", at=0.0) for _ in range(10)]
    one_more = server.enqueue("noisy", at=0.0)

    quiet = server.enqueue("quiet", at=0.0)

    assert one_more.state is CallState.FULL
    assert quiet.state is CallState.WAITING
    assert [turn.state for turn in noisy] == [*[CallState.WAITING] * 9, CallState.FULL]


def test_large_requests_take_more_room() -> None:
    server = turns(waiting=10)
    server.enqueue("running", at=0.0)

    states = [server.enqueue("large", at=0.0, size=256 * 1024).state for _ in range(3)]

    assert states == [CallState.WAITING, CallState.WAITING, CallState.FULL]


def test_costly_calls_of_one_tenant_run_one_after_another_and_wait_for_each_other() -> None:
    server = turns(calls=100)

    first, *others = [server.enqueue("one", at=0.0, cost=0.5) for _ in range(8)]

    assert first.state is CallState.RUNNING
    assert {turn.state for turn in others} == {CallState.WAITING}
    server.finish(first, 1.0)
    assert [turn.state for turn in others] == [CallState.RUNNING, *[CallState.WAITING] * 6]
    # A call that waits for the load would be refused by then.
    assert min(turn.wait_until for turn in others) > 2 * BURST * WAIT


def test_calls_up_to_the_cost_of_a_costly_one_run_side_by_side() -> None:
    limit = AdaptiveLimit(minimum=4, maximum=4, target_seconds=1.0)
    queue = FairQueue(limit, max_waiting=10, wait_seconds=WAIT, costly_seconds=2.0)

    states = [queue.enqueue("a", at=0.0, cost=1.9, size=1).state for _ in range(2)]

    assert states == [CallState.RUNNING] * 2


def test_cheap_calls_pass_the_costly_ones_of_their_tenant() -> None:
    server = turns(calls=100)
    for _ in range(8):
        server.enqueue("one", at=0.0, cost=0.5)

    states = [server.enqueue("one", at=0.0, cost=0.001).state for _ in range(8)]

    assert set(states) == {CallState.RUNNING}


def test_calls_that_together_cost_little_run_side_by_side() -> None:
    server = turns(calls=100)

    states = [server.enqueue("one", at=0.0, cost=0.02).state for _ in range(20)]

    assert set(states) == {CallState.RUNNING}


def test_costly_calls_of_many_tenants_are_bounded_together_and_take_turns() -> None:
    server = turns(calls=100)
    calls = [server.enqueue(number, at=0.0, cost=0.2) for _ in range(2) for number in range(10)]
    order: list[int] = []

    for number in range(len(calls)):
        (running,) = (turn for turn in calls if turn.state is CallState.RUNNING)
        order.append(calls.index(running) % 10)
        server.finish(running, number / 10)

    assert sorted(order[:10]) == sorted(order[10:]) == list(range(10))


def test_a_call_that_costs_little_more_than_others_waits_for_no_other_tenant() -> None:
    server = turns(calls=100)
    server.enqueue("one", at=0.0, cost=5.0)

    call = server.enqueue("two", at=0.0, cost=0.1)

    assert call.state is CallState.RUNNING


def test_a_call_that_turns_out_costly_keeps_others_of_its_tenant_waiting() -> None:
    server = turns(calls=100)
    first = server.enqueue("one", at=0.0, cost=0.001)
    server.raise_cost(first, 0.5)

    beside = server.enqueue("one", at=0.1, cost=0.001)
    other = server.enqueue("two", at=0.1, cost=0.001)

    assert (beside.state, other.state) == (CallState.WAITING, CallState.RUNNING)
    server.finish(first, 0.2)
    assert beside.state is CallState.RUNNING


def test_calls_that_wait_as_costly_ones_run_side_by_side_once_they_are_known_to_be_cheap() -> None:
    queue, expected = turns(calls=8), [0.05]
    calls = [queue.enqueue("one", at=0.0, cost=expected[0], expect=lambda: expected[0]) for _ in range(5)]
    before = [call.state for call in calls]

    expected[0] = 0.001
    queue.finish(calls[0], 1.0)

    assert before == [CallState.RUNNING] + [CallState.WAITING] * 4
    assert [call.state for call in calls[1:]] == [CallState.RUNNING] * 4


def test_calls_of_the_cluster_do_not_wait_for_each_other_whatever_they_cost() -> None:
    server = turns(calls=100)

    calls = [server.enqueue("internal", at=0.0, cost=0.5, has_priority=True) for _ in range(20)]

    assert {turn.state for turn in calls} == {CallState.RUNNING}


def test_the_line_is_bounded_however_many_tenants_there_are() -> None:
    server = turns(waiting=50)
    server.enqueue("running", at=0.0)

    states = Counter(server.enqueue(number, at=0.0).state for number in range(500))

    assert states == {CallState.WAITING: 50, CallState.FULL: 450}
    assert server.flows == 51
