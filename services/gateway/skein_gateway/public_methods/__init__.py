"""The public RPCs of the cluster, and handlers that forward them to their service as bytes."""
