-- list_jobs --
-- Read the jobs that have run, are paused or are limited.
SELECT kind, pause_time, paused_by, items_per_second, max_cost_per_day, tokens, refill_time, day_time, day_cost, run_start_time,
    done_count, remaining_count, recent_rate, last_batch_time, is_running
FROM tenancy.jobs
WHERE tenant_id = :tenant_id;

-- update_job_control --
-- Change the pause and the limits of a job that the transaction has locked.
UPDATE tenancy.jobs
SET pause_time = :pause_time, paused_by = :paused_by, items_per_second = :items_per_second,
    max_cost_per_day = :max_cost_per_day, tokens = :tokens, refill_time = :refill_time
WHERE tenant_id = :tenant_id AND kind = :kind;
