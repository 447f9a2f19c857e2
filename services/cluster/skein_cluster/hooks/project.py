"""The project that a folder belongs to: one name on every machine, if git has a remote. Reads files, starts no git."""

from __future__ import annotations

import re
from pathlib import Path

# A longer name fits in no filter.
_MAX_NAME = 500
_SECTION = re.compile(r'\[\s*remote\s+"(?P<name>[^"]+)"\s*\]')
# "git@github.com:acme/webshop.git": a host, a colon and a path, which is no port.
_SCP_LIKE = re.compile(r"(?:[^@/\s]+@)?(?P<host>[^:/\s]+):(?!//)(?P<path>.+)")
_URL = re.compile(
    r"[a-z][a-z0-9+.\-]*://(?:[^@/\s]*@)?(?P<host>\[[^\]]+\]|[^:/\s]*)(?::\d+)?/(?P<path>.+)", re.IGNORECASE
)


def project_of(folder: str) -> str:
    """Return "github.com/acme/webshop" of the folder's git remote, else the path of its root; empty for no folder.

    The root is that of the git repository, shared by its worktrees, or the folder itself. A password in the address
    of a remote is left out.
    """
    if not folder:
        return ""
    start = Path(folder)
    for parent in (start, *start.parents):
        repository = _repository(parent / ".git")
        if repository is not None:
            return (_remote(repository) or str(_root(repository, parent)))[:_MAX_NAME]
    return str(start)[:_MAX_NAME]


def short_name(project: str) -> str:
    """Return the last part of a project's name."""
    return project.rstrip("/").rpartition("/")[2]


def _repository(git: Path) -> Path | None:
    """Return the folder with the configuration of a repository, which worktrees share; None if there is none."""
    try:
        if git.is_dir():
            return git
        text = git.read_text("utf-8")
        # Of a worktree or a submodule.
        own = git.parent / text.partition("gitdir:")[2].strip()
        shared = own / "commondir"
        return own / shared.read_text("utf-8").strip() if shared.exists() else own
    except (OSError, ValueError):
        return None


def _remote(repository: Path) -> str:
    """Return the name of the remote `origin`, else of the first one."""
    try:
        lines = (repository / "config").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    urls: dict[str, str] = {}
    section = ""
    for line in map(str.strip, lines):
        if line.startswith("["):
            found = _SECTION.match(line)
            section = found["name"] if found else ""
            continue
        name, _, value = line.partition("=")
        if section and name.strip().lower() == "url":
            urls.setdefault(section, value.strip().strip('"'))
    return _name_of_url(urls.get("origin") or next(iter(urls.values()), ""))


def _name_of_url(url: str) -> str:
    found = _URL.fullmatch(url) or _SCP_LIKE.fullmatch(url)
    if found is None:
        return url
    host, path = found["host"].lower(), found["path"].strip("/").removesuffix(".git")
    return f"{host}/{path}" if host else f"/{path}"


def _root(repository: Path, parent: Path) -> Path:
    """Return the main worktree's folder, where the repository is in one."""
    resolved = repository.resolve()
    return resolved.parent if resolved.name == ".git" else parent
