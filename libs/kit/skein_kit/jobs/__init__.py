"""Jobs: pauses, limits and progress of background work, by tenant and kind."""
