/**
 * The law of imports: src is a house of rooms, and a room takes values only from the rooms below it. Types may look up.
 * That no circle of imports is left is biome's to say (noImportCycles).
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { test } from 'node:test'
import { root } from '../helpers/root.js'

/** From the ground up. Rooms on one line stand beside each other and take no values from each other. */
const FLOORS: readonly (readonly string[])[] = [
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
  ['libraries', 'simulation', 'sanitizer', 'timeline'],
  ['explore', 'cli'],
  ['door'],
]
/** The entry points of the package, which are lists of exports. */
const DOORS = ['index', 'sim', 'sanitizer', 'timeline', 'opentelemetry', 'cublas', 'dlpack', 'nccl'].map(
  (name) => `${name}.ts`,
)
const NOUNS = ['default-driver', 'device', 'streams', 'event', 'memory', 'kernels', 'graphs', 'stream', 'shortcuts']
/** The sanitizer and the timeline watch the wall from outside; these files of theirs know the nouns too. */
const TOP_FILES = ['sanitizer/sanitizer.ts', 'timeline/timeline.ts', 'timeline/channels.ts']
const WATCHERS = ['sanitizer', 'timeline']
/** It says what is wrong with libcuda, before a backend is open. */
const knowsLibcuda = (from: string): boolean => from.startsWith('cli/')
/** What calls C libraries that come with CUDA. */
const callsLibraries = (from: string): boolean => from.startsWith('timeline/cupti/')

/** Files that break the law, and the room that they must not import. A row goes when its file is fixed; no row is added. */
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

function roomOf(file: string): string {
  if (DOORS.includes(file)) return 'door'
  if (/^driver\/(default-driver|backends(-in-bundle|-in-browser)?)\.ts$/.test(file)) return 'default-driver'
  return /^driver\/(cuda|sim)(?=\/)|^[^/.]+/.exec(file)?.[0] ?? file
}

const floorOf = (room: string): number => FLOORS.findIndex((rooms) => rooms.includes(room))

/** The rule that an import breaks. */
export function broken({ from, to, ofTypes }: Import): string | undefined {
  const [room, other] = [roomOf(from), roomOf(to)]
  if (room === other && room !== 'door') return undefined
  if (other === 'door') return 'an entry point is imported by no file of the library'
  if (other === 'driver/sim' && !['default-driver', 'simulation', 'explore'].includes(room))
    return 'only default-driver, simulation and explore know the simulator’s backend'
  const ofLibcuda = /^driver\/cuda\/libcuda\//.test(to) && knowsLibcuda(from)
  if (other === 'driver/cuda' && room !== 'default-driver' && !ofLibcuda)
    return 'only default-driver knows the CUDA backend; cli may import driver/cuda/libcuda'
  if (ofTypes) return undefined
  if (
    WATCHERS.includes(room) &&
    !(other === 'native' && callsLibraries(from)) &&
    !['base', 'driver', ...(TOP_FILES.includes(from) ? NOUNS : [])].includes(other)
  )
    return `${room} imports base and driver, and the nouns only in ${TOP_FILES.join(' and ')}`
  if (floorOf(other) < floorOf(room)) return undefined
  return `${room} takes values only from the rooms below it, and ${other} is not one: import a type, or let ${room} declare the interface that it needs`
}

test('the reader of imports knows every form, and the rules tell right from wrong', () => {
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
    ['native/nvrtc.ts', 'driver/poll-until.ts', false, true],
    ['driver/poll-until.ts', 'native/native-memory.ts', false, false],
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

test('each room takes values only from the rooms below it', { skip }, () => {
  const homeless = files.filter((file) => floorOf(roomOf(file)) < 0)
  assert.deepEqual(homeless, [], 'Files in no room of the table above')
  const found = new Map<string, string>()
  for (const file of files) {
    for (const each of importsOf(file, textOf(file))) {
      const rule = broken(each)
      if (rule !== undefined) found.set(`${each.from} -> ${roomOf(each.to)}`, `${each.to}: ${rule}`)
    }
  }
  const wrong = [...found].filter(([place]) => STILL_BROKEN[place] === undefined)
  assert.deepEqual(wrong.map(([place, rule]) => `src/${place}, ${rule}`).join('\n'), '')
  const fixed = Object.keys(STILL_BROKEN).filter((place) => !found.has(place))
  assert.deepEqual(fixed, [], 'These places keep the law now: take their rows out of STILL_BROKEN')
})

test('only shortcuts.ts adds members to classes of other files', { skip }, () => {
  const adding = files.filter((file) => /^declare module '\./m.test(textOf(file)))
  assert.deepEqual(adding, ['shortcuts.ts'])
})

test('an entry point is a list of exports', { skip }, () => {
  for (const door of DOORS) {
    const text = textOf(door).replace(/\/\*[\s\S]*?\*\/|^\/\/.*$/gm, '')
    const rest = text.replace(/^export (?:type )?\{[^}]*\} from '[^']+'$|^import '[^']+'$/gm, '').trim()
    assert.equal(rest, '', `src/${door} holds something else than exports`)
  }
})
