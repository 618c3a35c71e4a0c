"""``pytest --stream-sanitizer``: a test in which a wait is missing fails, with the finding as its message."""
from __future__ import annotations

import sys
from typing import Generator

import pytest

from . import _tool, _watch


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stream-sanitizer")
    group.addoption(
        "--stream-sanitizer",
        action="store_true",
        help="find the waits that are missing between CUDA streams: a test in which one is fails",
    )
    group.addoption(
        "--stream-sanitizer-possible",
        action="store_true",
        help="the same, also where a kernel is only known to read or write",
    )


def _is_on(config: pytest.Config) -> bool:
    return bool(config.getoption("--stream-sanitizer") or config.getoption("--stream-sanitizer-possible"))


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Starts pytest again under the tool: a process is traced from its first call of CUDA on."""
    if not _is_on(config) or _tool.traces() is not None:
        return
    given = list(config.invocation_params.args)
    if given != sys.orig_argv[len(sys.orig_argv) - len(given) :]:
        raise pytest.UsageError(
            "--stream-sanitizer starts pytest again, which a program that calls pytest.main() must do itself: "
            "run that program by `python -m stream_sanitizer PROGRAM.py`"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    _tool.become(["--possible"] if config.getoption("--stream-sanitizer-possible") else [], [sys.executable, *sys.orig_argv[1:]])


def pytest_configure(config: pytest.Config) -> None:
    if _is_on(config):
        config.pluginmanager.register(_Plugin(), "stream-sanitizer-watch")


class _Plugin:
    """Watches each test: its fixtures, the test itself, and the end of its fixtures."""

    def __init__(self) -> None:
        self.part: _watch.Watched | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        check = _watch.watcher()
        self.part = check.begin()
        try:
            return (yield)
        finally:
            check.end(self.part)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item, "teardown"))

    def _phase(self, item: pytest.Item, when: str) -> Generator[None, object, object]:
        try:
            result = yield
        except BaseException:
            findings = self._found()
            if findings:
                item.add_report_section(when, "stream-sanitizer", str(_watch.StreamRaceError(findings)))
            raise
        findings = self._found()
        if findings:
            pytest.fail(str(_watch.StreamRaceError(findings)), pytrace=False)
        return result

    def _found(self) -> list[_watch.Finding]:
        """The errors since the last look."""
        assert self.part is not None
        _watch.watcher().look()
        findings = [finding for finding in self.part.findings if finding.severity == "error"]
        self.part.findings.clear()
        return findings
