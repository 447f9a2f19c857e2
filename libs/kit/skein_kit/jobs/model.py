"""Jobs and the rules of their pauses, limits and progress. No gRPC, no SQL, no clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from google.protobuf.duration_pb2 import Duration


class JobKind(StrEnum):
    """Kinds of background work that a tenant can pause and limit."""

    EMBEDDING = "embedding"
    REINDEX = "reindex"
    DECAY = "decay"
    CONSOLIDATION = "consolidation"
    IMPORT = "import"
    RETENTION = "retention"
    EXPIRY = "expiry"
    ARCHIVE = "archive"
    SESSION_ARCHIVE = "session_archive"
    SUMMARIES = "summaries"
    EXTRACTION = "extraction"
    MODEL_EXTRACTION = "model_extraction"


class JobState(StrEnum):
    """What a job does at a time."""

    IDLE = "idle"
    RUNNING = "running"
    PAUSED = "paused"
    CEILING_REACHED = "ceiling_reached"


# A bucket holds the items of this time, so that rounds a few seconds apart use the whole rate.
BURST_SECONDS = 10.0
# When the caller of a job that is paused, or has reached its ceiling, asks again.
BLOCKED_SECONDS = 60.0
# Counts of remaining items stop here.
MAX_COUNTED = 10_000
# The weight of a batch in the recent rate falls to a third after this time.
_RATE_SECONDS = 60.0
_MIN_BATCH_SECONDS = 0.001
# A bucket that was refilled longer than this after now was refilled by a clock that was ahead.
_MAX_CLOCK_LEAD = timedelta(minutes=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """Items of the next batch of a job."""

    kind: JobKind
    # 0: the batch does not begin.
    count: int
    # Expected cost of one item.
    item_cost: int = 1
    # Seconds after which the rest may be granted; 0: all was granted.
    retry_seconds: float = 0.0
    # Why nothing was granted: PAUSED or CEILING_REACHED, else RUNNING.
    state: JobState = JobState.RUNNING
    # The items and their cost were taken from the job's limits.
    is_reserved: bool = False
    # The job before the batch; None: it has never run and has no limits.
    job: Job | None = None
    # Midnight (UTC) of the day whose ceiling the cost was taken from; None: nothing was reserved.
    day_time: datetime | None = None

    def rest(self, *, has_more: bool) -> float:
        """Return the seconds after which the caller asks again for what is left; 0: at once, or nothing is left."""
        return self.retry_seconds if has_more and self.retry_seconds else 0.0

    @property
    def begins_run(self) -> bool:
        """Whether the job had nothing left before this batch, so that what remains is not counted yet."""
        return self.job is None or not self.job.is_running or self.job.remaining_count is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What a batch did."""

    done_count: int
    # None: as many as items were done.
    cost: int | None = None
    # Items left; None: those left before, without the done ones.
    remaining_count: int | None = None
    has_more: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """The pause, the limits and the progress of one kind of work in one tenant."""

    kind: JobKind
    pause_time: datetime | None = None
    paused_by: str = ""
    items_per_second: float | None = None
    max_cost_per_day: int | None = None
    # Tokens of the bucket at the refill time. Negative after a batch that was larger than its grant.
    tokens: float = 0.0
    refill_time: datetime
    # Midnight (UTC) of the day whose cost is counted.
    day_time: datetime
    day_cost: int = 0
    run_start_time: datetime | None = None
    done_count: int = 0
    remaining_count: int | None = None
    recent_rate: float = 0.0
    last_batch_time: datetime | None = None
    is_running: bool = False

    @classmethod
    def create(cls, kind: JobKind, at: datetime) -> Job:
        """Return a job that has never run."""
        return cls(kind=kind, refill_time=at, day_time=midnight(at))

    @property
    def is_limited(self) -> bool:
        """Whether a batch needs a grant from the job's limits."""
        return self.items_per_second is not None or self.max_cost_per_day is not None

    def cost_of_day(self, at: datetime) -> int:
        """Return the cost since midnight."""
        return self.day_cost if self.day_time == midnight(at) else 0

    def state(self, at: datetime) -> JobState:
        """Return what the job does."""
        if self.pause_time is not None:
            return JobState.PAUSED
        if self.max_cost_per_day is not None and self.cost_of_day(at) >= self.max_cost_per_day:
            return JobState.CEILING_REACHED
        return JobState.RUNNING if self.is_running else JobState.IDLE

    def rate(self, at: datetime) -> float:
        """Return the items per second of the last minute or so."""
        if self.last_batch_time is None:
            return 0.0
        return self.recent_rate * math.exp(-_seconds(self.last_batch_time, at) / _RATE_SECONDS)

    def expected_end(self, at: datetime, *, counts_items: bool) -> datetime | None:
        """Return when the run ends at the recent rate, within the limits; None when that is unknown.

        `counts_items`: the cost of an item is 1, so the ceiling divides the remaining items into days.
        """
        rate = self.rate(at)
        if self.items_per_second is not None:
            rate = min(rate, self.items_per_second)
        if self.pause_time is not None or not self.is_running or self.remaining_count is None or rate <= 0:
            return None
        remaining, start = self.remaining_count, at
        if self.max_cost_per_day is not None and counts_items:
            if self.max_cost_per_day == 0:
                return None
            today = max(0, self.max_cost_per_day - self.cost_of_day(at))
            if remaining > today:
                days, remaining = divmod(remaining - today, self.max_cost_per_day)
                if days > _MAX_DAYS:
                    return None
                start = midnight(at) + (days + 1) * _DAY
        seconds = remaining / rate
        return None if seconds > _MAX_DAYS * _DAY.total_seconds() else start + timedelta(seconds=seconds)

    def grant(self, count: int, at: datetime, *, item_cost: int = 1, ignores_burst: bool = False) -> tuple[Grant, Job]:
        """Take up to `count` items, and their cost, from the limits; return the grant and the job after it.

        `ignores_burst`: one token grants all items, and later batches wait for the missing tokens.
        """
        state = self.state(at)
        if state in {JobState.PAUSED, JobState.CEILING_REACHED}:
            return Grant(kind=self.kind, count=0, retry_seconds=BLOCKED_SECONDS, state=state, job=self), self
        job, granted, retry = self._refilled(at), count, 0.0
        if job.items_per_second is not None:
            available = count if ignores_burst and job.tokens >= 1 else math.floor(job.tokens)
            granted = max(0, min(granted, available))
            if granted < count:
                missing = min(count - granted, job.burst) - (job.tokens - granted)
                retry = missing / job.items_per_second
        if job.max_cost_per_day is not None:
            affordable = (job.max_cost_per_day - job.day_cost) // max(1, item_cost)
            if affordable < granted:
                granted, retry = affordable, BLOCKED_SECONDS
                state = state if granted else JobState.CEILING_REACHED
        grant = Grant(
            kind=self.kind,
            count=granted,
            item_cost=item_cost,
            retry_seconds=min(retry, BLOCKED_SECONDS),
            state=JobState.CEILING_REACHED if state is JobState.CEILING_REACHED else JobState.RUNNING,
            is_reserved=True,
            job=self,
            day_time=job.day_time,
        )
        return grant, replace(job, tokens=job.tokens - granted, day_cost=job.day_cost + granted * item_cost)

    def release(self, grant: Grant, at: datetime) -> Job:
        """Return the job after a batch that failed: all that was granted is free again, and the progress stays."""
        job = self._refilled(at)
        if not grant.is_reserved:
            return job
        # Reserved on the day before: nothing of today is given back.
        refund = grant.count * grant.item_cost if grant.day_time == job.day_time else 0
        return replace(job, tokens=job.tokens + grant.count, day_cost=max(0, job.day_cost - refund))

    def settle(self, grant: Grant, progress: Progress, at: datetime) -> Job:
        """Return the job after a batch: what was granted and not used is free again."""
        job = self.release(grant, at)
        cost = progress.done_count if progress.cost is None else progress.cost
        is_new_run = not self.is_running and (progress.done_count > 0 or progress.has_more)
        done = progress.done_count + (0 if is_new_run else self.done_count)
        remaining = progress.remaining_count
        if remaining is None and self.remaining_count is not None and not is_new_run:
            remaining = max(0, self.remaining_count - progress.done_count)
        return replace(
            job,
            tokens=job.tokens - progress.done_count,
            day_cost=job.day_cost + cost,
            run_start_time=at if is_new_run else self.run_start_time,
            done_count=done,
            remaining_count=remaining if progress.has_more else 0,
            recent_rate=self._rate_after(progress.done_count, at),
            last_batch_time=at,
            is_running=progress.has_more,
        )

    def paused(self, by: str, at: datetime) -> Job:
        """Return the job paused; a paused job stays as it is."""
        return self if self.pause_time is not None else replace(self, pause_time=at, paused_by=by)

    def resumed(self) -> Job:
        """Return the job without its pause."""
        return replace(self, pause_time=None, paused_by="")

    def limited(self, items_per_second: float | None, max_cost_per_day: int | None, at: datetime) -> Job:
        """Return the job with other limits. A new rate begins with a full bucket."""
        if (items_per_second, max_cost_per_day) == (self.items_per_second, self.max_cost_per_day):
            return self
        tokens = self._refilled(at).tokens
        if items_per_second != self.items_per_second and items_per_second is not None:
            tokens = _burst_of(items_per_second)
        return replace(
            self, items_per_second=items_per_second, max_cost_per_day=max_cost_per_day, tokens=tokens, refill_time=at
        )

    @property
    def burst(self) -> float:
        """Return the most items of one batch."""
        return math.inf if self.items_per_second is None else _burst_of(self.items_per_second)

    def _refilled(self, at: datetime) -> Job:
        tokens = 0.0
        if self.items_per_second is not None:
            tokens = min(self.burst, self.tokens + self.items_per_second * _seconds(self.refill_time, at))
        is_ahead = self.refill_time > at + _MAX_CLOCK_LEAD
        return replace(
            self,
            tokens=tokens,
            refill_time=at if is_ahead else max(at, self.refill_time),
            day_time=midnight(at),
            day_cost=self.cost_of_day(at),
        )

    def _rate_after(self, count: int, at: datetime) -> float:
        if self.last_batch_time is None:
            return count / _RATE_SECONDS
        elapsed = max(_MIN_BATCH_SECONDS, _seconds(self.last_batch_time, at))
        kept = math.exp(-elapsed / _RATE_SECONDS)
        return self.recent_rate * kept + count / elapsed * (1 - kept)


_MAX_DAYS = 3650


def midnight(at: datetime) -> datetime:
    """Return the start of the day of a time in UTC."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _burst_of(items_per_second: float) -> float:
    return max(1.0, items_per_second * BURST_SECONDS)


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())


def retry_delay(seconds: float) -> Duration | None:
    """Convert seconds; None for 0, which leaves the field unset."""
    if not seconds:
        return None
    result = Duration()
    result.FromTimedelta(timedelta(seconds=seconds))
    return result
