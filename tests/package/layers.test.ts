/**
 * The layering rules: a layer of src, a wing or a room of one, imports values only from the layers below it. Types may be imported from above.
 * Biome checks that there are no import cycles (noImportCycles).
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../helpers/root.js'
import { type Import, importsOf } from './imports.js'

/** The layers, the lowest first. Layers in one line are on the same level and import no values from each other. */
const LEVELS: readonly (readonly string[])[] = [
  ['foundation/base'],
  ['ptx', 'foundation/driver'],
  ['foundation/native'],
  ['cuda', 'simulator'],
  ['core/default-driver'],
  ['core/device'],
  ['core/streams'],
  ['core/event', 'core/memory'],
  ['core/kernels'],
  ['core/graphs', 'core/stream-ordering'],
  ['core/stream'],
  ['core/shortcuts', 'core/simulation', 'core/stream-pool'],
  ['core/all-members'],
  ['tools/prediction'],
  ['libraries', 'tools/sanitizer', 'tools/timeline', 'cu'],
  ['tools/explore', 'tools/recording'],
  ['tools/cli'],
  ['entry-points'],
]
/** What chooses the driver and stands in front of it. */
const DEFAULT_DRIVER =
  /^core\/(default-driver|backends|backends-in-bundle|(environment-interceptors|backends)(-in-page)?|stream-names|sync-check)\.ts$/
/** The entry points of the package, which are lists of exports. */
const ENTRY_POINTS = Object.values(
  (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly exports: Record<string, unknown> })
    .exports,
).flatMap((target) => /(?<=dist\/src\/)[\w/-]+(?=\.js)/.exec(JSON.stringify(target))?.map((name) => `${name}.ts`) ?? [])
/** The sanitizer and the timeline use the driver interface; of their files only these may import the public classes. */
const TOP_FILES = ['tools/sanitizer/sanitizer.ts', 'tools/timeline/timeline.ts', 'tools/timeline/channels.ts']
const INTERCEPTORS = ['tools/sanitizer', 'tools/timeline']
/** The command reports what is wrong with libcuda before a backend is open. */
const mayImportLibcuda = (from: string): boolean => from.startsWith('tools/cli/')
/** Files that call C libraries which come with CUDA. */
const callsLibraries = (from: string): boolean => from.startsWith('tools/timeline/cupti/')
const SIMULATOR_USERS = [
  'core/default-driver',
  'core/simulation',
  'tools/explore',
  'tools/prediction',
  'tools/recording',
]

/** Files that break the rules, and the layer that they must not import. A row is removed when its file is fixed; no row is added. */
const STILL_BROKEN: Readonly<Record<string, string>> = {
  'tools/timeline/virtual-meter.ts -> simulator': 'the meter reads the operations of the simulated machine',
}

/** A wing, or a room of one that has several. */
function layerOf(file: string): string {
  if (DEFAULT_DRIVER.test(file)) return 'core/default-driver'
  return /^(core|foundation|tools)\/[^/.]+|^[^/.]+/.exec(file)?.[0] ?? file
}

const levelOf = (layer: string): number => LEVELS.findIndex((layers) => layers.includes(layer))

/** The rule that an import breaks. */
export function broken({ from, to, ofTypes }: Import): string | undefined {
  const [layer, other] = [layerOf(from), layerOf(to)]
  if (layer === other && layer !== 'entry-points') return undefined
  if (other === 'entry-points') return 'no file of the library imports an entry point'
  if (other === 'simulator' && !SIMULATOR_USERS.includes(layer))
    return `only ${SIMULATOR_USERS.join(', ')} import the simulator’s backend`
  const isAllowed = /^cuda\/libcuda\//.test(to) && mayImportLibcuda(from)
  if (other === 'cuda' && layer !== 'core/default-driver' && !isAllowed)
    return 'only core/default-driver imports the CUDA backend; tools/cli may import cuda/libcuda'
  if (ofTypes) return undefined
  const isOfCore = other.startsWith('core/') && (other === 'core/default-driver' || TOP_FILES.includes(from))
  if (
    INTERCEPTORS.includes(layer) &&
    !(other === 'foundation/native' && callsLibraries(from)) &&
    !(['foundation/base', 'foundation/driver', 'tools/prediction'].includes(other) || isOfCore)
  )
    return `${layer} imports foundation/base, foundation/driver and tools/prediction, and public classes only in ${TOP_FILES.join(' and ')}`
  if (levelOf(other) < levelOf(layer)) return undefined
  return `${layer} imports values only from the layers below it, and ${other} is not one: import a type, or let ${layer} declare the interface that it needs`
}

test('every form of import is read, and the rules accept and refuse the right ones', () => {
  const text = [
    "import { a } from './a.js'",
    "import type { B } from '../b.js'",
    "import {\n  type C,\n  c,\n} from './c.js'",
    "import './d.js'",
    "export { e } from './e.js'",
    "export type { F } from './f.js'",
    "const g = await import('./g.js')",
    "import { join } from 'node:path'",
  ].join('\n')
  assert.deepEqual(
    importsOf('x/y.ts', text).map(({ to, ofTypes }) => `${to}${ofTypes ? ' (types)' : ''}`),
    ['x/a.ts', 'b.ts (types)', 'x/c.ts', 'x/d.ts', 'x/e.ts', 'x/f.ts (types)', 'x/g.ts'],
  )
  const rows: readonly (readonly [from: string, to: string, ofTypes: boolean, right: boolean])[] = [
    ['foundation/base/errors.ts', 'foundation/driver/driver.ts', false, false],
    ['foundation/base/errors.ts', 'foundation/driver/driver.ts', true, true],
    ['core/stream.ts', 'core/memory/buffer.ts', false, true],
    ['core/memory/buffer.ts', 'core/stream.ts', false, false],
    ['cuda/open.ts', 'simulator/sim-driver.ts', true, false],
    ['foundation/driver/driver.ts', 'core/default-driver.ts', false, false],
    ['core/default-driver.ts', 'cuda/open.ts', false, true],
    ['libraries/library-call.ts', 'foundation/native/native-memory.ts', false, true],
    ['libraries/library-call.ts', 'cuda/cuda-driver.ts', false, false],
    ['core/device.ts', 'entry-points/index.ts', true, false],
    ['entry-points/sim.ts', 'entry-points/index.ts', false, false],
    ['tools/sanitizer/order.ts', 'core/stream.ts', false, false],
    ['tools/sanitizer/sanitizer.ts', 'core/stream.ts', false, true],
    ['tools/sanitizer/sanitizer.ts', 'tools/timeline/timeline.ts', false, false],
    ['tools/timeline/cupti/cupti-library.ts', 'foundation/native/native-memory.ts', false, true],
    ['tools/timeline/cupti/cupti-library.ts', 'cuda/cuda-driver.ts', false, false],
    ['tools/timeline/session.ts', 'foundation/native/native-memory.ts', false, false],
    ['tools/timeline/predictor.ts', 'tools/prediction/replay.ts', false, true],
    ['tools/timeline/predictor.ts', 'simulator/machine/timed-scheduler.ts', false, false],
    ['tools/prediction/replay.ts', 'tools/timeline/trace.ts', false, false],
    ['foundation/native/nvrtc.ts', 'foundation/base/polling.ts', false, true],
    ['foundation/base/polling.ts', 'foundation/native/native-memory.ts', false, false],
  ]
  for (const [from, to, ofTypes, right] of rows)
    assert.equal(broken({ from, to, ofTypes }) === undefined, right, `${from} -> ${to}`)
})

const src = join(root, 'src')
const skip = existsSync(src) ? false : 'the sources are not here, only what was compiled of them'

const files = existsSync(src)
  ? readdirSync(src, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => name.replaceAll('\\', '/'))
      .sort()
  : []
const textOf = (file: string): string => readFileSync(join(src, file), 'utf8')

test('each layer imports values only from the layers below it', { skip }, () => {
  const unlisted = files.filter((file) => levelOf(layerOf(file)) < 0)
  assert.deepEqual(unlisted, [], 'Files in no layer of the table above')
  const found = new Map<string, string>()
  for (const file of files) {
    for (const each of importsOf(file, textOf(file))) {
      const rule = broken(each)
      if (rule !== undefined) found.set(`${each.from} -> ${layerOf(each.to)}`, `${each.to}: ${rule}`)
    }
  }
  const wrong = [...found].filter(([place]) => STILL_BROKEN[place] === undefined)
  assert.deepEqual(wrong.map(([place, rule]) => `src/${place}, ${rule}`).join('\n'), '')
  const fixed = Object.keys(STILL_BROKEN).filter((place) => !found.has(place))
  assert.deepEqual(fixed, [], 'These places keep the rules now: remove their rows from STILL_BROKEN')
})

test('only core/shortcuts.ts adds members to classes of other files', { skip }, () => {
  const adding = files.filter((file) => /^declare module '\./m.test(textOf(file)))
  assert.deepEqual(adding, ['core/shortcuts.ts'])
})

test('an entry point is a list of exports', { skip }, () => {
  for (const entryPoint of ENTRY_POINTS) {
    const text = textOf(entryPoint).replace(/\/\*[\s\S]*?\*\/|^\/\/.*$/gm, '')
    const rest = text.replace(/^export (?:type )?\{[^}]*\} from '[^']+'$|^import '[^']+'$/gm, '').trim()
    assert.equal(rest, '', `src/${entryPoint} contains something other than exports`)
  }
})
