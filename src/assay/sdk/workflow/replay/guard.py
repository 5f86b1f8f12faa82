"""Refuses I/O, threads, processes and thread sleeps while workflow code runs.

Rules owned here:

* The thread's flag is set while workflow code runs; functions whose outcome is recorded run under `outside()`.
* One audit hook per process receives the interpreter's own reports, so the guard also covers libraries. A hook can
  never be removed: therefore it only looks up a name, unless the name is refused and the flag is set.
* The interpreter's own work stays allowed: imports, source lines for tracebacks, logging, time zone data, the debugger,
  and finalizers that the garbage collector runs in the middle of a workflow.

Not detected, because CPython does not report them: reads and writes on open files and sockets, and `os.stat`. Before
Python 3.13 `time.sleep` (before 3.12 the start of a thread) is not reported either: there the function is replaced,
also in modules that imported it by name. A reference elsewhere that is older than the first workflow loop of the
process, such as a parameter's default, keeps the original.
"""

from __future__ import annotations

import _thread
import asyncio
import functools
import gc
import sys
import threading
import time
from types import FrameType, ModuleType
from typing import Any, Final, NoReturn

from assay.sdk.workflow.replay.workflow_flag import FLAG, WorkflowIOError


def refusal(called: str) -> WorkflowIOError:
    """Return the error for a call that cannot be replayed."""
    advice = "; to wait, write `await ctx.sleep(seconds)`, a durable timer" if called == "time.sleep" else ""
    return WorkflowIOError(
        f"workflow code called {called}, which cannot be replayed: "
        f"do it in an activity, in ctx.run or in ctx.side_effect, whose outcomes are recorded{advice}"
    )


class _Crossing:
    """A context manager that sets the flag."""

    __slots__ = ("_before", "_inside")

    def __init__(self, inside: bool) -> None:
        self._inside = inside
        self._before: object = False

    def __enter__(self) -> None:
        self._before = FLAG.inside
        FLAG.inside = self._inside

    def __exit__(self, *error: object) -> None:
        FLAG.inside = self._before


def inside() -> _Crossing:
    """Mark the block as workflow code."""
    return _Crossing(True)


def outside() -> _Crossing:
    """Mark the block as code whose outcome is recorded, not replayed, and in which I/O is allowed."""
    return _Crossing(False)


# Names of audit events. fmt: skip keeps the list a paragraph.
_REFUSED: Final = frozenset([
    "open", "os.chdir", "os.chmod", "os.chown", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename",
    "os.rmdir", "os.scandir", "os.symlink", "os.truncate", "os.utime", "glob.glob", "shutil.copyfile",
    "shutil.copytree", "shutil.make_archive", "shutil.move", "shutil.rmtree", "shutil.unpack_archive",
    "tempfile.mkdtemp", "tempfile.mkstemp", "sqlite3.connect",
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn",
    "subprocess.Popen", "_thread.start_new_thread", "_thread.start_joinable_thread", "time.sleep",
    "socket.__new__", "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyaddr",
    "socket.gethostbyname", "socket.gethostname", "socket.getnameinfo", "socket.getservbyname",
    "socket.getservbyport", "socket.sendmsg", "socket.sendto", "ftplib.connect", "http.client.connect",
    "http.client.send", "imaplib.open", "poplib.connect", "smtplib.connect", "urllib.Request",
])  # fmt: skip

# Modules that may open files. The import system has the first name until importlib is imported.
_TRUSTED: Final = frozenset([
    "_frozen_importlib", "importlib._bootstrap", "linecache", "logging", "logging.handlers", "pdb", "zoneinfo._common",
])  # fmt: skip
_BOUNDARY: Final = "assay.sdk.workflow.replay.loop"


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event in _REFUSED and FLAG.inside and not _permitted(event, args, sys._getframe(1)):
        raise refusal(f"{event}({args[0]!r})" if args and isinstance(args[0], str | bytes) else event)


def _permitted(event: str, args: tuple[Any, ...], frame: FrameType | None) -> bool:
    return is_permitted(frame) or (event == "open" and _is_time_zone(args[0]))


def is_permitted(frame: FrameType | None) -> bool:
    """Return True if a trusted module made the call of a frame."""
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module in _TRUSTED:
            return True
        if module == _BOUNDARY:  # the frames below belong to the worker, which an import may have started
            break
        frame = frame.f_back
    return False


def _is_time_zone(path: object) -> bool:
    """Return True for a time zone file: the C implementation of zoneinfo opens files without a frame of its own."""
    zoneinfo = sys.modules.get("zoneinfo")
    return zoneinfo is not None and isinstance(path, str) and path.startswith(tuple(zoneinfo.TZPATH))


def _collecting(phase: str, info: dict[str, int]) -> None:
    """Clear the flag during a garbage collection: finalizers of other objects run in the middle of workflow code."""
    if phase == "start":
        FLAG.before_collection, FLAG.inside = FLAG.inside, False
    else:
        FLAG.inside = FLAG.before_collection


def _reporting(original: Any, event: str) -> Any:
    """Return a function that reports its call to the guard, for a function that this Python does not audit."""

    def reporting(*args: Any, **options: Any) -> Any:
        _audit(event, ())
        return original(*args, **options)

    return functools.update_wrapper(reporting, original)


def _report_what_older_pythons_do_not() -> None:
    if sys.version_info < (3, 13):
        silent: list[tuple[Any, str]] = [(time.sleep, "time.sleep")]  # noqa: TID251  # to audit it, not to call it
        if sys.version_info < (3, 12):
            silent.append((_thread.start_new_thread, "_thread.start_new_thread"))
        replace({id(original): _reporting(original, event) for original, event in silent})


def replace(replacements: dict[int, Any]) -> None:
    """Replace the originals in every module that has them."""
    modules: tuple[object, ...] = tuple(sys.modules.values())  # libraries may put other objects there
    for module in modules:
        names = vars(module) if isinstance(module, ModuleType) else {}
        for name, value in tuple(names.items()):
            if id(value) in replacements:
                names[name] = replacements[id(value)]


_installing = threading.Lock()
_installed = False


def install() -> None:
    """Install the audit hook, once per process."""
    global _installed
    if _installed:
        return
    with _installing:
        if not _installed:
            _report_what_older_pythons_do_not()
            gc.callbacks.append(_collecting)
            sys.addaudithook(_audit)
        _installed = True


def _refused(name: str) -> Any:
    def refuse(self: object, *args: object, **options: object) -> NoReturn:
        raise refusal(f"loop.{name}")

    return refuse


class NoIOLoop(asyncio.AbstractEventLoop):
    """An event loop that refuses every method with I/O: `asyncio.to_thread`, streams and subprocesses fail."""

    __slots__ = ()

    run_in_executor = _refused("run_in_executor")
    set_default_executor = _refused("set_default_executor")
    getaddrinfo = _refused("getaddrinfo")
    getnameinfo = _refused("getnameinfo")
    create_connection = _refused("create_connection")
    create_server = _refused("create_server")
    create_unix_connection = _refused("create_unix_connection")
    create_unix_server = _refused("create_unix_server")
    create_datagram_endpoint = _refused("create_datagram_endpoint")
    connect_accepted_socket = _refused("connect_accepted_socket")
    connect_read_pipe = _refused("connect_read_pipe")
    connect_write_pipe = _refused("connect_write_pipe")
    start_tls = _refused("start_tls")
    sendfile = _refused("sendfile")
    subprocess_shell = _refused("subprocess_shell")
    subprocess_exec = _refused("subprocess_exec")
    add_reader = _refused("add_reader")
    remove_reader = _refused("remove_reader")
    add_writer = _refused("add_writer")
    remove_writer = _refused("remove_writer")
    sock_recv = _refused("sock_recv")
    sock_recv_into = _refused("sock_recv_into")
    sock_recvfrom = _refused("sock_recvfrom")
    sock_recvfrom_into = _refused("sock_recvfrom_into")
    sock_sendall = _refused("sock_sendall")
    sock_sendto = _refused("sock_sendto")
    sock_connect = _refused("sock_connect")
    sock_accept = _refused("sock_accept")
    sock_sendfile = _refused("sock_sendfile")
    add_signal_handler = _refused("add_signal_handler")
    remove_signal_handler = _refused("remove_signal_handler")
