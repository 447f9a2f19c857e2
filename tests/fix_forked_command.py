"""Runs the `skein` command in forks of a process that has imported it: each is a process of its own, at once.

Imports take most of the time of a short command. The server is started by the first command of a pytest worker.
"""

from __future__ import annotations

import array
import asyncio
import atexit
import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

_FDS = 3
_MAX_MESSAGE_BYTES = 1 << 20
_servers: dict[int, socket.socket] = {}


def _server() -> socket.socket:
    """Return the socket of this process's server, which ends when the socket is closed."""
    if os.getpid() not in _servers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")}
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**environment, "GRPC_VERBOSITY": "NONE"},
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        _servers[os.getpid()] = ours
        atexit.register(_end, process, ours, os.getpid())
    return _servers[os.getpid()]


def _end(process: subprocess.Popen[bytes], ours: socket.socket, owner: int) -> None:
    if os.getpid() == owner:
        ours.close()
        process.wait()


async def run(arguments: list[str], environment: Mapping[str, str], stdin: bytes | None) -> tuple[int, bytes, bytes]:
    """Run the command to its end; return its exit code and what it wrote. A cancelled run is killed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    pipes = [os.pipe() for _ in range(_FDS)]
    (input_read, input_write), (out_read, out_write), (error_read, error_write) = pipes
    with ours, theirs:
        request = json.dumps({"arguments": arguments, "environment": dict(environment), "folder": str(Path.cwd())})
        handed = [theirs.fileno(), input_read, out_write, error_write]
        _server().sendmsg(
            [request.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handed).tobytes())]
        )
        theirs.close()
        for handed_over in (input_read, out_write, error_write):
            os.close(handed_over)
        try:
            _, out, error, ended = await asyncio.gather(
                asyncio.to_thread(_write, input_write, stdin or b""),
                asyncio.to_thread(_read, out_read),
                asyncio.to_thread(_read, error_read),
                asyncio.to_thread(_read_socket, ours),
            )
        except asyncio.CancelledError:
            # The fork's parent kills it when the connection is closed.
            ours.shutdown(socket.SHUT_RDWR)
            raise
    return int(ended), out, error


def _write(fd: int, content: bytes) -> None:
    with open(fd, "wb") as pipe, contextlib.suppress(BrokenPipeError):
        pipe.write(content)


def _read(fd: int) -> bytes:
    with open(fd, "rb") as pipe:
        return pipe.read()


def _read_socket(connection: socket.socket) -> bytes:
    read = b""
    while part := connection.recv(100):
        read += part
    return read


def serve(requests: socket.socket) -> None:
    """Fork for each request until the other side closes."""
    from skein_cluster.main import COMMANDS, skein  # noqa: PLC0415 - this is what takes time.

    context = skein.make_context("skein", [], resilient_parsing=True)
    for name in COMMANDS:
        skein.get_command(context, name)
    import skein_cluster.cli.error_messages  # noqa: F401, PLC0415 - as above.

    # Forks share it untouched.
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, ancillary, _, _ = requests.recvmsg(_MAX_MESSAGE_BYTES, socket.CMSG_LEN(4 * (_FDS + 1)))
        if not message:
            return
        fds = array.array("i")
        fds.frombytes(ancillary[0][2])
        if os.fork() == 0:
            requests.close()
            _watch(socket.socket(fileno=fds[0]), json.loads(message), list(fds[1:]))
        for fd in fds:
            os.close(fd)


def _watch(connection: socket.socket, request: dict[str, Any], fds: list[int]) -> None:
    """Fork the command, and say how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        connection.close()
        _command(request, fds)
    for fd in fds:
        os.close(fd)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _command(request: dict[str, Any], fds: list[int]) -> NoReturn:
    from skein_cluster.main import main  # noqa: PLC0415 - imported by the server.

    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    # As the interpreter opens them at its start.
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding=encoding, closefd=False)  # noqa: SIM115 - a number, open to the end.
        for number, mode in enumerate(("r", "w", "w"))
    )
    sys.argv = ["skein", *request["arguments"]]
    warnings.resetwarnings()
    warnings.simplefilter("default")
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - it is shown as Python shows it.
        sys.excepthook(*sys.exc_info())
        code = 1
    # What the command left open is noticed; all that the server imported is not taken apart.
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
