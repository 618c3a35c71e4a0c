/**
 * docs/guides/coming-from.md and docs/internals/what-others-have.md leave out no name around streams, events, graphs, memory and green contexts of
 * the libraries that people come from: each installed library is asked.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { root } from '../helpers/root.js'

const page = join(root, 'docs', 'guides', 'coming-from.md')
const others = join(root, 'docs', 'internals', 'what-others-have.md')

interface Names {
  /** The members of all these are named. */
  readonly classes: readonly string[]
  /** What these modules export, as far as its name has one of these words. */
  readonly modules: Readonly<Record<string, RegExp>>
}

const classesOf = (module: string, names: string): readonly string[] =>
  names.split(' ').map((name) => `${module}.${name}`)

/** Of each library, by the heading of its part of the page. */
const LIBRARIES: Readonly<Record<string, Names>> = {
  CuPy: {
    classes: classesOf(
      'cupy.cuda',
      'Stream ExternalStream Event Graph Device MemoryPool MemoryAsyncPool PinnedMemoryPool',
    ),
    modules: { 'cupy.cuda': /[Ss]tream|[Ee]vent|[Gg]raph|[Aa]lloc|[Mm]em|[Pp]ool|elapsed|[Dd]evice/ },
  },
  PyTorch: {
    classes: [
      ...classesOf('torch.cuda', 'Stream ExternalStream Event CUDAGraph MemPool'),
      ...classesOf('torch.cuda.green_contexts', 'GreenContext SMPartition'),
    ],
    modules: {
      'torch.cuda': /[Ss]tream|[Gg]raph|[Ee]vent|[Pp]ool|sync|Green|[Aa]lloc|memory|mem_|Mem|peer|ipc|cache/,
      'torch.cuda.graphs': /./,
      'torch.cuda.green_contexts': /./,
    },
  },
  'cuda.core': {
    classes: [
      ...classesOf(
        'cuda.core',
        'Stream StreamOptions Event EventOptions Device Context ContextOptions DeviceResources SMResource SMResourceOptions ' +
          'WorkqueueResource WorkqueueResourceOptions Buffer MemoryResource DeviceMemoryResource DeviceMemoryResourceOptions ' +
          'PinnedMemoryResource PinnedMemoryResourceOptions GraphMemoryResource LaunchConfig',
      ),
      ...classesOf(
        'cuda.core.graph',
        'Graph GraphBuilder GraphCompleteOptions GraphCondition GraphDefinition GraphNode KernelNode MemcpyNode MemsetNode ' +
          'ExecutableKernelNode ExecutableMemcpyNode ExecutableMemsetNode',
      ),
    ],
    modules: { 'cuda.core': /./, 'cuda.core.graph': /./, 'cuda.core.utils': /./ },
  },
  Numba: {
    classes: classesOf('numba.cuda.cudadrv.driver', 'Stream Event'),
    modules: { 'numba.cuda': /stream|event|[Ii]pc|[Pp]inned|[Mm]apped|managed|synchron|defer_|cuda_array|[Mm]emory/ },
  },
  Warp: {
    classes: classesOf('warp', 'Stream Event Device Graph'),
    modules: {
      warp: /[Ss]tream|[Ee]vent|[Gg]raph|[Cc]aptur|[Mm]empool|sync|ipc|peer|Peer|[Tt]iming|[Aa]lloc|dlpack|Timer|Tracker/,
    },
  },
}

/** Prints the public names of the classes and modules given as JSON, without those that this version lacks, or why there are none. */
const SCRIPT = `
import contextlib, importlib, inspect, json, sys
def owner(path):
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, name = path.rsplit('.', 1)
        return getattr(importlib.import_module(module), name, None)
def names(path):
    it = owner(path)
    listed = getattr(it, '__all__', dir(it)) if inspect.ismodule(it) else dir(it)
    public = [m for m in listed if not m.startswith('_') and not inspect.ismodule(getattr(it, m, None))]
    return [] if it is None else public
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
  assert.ok(found !== undefined, `docs/guides/coming-from.md has no part on ${library}`)
  return found
}

/** Those that no code between backticks names. */
function missingFrom(part: string, members: readonly string[]): readonly string[] {
  const code = (part.replace(/```.*?```/gs, '').match(/`[^`]+`/g) ?? []).join(' ')
  return members.filter((name) => !new RegExp(`(?<!\\w)${name}(?!\\w)`).test(code))
}

describe('docs/guides/coming-from.md and docs/internals/what-others-have.md name all of', () => {
  for (const [library, { classes, modules }] of Object.entries(LIBRARIES)) {
    const members = existsSync(page) ? membersOf([...classes, ...Object.keys(modules)]) : `there is no ${page}`
    const skip = typeof members === 'string' ? members : false
    if (typeof skip === 'string') console.log(`skipped: ${library}: ${skip}`)
    it(library, { skip }, (context) => {
      const part = `${partOf(readFileSync(page, 'utf8'), library)}\n${readFileSync(others, 'utf8')}`
      const missing: Record<string, readonly string[]> = {}
      for (const [path, all] of Object.entries(members)) {
        const words = modules[path]
        const names = words === undefined ? all : all.filter((name: string) => words.test(name))
        if (all.length === 0) {
          console.log(`skipped: this version has no ${path}`)
          continue
        }
        context.diagnostic(`${path}: ${names.join(', ')}`)
        const lacking = missingFrom(part, names)
        if (lacking.length > 0) missing[path] = lacking
      }
      assert.deepEqual(missing, {}, 'these are there, and the pages do not name them')
      assert.ok(
        Object.values(members).some((names) => names.length > 5),
        `${library} has no members`,
      )
    })
  }

  it('what they name, and nothing else', () => {
    assert.deepEqual(missingFrom('| `record(event=None)` | `stream.record()`, done |', ['record', 'done']), ['done'])
  })
})
