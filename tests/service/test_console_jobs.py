"""The console's jobs page: progress, and forms that pause, resume and limit."""

from __future__ import annotations

from fix_cluster import Tenant
from fix_console import BrowserSession

from skein.tenancy.v1 import jobs_pb2 as pb

DECAY = "JOB_KIND_DECAY"


async def decay_job(tenant: Tenant) -> pb.Job:
    jobs = (await tenant.tenancy.GetJobs(pb.GetJobsRequest())).jobs
    return next(job for job in jobs if job.kind == pb.JOB_KIND_DECAY)


async def test_a_job_is_paused_and_resumed(web: BrowserSession, tenant: Tenant) -> None:
    answer = await web.submit(await web.page("jobs"), "pause", kind=DECAY)
    paused, page = await decay_job(tenant), await web.page("jobs")
    await web.submit(page, "resume", kind=DECAY)
    resumed = await decay_job(tenant)

    assert "done=job-pause" in answer.headers["location"]
    assert (paused.state, resumed.state) == (pb.JOB_STATE_PAUSED, pb.JOB_STATE_IDLE)
    assert "Resume decay" in page.text
    assert f"by <code>{paused.paused_by}</code>" in page.text


async def test_a_job_is_limited_and_limits_are_removed(web: BrowserSession, tenant: Tenant) -> None:
    await web.submit(await web.page("jobs"), "limit", kind=DECAY, rate="2.5", per_day="400")
    limited, page = await decay_job(tenant), await web.page("jobs")
    await web.submit(page, "limit", kind=DECAY, rate="", per_day="")
    free = await decay_job(tenant)

    assert limited.limits == pb.JobLimits(items_per_second=2.5, max_cost_per_day=400)
    assert "at most 2.5 per second" in page.text
    assert free.limits == pb.JobLimits()


async def test_limits_that_cannot_be_are_refused(web: BrowserSession, tenant: Tenant) -> None:
    page = await web.page("jobs")

    answers = [
        await web.submit(page, "limit", kind=DECAY, rate=rate, per_day=per_day)
        for rate, per_day in (("fast", ""), ("0", ""), ("nan", ""), ("", "-1"), ("", "many"))
    ]
    unknown = await web.submit(page, "pause", kind="JOB_KIND_UNSPECIFIED")

    assert [answer.status_code for answer in (*answers, unknown)] == [400] * 6
    assert (await decay_job(tenant)).limits == pb.JobLimits()
