-- list_expiry_tenants --
-- Read tenants, after one, with expired rows, idle rate limits, purged agents or too old former rows.
SELECT due.tenant_id
FROM tenancy.list_expiry_tenants(:at, :requested_before, :idle_since, :retention_days, :after, :size) AS due (tenant_id);

-- purge_old_subjects --
-- Purge some former versions of subjects that ended before a time.
DELETE FROM tenancy.subjects_history AS former
USING (
    SELECT subject_id, until_time FROM tenancy.subjects_history
    WHERE tenant_id = :tenant_id AND until_time < :before
    LIMIT :count
) AS picked
WHERE former.tenant_id = :tenant_id
    AND former.subject_id = picked.subject_id AND former.until_time = picked.until_time;

-- purge_old_policies --
-- Purge some former policies that ended before a time.
DELETE FROM tenancy.policies_history
WHERE tenant_id = :tenant_id AND until_time = ANY (ARRAY(
    SELECT until_time FROM tenancy.policies_history
    WHERE tenant_id = :tenant_id AND until_time < :before
    LIMIT :count));
