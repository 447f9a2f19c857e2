"""`python -m skein_cluster` is `skein`."""

from __future__ import annotations

from skein_cluster.main import main

if __name__ == "__main__":
    main()
