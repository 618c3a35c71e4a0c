"""The parts of a program in which findings count."""
from __future__ import annotations

import atexit
import json
import os
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Iterator

from . import _tool


@dataclass(frozen=True)
class Finding:
    """Work of two streams on the same memory that nothing orders."""

    #: 'race', 'use-after-free', 'use-before-allocation' and others: docs/guides/sanitizer.md of cuda-streams lists them.
    kind: str
    #: 'error', or 'warning', which may be a false alarm.
    severity: str
    #: The report: both operations with their lines, the memory, and the line to add.
    message: str


class StreamRaceError(AssertionError):
    """A part of a program, or a test, has findings. The message has their reports."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("\n\n".join(finding.message for finding in findings))
        self.findings = findings


class NotTracedError(RuntimeError):
    """This process was not started by the tool, so that nothing is known of what it does with CUDA."""

    def __init__(self) -> None:
        super().__init__(
            "this process is not traced, which must begin before it uses CUDA: start it by "
            "`python -m stream_sanitizer PROGRAM.py`, or its tests by `pytest --stream-sanitizer`"
        )


@dataclass
class Watched:
    """What was found in a part of a program. The findings are there once the part has ended."""

    findings: list[Finding] = field(default_factory=list)


class _Watcher:
    """The check of this process's trace, by a process beside it that lives as long as this one."""

    def __init__(self, folder: str) -> None:
        self.process = os.getpid()
        self._parts: list[Watched] = []
        self._lock = threading.Lock()
        self._child = subprocess.Popen(
            _tool.watcher(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_tool.untraced()
        )
        atexit.register(self._close)

    def _close(self) -> None:
        if self.process != os.getpid():
            return
        self._child.communicate()

    def begin(self) -> Watched:
        part = Watched()
        with self._lock:
            # What a part around this one has found until now is its own.
            self._ask("end" if self._parts else "begin")
            self._parts.append(part)
        return part

    def end(self, part: Watched) -> None:
        with self._lock:
            self._ask("end")
            self._parts = [other for other in self._parts if other is not part]

    def look(self) -> None:
        """Gives all parts the findings until now."""
        with self._lock:
            self._ask("end")

    def _ask(self, what: str) -> None:
        assert self._child.stdin is not None and self._child.stdout is not None
        try:
            self._child.stdin.write(f"{what}\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = ""
        ended = {"error": "the process that checks it has ended"}
        answer: dict[str, Any] = json.loads(line) if line else ended
        if "error" in answer:
            raise RuntimeError(f"the trace of this process cannot be checked: {answer['error']}")
        for part in self._parts:
            part.findings += [Finding(**found) for found in answer["findings"]]


_watcher: _Watcher | None = None
_starting = threading.Lock()


def watcher() -> _Watcher:
    """The check of this process. Raises NotTracedError."""
    global _watcher
    folder = _tool.traces()
    if folder is None:
        raise NotTracedError
    with _starting:
        # A process that was forked shares the pipes of the one before.
        if _watcher is None or _watcher.process != os.getpid():
            _watcher = _Watcher(folder)
        return _watcher


@contextmanager
def watch(*, raises: bool = True) -> Iterator[Watched]:
    """Watches a part of a program that runs under the tool. Where a program has such parts, only findings in them count.

    A finding is in a part if its later operation was queued there, by any thread.

    :param raises: whether findings that are errors raise StreamRaceError at the end of the part (default). If not, they are in the
        ``findings`` of what ``with`` gives. An error that the part itself raises comes first.
    :raises NotTracedError: if the process was not started by ``python -m stream_sanitizer`` or ``pytest --stream-sanitizer``
    :raises StreamRaceError: if a wait is missing in the part
    :raises RuntimeError: if the trace cannot be checked
    """
    check = watcher()
    part = check.begin()
    try:
        yield part
    finally:
        check.end(part)
    errors = [finding for finding in part.findings if finding.severity == "error"]
    if raises and errors:
        raise StreamRaceError(errors)
