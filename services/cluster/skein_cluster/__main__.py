"""The program `skein`, and `python -m skein_cluster`."""

from __future__ import annotations

import sys

_HOOK = ["hooks", "run"]
_HELP = {"-h", "--help"}


def main() -> None:
    """Run the command; a hook, for which an agent waits, without the imports of the others."""
    if sys.argv[1:3] == _HOOK and not _HELP.intersection(sys.argv):
        from skein_cluster.hooks import run  # noqa: PLC0415 - one of the two is imported.

        run.main(sys.argv[3:])
    else:
        from skein_cluster import main as command  # noqa: PLC0415 - as above.

        command.main()


if __name__ == "__main__":
    main()
