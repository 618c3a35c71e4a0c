"""``python -m stream_sanitizer train.py``: runs a program, and finds the missing waits in what it did with CUDA."""
from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from typing import Sequence

from . import _tool

USAGE = """stream-sanitizer [OPTIONS] PROGRAM.py [ARGUMENTS]
       stream-sanitizer [OPTIONS] -m MODULE [ARGUMENTS]
       stream-sanitizer [OPTIONS] -- COMMAND [ARGUMENTS]"""
EXAMPLES = """examples:
  stream-sanitizer train.py --epochs 1
  stream-sanitizer --junit findings.xml -m vllm.entrypoints.cli.main bench
  stream-sanitizer --html findings.html -- torchrun --nproc-per-node 2 train.py

The exit code is the program's, or 1 if a wait is missing and the program's is 0."""
#: The options with a value, as the tool has them.
FILES = {
    "text": "the findings as text, beside standard error",
    "html": "the findings as a page",
    "junit": "the findings as JUnit's XML, for continuous integration",
}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="stream-sanitizer",
        usage=USAGE,
        description="Runs a program that uses CUDA, and finds the waits that are missing between its streams.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--possible", action="store_true", help="also pairs that race if a kernel writes where it is only known to read or write")
    for name, what in FILES.items():
        made.add_argument(f"--{name}", metavar="FILE", help=what)
    made.add_argument("--host", choices=("exact", "sampled", "off"), help="how closely the host is watched, which touches page-locked memory while copies are pending: each copy, the first copies of each line (the default), none")
    made.add_argument("--keep", metavar="DIR", help="where the recordings of the processes are left, PID.rec")
    made.add_argument("--version", action="version", version=version("stream-sanitizer"))
    return made


def split(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of the tool, and the program with its arguments: the first word that is no option begins it."""
    at = 0
    while at < len(args) and args[at].startswith("--") and args[at] != "--":
        takes_value = args[at][2:] in (*FILES, "host", "keep")
        at += 2 if takes_value else 1
    return list(args[:at]), list(args[at:])


def command(program: Sequence[str]) -> list[str]:
    """The command that runs a program of Python, or what is behind ``--``."""
    if program[0] == "--":
        return list(program[1:])
    return [sys.executable, *program]


def main() -> None:
    options, program = split(sys.argv[1:])
    read = parser()
    given = read.parse_args(options)
    if not program or program == ["--"]:
        read.error("there is no program to run: name a file of Python, a module behind -m, or a command behind --")
    values = {**{name: getattr(given, name) for name in FILES}, "host": given.host, "keep": given.keep}
    own = ["--possible"] if given.possible else []
    own += [f"--{name}={value}" for name, value in values.items() if value is not None]
    _tool.become(own, command(program))


if __name__ == "__main__":
    main()
