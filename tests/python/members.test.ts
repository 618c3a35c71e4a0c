/** docs/coming-from.md leaves out no member of the classes that people come from: each installed library is asked. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { root } from '../helpers/root.js'

const page = join(root, 'docs', 'coming-from.md')

/** The classes of each library, by the heading of its part of the page. */
const CLASSES: Readonly<Record<string, readonly string[]>> = {
  CuPy: ['cupy.cuda.Stream', 'cupy.cuda.ExternalStream', 'cupy.cuda.Event'],
  PyTorch: ['torch.cuda.Stream', 'torch.cuda.ExternalStream', 'torch.cuda.Event'],
  'cuda.core': ['cuda.core.Stream', 'cuda.core.Event', 'cuda.core.StreamOptions', 'cuda.core.EventOptions'],
  Numba: ['numba.cuda.cudadrv.driver.Stream', 'numba.cuda.cudadrv.driver.Event'],
  Warp: ['warp.Stream', 'warp.Event'],
}

/** Prints the public names of the classes given as JSON, or why they cannot be had. */
const SCRIPT = `
import contextlib, importlib, json, sys
def names(path):
    module, name = path.rsplit('.', 1)
    return [m for m in dir(getattr(importlib.import_module(module), name)) if not m.startswith('_')]
try:
    import numpy
    numpy.row_stack = getattr(numpy, 'row_stack', numpy.vstack)  # older versions of Numba look for it
except ImportError:
    pass
with contextlib.redirect_stdout(sys.stderr):
    try:
        answer = {path: names(path) for path in sys.argv[1:]}
    except Exception as error:
        answer = repr(error)
print(json.dumps(answer))
`

function membersOf(paths: readonly string[]): Readonly<Record<string, readonly string[]>> | string {
  const { error, status, stdout, stderr } = spawnSync('python3', ['-c', SCRIPT, ...paths], { encoding: 'utf8' })
  if (error !== undefined) return error.message
  assert.equal(status, 0, stderr)
  return JSON.parse(stdout)
}

/** From its heading to the next of the same size. */
function partOf(text: string, library: string): string {
  const found = text.split(/^## /m).find((part) => part.startsWith(`${library} `))
  assert.ok(found !== undefined, `docs/coming-from.md has no part on ${library}`)
  return found
}

/** Those that no code between backticks names. */
function missingFrom(part: string, members: readonly string[]): readonly string[] {
  const code = (part.replace(/```.*?```/gs, '').match(/`[^`]+`/g) ?? []).join(' ')
  return members.filter((name) => !new RegExp(`(?<!\\w)${name}(?!\\w)`).test(code))
}

describe('docs/coming-from.md names every member of', () => {
  for (const [library, paths] of Object.entries(CLASSES)) {
    const members = existsSync(page) ? membersOf(paths) : `there is no ${page}`
    const skip = typeof members === 'string' ? members : false
    if (typeof skip === 'string') console.log(`skipped: ${library}: ${skip}`)
    it(library, { skip }, (context) => {
      const part = partOf(readFileSync(page, 'utf8'), library)
      for (const [path, names] of Object.entries(members)) {
        context.diagnostic(`${path}: ${names.join(', ')}`)
        assert.ok(names.length > 1, `${path} has no members`)
        assert.deepEqual(missingFrom(part, names), [], `${path} has these, and the page does not`)
      }
    })
  }

  it('what it names, and nothing else', () => {
    assert.deepEqual(missingFrom('| `record(event=None)` | `stream.record()`, done |', ['record', 'done']), ['done'])
  })
})
