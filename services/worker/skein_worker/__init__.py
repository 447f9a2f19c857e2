"""Everything that happens later: the job queue and its jobs."""
