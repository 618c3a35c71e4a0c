"""Watches parts of a program. It prints what each has found."""
from stream_sanitizer import NotTracedError, StreamRaceError, watch

try:
    with watch():
        print('a part that is not watched')
except NotTracedError as error:
    print(error)
    raise SystemExit(3)

from traced import play

play('racy')
with watch():
    play('right')
    print('right')
with watch(raises=False) as outer:
    with watch(raises=False) as inner:
        play('racy')
    with watch(raises=False) as later:
        pass
print(*(f'{finding.kind} {finding.severity}' for part in (inner, later, outer) for finding in part.findings))
assert inner.findings == outer.findings and later.findings == []
try:
    with watch():
        play('racy')
except StreamRaceError as error:
    print('raised', len(error.findings), error.findings[0].message == str(error))
try:
    with watch():
        play('racy')
        raise KeyError('of the program')
except KeyError:
    print('the error of the program comes first')
