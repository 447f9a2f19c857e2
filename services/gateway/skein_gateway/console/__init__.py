"""The web console: pages over the public RPCs, for people with a sign-in and for holders of a tenant's key."""
