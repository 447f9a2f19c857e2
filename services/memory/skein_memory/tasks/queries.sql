-- put_task --
-- Store the row of a task or an objective.
INSERT INTO memory.tasks AS known
    (tenant_id, memory_id, kind, status, due_time, objective_id, importance, update_time)
VALUES
    (:tenant_id, :memory_id::uuid, :kind::text, :status::text, :due_time::timestamptz, :objective_id::uuid,
     :importance::float8, :update_time::timestamptz)
ON CONFLICT ON CONSTRAINT tasks_pkey DO UPDATE
    SET kind = excluded.kind, status = excluded.status, due_time = excluded.due_time,
        objective_id = excluded.objective_id, importance = excluded.importance, update_time = excluded.update_time;

-- delete_task --
-- Delete the row of a memory that is no task any more.
DELETE FROM memory.tasks
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- get_task --
-- Read the row of a task or an objective.
SELECT memory_id, kind, status, due_time, objective_id, importance, update_time
FROM memory.tasks
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- list_tasks --
-- Find the newest tasks or objectives that are older than one and pass; a null condition does not restrict.
SELECT memory_id
FROM memory.tasks
WHERE tenant_id = :tenant_id AND kind = :kind AND memory_id < :before_id
    AND (:statuses::text[] IS NULL OR status = ANY (:statuses))
    AND (:objective_id::uuid IS NULL OR objective_id = :objective_id)
    AND (:due_before_time::timestamptz IS NULL OR due_time < :due_before_time)
ORDER BY memory_id DESC
LIMIT :count;

-- list_next_tasks --
-- Find tasks to do next: of each status the most important, those due soonest and those changed last. The tasks with
-- the best scores are among them. Each part is read in order from its own index.
SELECT memory_id, kind, status, due_time, objective_id, importance, update_time
FROM memory.tasks
WHERE tenant_id = :tenant_id AND kind = 'task' AND (:objective_id::uuid IS NULL OR objective_id = :objective_id)
    AND memory_id IN (
        (SELECT first.memory_id FROM memory.tasks AS first
         WHERE first.tenant_id = :tenant_id AND first.status = 'open' AND first.kind = 'task'
             AND (:objective_id::uuid IS NULL OR first.objective_id = :objective_id)
         ORDER BY first.importance DESC, first.memory_id DESC LIMIT :count)
        UNION ALL
        (SELECT first.memory_id FROM memory.tasks AS first
         WHERE first.tenant_id = :tenant_id AND first.status = 'in_progress' AND first.kind = 'task'
             AND (:objective_id::uuid IS NULL OR first.objective_id = :objective_id)
         ORDER BY first.importance DESC, first.memory_id DESC LIMIT :count)
        UNION ALL
        (SELECT first.memory_id FROM memory.tasks AS first
         WHERE first.tenant_id = :tenant_id AND first.status = 'open' AND first.kind = 'task'
             AND first.due_time IS NOT NULL
             AND (:objective_id::uuid IS NULL OR first.objective_id = :objective_id)
         ORDER BY first.due_time, first.memory_id LIMIT :count)
        UNION ALL
        (SELECT first.memory_id FROM memory.tasks AS first
         WHERE first.tenant_id = :tenant_id AND first.status = 'in_progress' AND first.kind = 'task'
             AND first.due_time IS NOT NULL
             AND (:objective_id::uuid IS NULL OR first.objective_id = :objective_id)
         ORDER BY first.due_time, first.memory_id LIMIT :count)
        UNION ALL
        (SELECT first.memory_id FROM memory.tasks AS first
         WHERE first.tenant_id = :tenant_id AND first.status = 'open' AND first.kind = 'task'
             AND (:objective_id::uuid IS NULL OR first.objective_id = :objective_id)
         ORDER BY first.update_time DESC, first.memory_id DESC LIMIT :count)
        UNION ALL
        (SELECT first.memory_id FROM memory.tasks AS first
         WHERE first.tenant_id = :tenant_id AND first.status = 'in_progress' AND first.kind = 'task'
             AND (:objective_id::uuid IS NULL OR first.objective_id = :objective_id)
         ORDER BY first.update_time DESC, first.memory_id DESC LIMIT :count));

-- purge_tasks --
-- Remove some of the tasks' places of a deleted tenant.
DELETE FROM memory.tasks
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.tasks WHERE tenant_id = :tenant_id LIMIT :count));
