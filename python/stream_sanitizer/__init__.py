"""Finds missing waits between CUDA streams: work of two streams on the same memory that nothing orders.

``python -m stream_sanitizer train.py`` checks a whole program, ``pytest --stream-sanitizer`` each test, and ``watch()`` a part of a
program that runs so.
"""
from ._watch import Finding, NotTracedError, StreamRaceError, Watched, watch

__all__ = ["Finding", "NotTracedError", "StreamRaceError", "Watched", "watch"]
