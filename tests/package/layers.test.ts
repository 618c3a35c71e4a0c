/**
 * The layering rules: a layer of src imports values only from the layers below it. Types may be imported from above.
 * Biome checks that there are no import cycles (noImportCycles).
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { test } from 'node:test'
import { root } from '../helpers/root.js'

/** The layers, the lowest first. Layers in one line are on the same level and import no values from each other. */
const LEVELS: readonly (readonly string[])[] = [
  ['base'],
  ['ptx'],
  ['driver'],
  ['native'],
  ['driver/cuda', 'driver/sim'],
  ['default-driver'],
  ['device'],
  ['streams'],
  ['event', 'memory'],
  ['kernels'],
  ['graphs'],
  ['stream'],
  ['shortcuts'],
  ['libraries', 'simulation', 'sanitizer', 'timeline', 'cu'],
  ['explore', 'recording'],
  ['cli'],
  ['entry point'],
]
/** The entry points of the package, which are lists of exports. */
const ENTRY_POINTS = Object.values(
  (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly exports: Record<string, unknown> })
    .exports,
).flatMap((target) => /(?<=dist\/src\/)[\w-]+(?=\.js)/.exec(JSON.stringify(target))?.map((name) => `${name}.ts`) ?? [])
const PUBLIC_CLASSES = [
  'default-driver',
  'device',
  'streams',
  'event',
  'memory',
  'kernels',
  'graphs',
  'stream',
  'shortcuts',
]
/** The sanitizer and the timeline use the driver interface; of their files only these may import the public classes. */
const TOP_FILES = ['sanitizer/sanitizer.ts', 'timeline/timeline.ts', 'timeline/channels.ts']
const INTERCEPTORS = ['sanitizer', 'timeline']
/** The command reports what is wrong with libcuda before a backend is open. */
const mayImportLibcuda = (from: string): boolean => from.startsWith('cli/')
/** Files that call C libraries which come with CUDA. */
const callsLibraries = (from: string): boolean => from.startsWith('timeline/cupti/')

/** Files that break the rules, and the layer that they must not import. A row is removed when its file is fixed; no row is added. */
const STILL_BROKEN: Readonly<Record<string, string>> = {
  'timeline/virtual-meter.ts -> driver/sim': 'the meter reads the operations of the simulated machine',
}

interface Import {
  readonly from: string
  readonly to: string
  /** The compiler removes it. */
  readonly ofTypes: boolean
}

const STATEMENT =
  /^(?:import|export)(?<types> type)?\s[^;'"]*?from '(?<named>\.[^']+)'|^import '(?<effect>\.[^']+)'|\bimport\('(?<called>\.[^']+)'\)/gm

export function importsOf(from: string, text: string): readonly Import[] {
  return [...text.matchAll(STATEMENT)].map(({ groups = {} }) => {
    const path = groups['named'] ?? groups['effect'] ?? groups['called'] ?? ''
    const to = normalize(join(dirname(from), path)).replace(/\.js$/, '.ts')
    return { from, to, ofTypes: groups['types'] !== undefined }
  })
}

function layerOf(file: string): string {
  if (ENTRY_POINTS.includes(file)) return 'entry point'
  if (/^driver\/(default-driver|backends(-in-bundle|-in-page)?)\.ts$/.test(file)) return 'default-driver'
  return /^driver\/(cuda|sim)(?=\/)|^[^/.]+/.exec(file)?.[0] ?? file
}

const levelOf = (layer: string): number => LEVELS.findIndex((layers) => layers.includes(layer))

/** The rule that an import breaks. */
export function broken({ from, to, ofTypes }: Import): string | undefined {
  const [layer, other] = [layerOf(from), layerOf(to)]
  if (layer === other && layer !== 'entry point') return undefined
  if (other === 'entry point') return 'no file of the library imports an entry point'
  if (other === 'driver/sim' && !['default-driver', 'simulation', 'explore', 'recording'].includes(layer))
    return 'only default-driver, simulation, explore and recording import the simulator’s backend'
  const isAllowed = /^driver\/cuda\/libcuda\//.test(to) && mayImportLibcuda(from)
  if (other === 'driver/cuda' && layer !== 'default-driver' && !isAllowed)
    return 'only default-driver imports the CUDA backend; cli may import driver/cuda/libcuda'
  if (ofTypes) return undefined
  if (
    INTERCEPTORS.includes(layer) &&
    !(other === 'native' && callsLibraries(from)) &&
    !['base', 'driver', ...(TOP_FILES.includes(from) ? PUBLIC_CLASSES : [])].includes(other)
  )
    return `${layer} imports base and driver, and public classes only in ${TOP_FILES.join(' and ')}`
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
    ['base/errors.ts', 'driver/driver.ts', false, false],
    ['base/errors.ts', 'driver/driver.ts', true, true],
    ['stream.ts', 'memory/buffer.ts', false, true],
    ['memory/buffer.ts', 'stream.ts', false, false],
    ['driver/cuda/open.ts', 'driver/sim/sim-driver.ts', true, false],
    ['driver/driver.ts', 'driver/default-driver.ts', false, false],
    ['driver/default-driver.ts', 'driver/cuda/open.ts', false, true],
    ['libraries/library-call.ts', 'native/native-memory.ts', false, true],
    ['libraries/library-call.ts', 'driver/cuda/cuda-driver.ts', false, false],
    ['device.ts', 'index.ts', true, false],
    ['sim.ts', 'index.ts', false, false],
    ['sanitizer/order.ts', 'stream.ts', false, false],
    ['sanitizer/sanitizer.ts', 'stream.ts', false, true],
    ['sanitizer/sanitizer.ts', 'timeline/timeline.ts', false, false],
    ['timeline/cupti/cupti-library.ts', 'native/native-memory.ts', false, true],
    ['timeline/cupti/cupti-library.ts', 'driver/cuda/cuda-driver.ts', false, false],
    ['timeline/session.ts', 'native/native-memory.ts', false, false],
    ['native/nvrtc.ts', 'base/poll-until.ts', false, true],
    ['base/poll-until.ts', 'native/native-memory.ts', false, false],
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

test('only shortcuts.ts adds members to classes of other files', { skip }, () => {
  const adding = files.filter((file) => /^declare module '\./m.test(textOf(file)))
  assert.deepEqual(adding, ['shortcuts.ts'])
})

test('an entry point is a list of exports', { skip }, () => {
  for (const entryPoint of ENTRY_POINTS) {
    const text = textOf(entryPoint).replace(/\/\*[\s\S]*?\*\/|^\/\/.*$/gm, '')
    const rest = text.replace(/^export (?:type )?\{[^}]*\} from '[^']+'$|^import '[^']+'$/gm, '').trim()
    assert.equal(rest, '', `src/${entryPoint} contains something other than exports`)
  }
})
