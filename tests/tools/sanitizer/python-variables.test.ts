/** A stream of Python is called by the variable that has it, and never by one that may have another stream. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { isVisibleAt, pythonVariableMadeAt, variableUsedAt } from '../../../src/tools/sanitizer/python-variables.js'

const folder = mkdtempSync(join(tmpdir(), 'python-variables-'))
after(() => rmSync(folder, { recursive: true }))
let files = 0

/** The lines of a stack for the rows of a source, which are marked by a comment with a letter. */
function marked(source: string): Readonly<Record<string, string>> {
  const path = join(folder, `${++files}.py`)
  writeFileSync(path, source)
  const rows = source.split('\n').flatMap((text, at) => {
    const [, letter] = /# ([A-Z])$/.exec(text) ?? []
    return letter === undefined ? [] : [[letter, `at run (${path}:${at + 1})`] as const]
  })
  return Object.fromEntries(rows)
}

test('the variable of a line that makes one stream', () => {
  const at = marked(`
side = torch.cuda.Stream() # A
typed: torch.cuda.Stream = torch.cuda.Stream(device=0) # B
high = torch.cuda.Stream(priority=-1) # C
one, two = cupy.cuda.Stream(), cupy.cuda.Stream() # D
streams = [torch.cuda.Stream() for _ in range(4)] # E
for _ in range(2):
    again = torch.cuda.Stream() # F
twice = torch.cuda.Stream() # G
twice = None
class Loader:
    shared = torch.cuda.Stream() # I
    def __init__(self):
        self.stream = torch.cuda.Stream() # H
held = Held(torch.cuda.Stream()) # J
handle = torch.cuda.Stream().cuda_stream # K
placed = torch.cuda.Stream(torch.device('cuda')) # L
`)
  const letters = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L']
  const named = letters.flatMap((letter) => pythonVariableMadeAt(at[letter])?.name ?? [])
  assert.deepEqual(named, ['side', 'typed', 'self.stream', 'placed'])
})

test('the variable of the innermost with around a line, or of the argument of its call', () => {
  const at = marked(`
side = torch.cuda.Stream()
other = torch.cuda.Stream()
def load():
    with torch.cuda.stream(side), torch.no_grad():
        x.mul_(2) # A
        with torch.cuda.stream(other):
            x.mul_(2) # B
        kernel((1,), (1,), # C
            (x, y), stream=other)
        def later():
            x.mul_(2) # D
    x.mul_(2) # E
    with torch.cuda.stream(side):
        torch.cuda.set_stream(other)
        x.mul_(2) # F
def given(stream):
    with torch.cuda.stream(stream):
        x.mul_(2) # G
with lock:
    x.mul_(2) # H
`)
  const names = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'].map((letter) => variableUsedAt(at[letter], undefined)?.name)
  assert.deepEqual(names, ['side', 'other', 'other', undefined, undefined, undefined, undefined, undefined])
})

test('a stream of which it is known where it was made has only the variable of that line', () => {
  const at = marked(`
one, two = cupy.cuda.Stream(), cupy.cuda.Stream() # A
other = cupy.cuda.Stream() # B
with one:
    x *= 2 # C
    x.data.memset_async(0, 4, two) # D
`)
  assert.equal(variableUsedAt(at['C'], at['A'])?.name, 'one')
  assert.equal(variableUsedAt(at['C'], at['B']), undefined)
  assert.equal(variableUsedAt(at['D'], at['A']), undefined)
})

test('a variable of a function is its own, and that of a module is seen in all of its functions', () => {
  const at = marked(`
side = torch.cuda.Stream() # A
def load():
    own = torch.cuda.Stream() # B
    x.mul_(2) # C
def other():
    own = torch.cuda.Stream() # D
    x.mul_(2) # E
x.mul_(2) # F
`)
  const [side, own, its] = ['A', 'B', 'D'].map((letter) => pythonVariableMadeAt(at[letter]))
  assert.ok(side && own && its)
  const seen = (variable: typeof side): readonly boolean[] =>
    ['C', 'E', 'F'].map((letter) => isVisibleAt(variable, at[letter]))
  assert.deepEqual(seen(side), [true, true, true])
  assert.deepEqual(seen(own), [true, false, false])
  assert.deepEqual(seen(its), [false, true, false])
  assert.equal(isVisibleAt(side, 'at run (/no/such/file.py:1)'), false)
})
