-- list_directory --
-- List the tenants after one, by id, deleted ones too.
SELECT tenant_id
FROM tenancy.tenants
WHERE tenant_id > :after
ORDER BY tenant_id
LIMIT :size;

-- read_job --
-- Read a job of a tenant; no row: it has never run and has no limits.
SELECT kind, pause_time, paused_by, items_per_second, max_cost_per_day, tokens, refill_time, day_time, day_cost, run_start_time,
    done_count, remaining_count, recent_rate, last_batch_time, is_running
FROM tenancy.jobs
WHERE tenant_id = :tenant_id AND kind = :kind;

-- lock_job --
-- Read a job and keep others from changing it until the transaction ends.
SELECT kind, pause_time, paused_by, items_per_second, max_cost_per_day, tokens, refill_time, day_time, day_cost, run_start_time,
    done_count, remaining_count, recent_rate, last_batch_time, is_running
FROM tenancy.jobs
WHERE tenant_id = :tenant_id AND kind = :kind
FOR NO KEY UPDATE;

-- insert_job --
-- Insert the row of a job that runs, is paused or is limited for the first time.
INSERT INTO tenancy.jobs (tenant_id, kind, refill_time, day_time)
VALUES (:tenant_id, :kind, :refill_time, :day_time)
ON CONFLICT ON CONSTRAINT jobs_pkey DO NOTHING;

-- update_job_progress --
-- Change the bucket, the cost and the progress of a job that the transaction has locked.
UPDATE tenancy.jobs
SET tokens = :tokens, refill_time = :refill_time, day_time = :day_time, day_cost = :day_cost,
    run_start_time = :run_start_time, done_count = :done_count, remaining_count = :remaining_count,
    recent_rate = :recent_rate, last_batch_time = :last_batch_time, is_running = :is_running
WHERE tenant_id = :tenant_id AND kind = :kind;
