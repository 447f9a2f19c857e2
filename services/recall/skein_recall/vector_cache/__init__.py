"""The vector cache: vectors of the busiest tenants in memory, and the shortlists made with them."""
