/**
 * Pairs of programs, made from a table: two accesses to the same word × an order that fails to hold them apart, and the version
 * with one that does. A program is a list of steps with names, so that advice can be followed before one of them.
 */
import { type Device, type DeviceBuffer, defineKernel, type GraphExec, type PinnedBuffer, Stream } from 'cuda-streams'
import { nameStream } from 'cuda-streams/sanitizer'
import type { Simulation } from 'cuda-streams/sim'
import { aboutLibraries } from '../../../libraries/about-libraries.js'

type Memory = DeviceBuffer | PinnedBuffer

/** What the steps of a program work on. */
export interface Stage {
  readonly simulation: Simulation
  readonly device: Device
  readonly streams: Map<string, Stream>
  /** What the program has observed. */
  readonly results: unknown[]
  readonly keep: Map<string, unknown>
}

export interface Step {
  readonly name: string
  /** Where host functions of the step run, their looks have this name too. */
  readonly run: (stage: Stage) => unknown
}

export interface PairedProgram {
  readonly name: string
  /** How many devices the simulation needs. */
  readonly devices: number
  readonly bug: readonly Step[]
  readonly fixed: readonly Step[]
}

export function streamOf(stage: Stage, name: string): Stream {
  const known = stage.streams.get(name)
  if (known !== undefined) return known
  const made = name.startsWith('Stream.null')
    ? stage.device.defaultStream
    : nameStream(new Stream({ device: stage.device }), name)
  stage.streams.set(name, made)
  return made
}

const WORD = 4
const ONE = { grid: 1, block: 1 }

const look = defineKernel({
  name: 'look',
  source: 'not compiled',
  signature: ['in f32*', 'out f32*'],
  simulate: (_, data, seen) => {
    seen[0] = data[0] ?? 0
  },
})
const triple = defineKernel({
  name: 'triple',
  source: 'not compiled',
  signature: ['inout f32*', 'f32'],
  simulate: (_, data, value) => {
    data[0] = 3 * (data[0] ?? 0) + value
  },
})
const put = defineKernel({
  name: 'put',
  source: 'not compiled',
  signature: ['out f32*', 'f32'],
  simulate: (_, data, value) => {
    data[0] = value
  },
})

function memoryOf(stage: Stage, name: string, byteLength = WORD): DeviceBuffer {
  const known = stage.keep.get(name) as DeviceBuffer | undefined
  if (known !== undefined) return known
  const made = stage.device.alloc(byteLength)
  stage.keep.set(name, made)
  return made
}

const dataOf = (stage: Stage): Memory => stage.keep.get('data') as Memory
const bytesOf = (stage: Stage): Float32Array => (dataOf(stage) as PinnedBuffer).view(Float32Array)

export interface Access {
  readonly name: string
  readonly writes: boolean
  /** Where the word has to lie; undefined for anywhere. */
  readonly on: 'device' | 'pinned' | undefined
  /** It captures or allocates before the program begins. */
  readonly prepare?: (stage: Stage, side: string, stream: Stream) => void
  readonly run: (stage: Stage, side: string, stream: Stream) => unknown
}

/** The value that a side writes: each its own, so that the last one shows. */
const numberOf = (side: string): number => (side === 'first' ? 5 : 7)
/** What an access of a library needs of a program. */
export interface PairTools {
  readonly dataOf: typeof dataOf
  readonly memoryOf: typeof memoryOf
  readonly numberOf: typeof numberOf
}

const byteOf = (side: string): number => (side === 'first' ? 0x3f : 0x41)

const external = (write: boolean) => (stage: Stage, side: string, stream: Stream) =>
  void stream.external(
    {
      name: write ? 'lib_write' : 'lib_read',
      memory: [{ buffer: dataOf(stage), access: write ? 'out' : 'in' }, { buffer: memoryOf(stage, `seen by ${side}`) }],
      simulate: ([data, seen]) => {
        if (write) data?.fill(byteOf(side))
        else if (data !== undefined) seen?.set(data)
      },
    },
    () => {},
  )

const graph = (access: (stage: Stage, side: string, stream: Stream) => void): Pick<Access, 'prepare' | 'run'> => ({
  prepare: (stage, side, stream) => {
    const captured = new Stream({ device: stage.device })
    memoryOf(stage, `seen by ${side}`)
    stage.keep.set(`graph of ${side}`, captured.capture(() => access(stage, side, captured)).instantiate())
    captured.close()
    void stream
  },
  run: (stage, side, stream) => (stage.keep.get(`graph of ${side}`) as GraphExec).launch(stream),
})

const fill: Access['run'] = (stage, side, stream) => void stream.fill(dataOf(stage), byteOf(side))
const copyFrom: Access['run'] = (stage, side, stream) =>
  void stream.copy(memoryOf(stage, `seen by ${side}`), dataOf(stage))

/** Each library's accesses. */
const [ofFirst = [], ...ofOthers] = aboutLibraries.map(({ accesses }) => accesses({ dataOf, memoryOf, numberOf }))

const ACCESSES: readonly Access[] = [
  { name: 'fill', writes: true, on: undefined, run: fill },
  {
    name: 'copy to',
    writes: true,
    on: undefined,
    run: (stage, side, stream) => void stream.copy(dataOf(stage), memoryOf(stage, `given by ${side}`)),
  },
  { name: 'copy from', writes: false, on: undefined, run: copyFrom },
  {
    name: 'kernel out',
    writes: true,
    on: undefined,
    run: (stage, side, stream) => void stream.launch(put, ONE, dataOf(stage), numberOf(side)),
  },
  {
    name: 'kernel inout',
    writes: true,
    on: undefined,
    run: (stage, side, stream) => void stream.launch(triple, ONE, dataOf(stage), numberOf(side)),
  },
  {
    name: 'kernel in',
    writes: false,
    on: undefined,
    run: (stage, side, stream) => void stream.launch(look, ONE, dataOf(stage), memoryOf(stage, `seen by ${side}`)),
  },
  {
    name: 'upload',
    writes: true,
    on: 'device',
    run: (stage, side, stream) => void stream.upload(dataOf(stage), new Float32Array([numberOf(side)])),
  },
  {
    name: 'download',
    writes: false,
    on: 'device',
    run: (stage, _, stream) => {
      const download = stream.download(dataOf(stage))
      download.catch(() => {}) // it is awaited at the end, if the program comes so far
      stage.results.push(download)
    },
  },
  { name: 'external out', writes: true, on: undefined, run: external(true) },
  { name: 'external in', writes: false, on: undefined, run: external(false) },
  ...ofFirst,
  { name: 'graph of a fill', writes: true, on: undefined, ...graph(fill) },
  { name: 'graph of a copy', writes: false, on: undefined, ...graph(copyFrom) },
  {
    name: 'host function writes',
    writes: true,
    on: 'pinned',
    run: (stage, side, stream) =>
      void stream.launchHostFunc(() => {
        bytesOf(stage)[0] = numberOf(side)
      }),
  },
  {
    name: 'host function reads',
    writes: false,
    on: 'pinned',
    run: (stage, _, stream) => void stream.launchHostFunc(() => stage.results.push(bytesOf(stage)[0])),
  },
]

/** Those of further libraries: their pairs are behind the others, which keep their orders so. */
const FURTHER: readonly Access[] = ofOthers.flat()

/** JavaScript itself, as the second of the two. */
const VIEWS: readonly Access[] = [
  {
    name: 'view to write',
    writes: true,
    on: 'pinned',
    run: (stage, side) => {
      bytesOf(stage)[0] = numberOf(side)
    },
  },
  { name: 'view to read', writes: false, on: 'pinned', run: (stage) => stage.results.push(bytesOf(stage)[0]) },
]

type Place = (first: Step, second: (stream: string) => Step) => readonly Step[]

const step = (name: string, run: Step['run']): Step => ({ name, run })
const eventOf = (stage: Stage): Parameters<Stream['record']>[0] => stage.keep.get('event') as never
const recordA = (name: string): Step => step(name, (s) => s.keep.set('event', streamOf(s, 'a').record()))

/** Orders that do not hold the second access behind the first. */
const BROKEN: Readonly<Record<string, Place>> = {
  'no order': (first, second) => [first, second('b')],
  'an event too early': (first, second) => [
    recordA('early'),
    first,
    step('wait', (s) => streamOf(s, 'b').wait(eventOf(s) as never)),
    second('b'),
  ],
  'a wait on the wrong stream': (first, second) => [
    first,
    step('wait', (s) => streamOf(s, 'c').wait(streamOf(s, 'a'))),
    second('b'),
  ],
  'a wait for the wrong stream': (first, second) => [
    first,
    step('wait', (s) => streamOf(s, 'b').wait(streamOf(s, 'c'))),
    second('b'),
  ],
  'a host wait of another stream': (first, second) => [
    first,
    step('sync', (s) => streamOf(s, 'c').synchronize()),
    second('b'),
  ],
  'the wait the wrong way round': (first, second) => [
    step('wait', (s) => streamOf(s, 'a').wait(streamOf(s, 'b'))),
    first,
    second('b'),
  ],
  'the null stream, non-blocking': (first, second) => [first, second('Stream.null')],
  'the record after the wait': (first, second) => [
    recordA('early'),
    step('wait', (s) => streamOf(s, 'b').wait(eventOf(s) as never)),
    first,
    step('record', (s) => streamOf(s, 'a').record(eventOf(s) as never)),
    second('b'),
  ],
  'the wait too late': (first, second) => [
    first,
    second('b'),
    step('wait', (s) => streamOf(s, 'b').wait(streamOf(s, 'a'))),
  ],
  'a stream that is closed': (first, second) => [first, step('close', (s) => streamOf(s, 'a').close()), second('b')],
  'a promise of another stream': (first, second) => [
    first,
    step('await', async (s) => streamOf(s, 'c').finished()),
    second('b'),
  ],
}

const FIXED: Readonly<Record<string, Place>> = {
  'b.wait(a)': (first, second) => [first, step('wait', (s) => streamOf(s, 'b').wait(streamOf(s, 'a'))), second('b')],
  'an event': (first, second) => [
    first,
    recordA('record'),
    step('wait', (s) => streamOf(s, 'b').wait(eventOf(s) as never)),
    second('b'),
  ],
  'by way of a third stream': (first, second) => [
    first,
    step('wait', (s) => streamOf(s, 'c').wait(streamOf(s, 'a'))),
    step('wait again', (s) => streamOf(s, 'b').wait(streamOf(s, 'c'))),
    second('b'),
  ],
  'a.synchronize()': (first, second) => [first, step('sync', (s) => streamOf(s, 'a').synchronize()), second('b')],
  'await a.finished()': (first, second) => [
    first,
    step('await', async (s) => streamOf(s, 'a').finished()),
    second('b'),
  ],
  'device.synchronize()': (first, second) => [first, step('sync', (s) => s.device.synchronize()), second('b')],
  'one stream': (first, second) => [first, second('a')],
  'an event before the stream is closed': (first, second) => [
    first,
    recordA('record'),
    step('close', (s) => streamOf(s, 'a').close()),
    step('wait', (s) => streamOf(s, 'b').wait(eventOf(s) as never)),
    second('b'),
  ],
  'an event that was waited for': (first, second) => [
    first,
    recordA('record'),
    step('sync', (s) => (eventOf(s) as { synchronize(): void }).synchronize()),
    second('b'),
  ],
}

/** What every program begins with: memory with known bytes, and everything there is done. */
function beginning(on: 'device' | 'pinned', prepared: readonly (readonly [Access, string])[]): Step {
  return step('beginning', (stage) => {
    const { device, keep } = stage
    for (const name of ['a', 'b', 'c']) streamOf(stage, name)
    const data = on === 'device' ? device.alloc(WORD) : device.allocPinned(WORD)
    keep.set('data', data)
    device.defaultStream.fill(data, 0x40)
    for (const side of ['first', 'second']) {
      device.defaultStream.fill(memoryOf(stage, `given by ${side}`), byteOf(side))
      device.defaultStream.fill(memoryOf(stage, `seen by ${side}`), 0)
    }
    device.defaultStream.upload(memoryOf(stage, 'one'), new Float32Array([1]))
    for (const [access, side] of prepared) access.prepare?.(stage, side, streamOf(stage, 'a'))
    device.synchronize()
  })
}

/** What can be observed: what was looked at, and what is there when all is done. */
const end = step('end', async (stage) => {
  const { device, keep, results } = stage
  device.synchronize()
  await device.finished()
  for (const name of ['data', 'seen by first', 'seen by second']) {
    results.push(device.defaultStream.download(keep.get(name) as Memory))
  }
})

function programOf(first: Access, second: Access, on: 'device' | 'pinned', place: Place): readonly Step[] {
  const one = step('first', (stage) => first.run(stage, 'first', streamOf(stage, 'a')))
  const two = (stream: string): Step => step('second', (stage) => second.run(stage, 'second', streamOf(stage, stream)))
  const prepared = [[first, 'first'] as const, [second, 'second'] as const]
  return [beginning(on, prepared), ...place(one, two), end]
}

/** Each two accesses of which one writes, with one wrong order after the other and one right order after the other. */
export function pairs(): readonly PairedProgram[] {
  const result: PairedProgram[] = []
  const [broken, fixed] = [Object.entries(BROKEN), Object.entries(FIXED)]
  const inTable = ACCESSES.flatMap((first) => [...ACCESSES, ...VIEWS].map((second) => [first, second] as const))
  const further = FURTHER.flatMap((one) => [
    ...ACCESSES.map((second) => [one, second] as const),
    ...[...ACCESSES, one].map((first) => [first, one] as const),
  ])
  for (const [first, second] of [...inTable, ...further]) {
    if (!first.writes && !second.writes) continue
    const on = first.on ?? second.on ?? (result.length % 3 === 0 ? 'pinned' : 'device')
    if ((second.on ?? on) !== on) continue
    const inJavaScript = VIEWS.includes(second)
    // JavaScript is not on a stream: what holds the stream alone does not hold it.
    // A host function does not run before JavaScript has waited for something.
    const isOrder = (name: string): boolean =>
      !inJavaScript ||
      (!name.includes('null stream') && (!first.name.startsWith('host') || name.startsWith('a host wait')))
    const wrong = broken.filter(([name]) => isOrder(name))
    const right = inJavaScript
      ? fixed
          .filter(([name]) => name === 'an event that was waited for' || /a\.|device\./.test(name))
          .filter(([name]) => name !== 'b.wait(a)')
      : fixed
    const [badName, bad] = wrong[result.length % wrong.length] as [string, Place]
    const [goodName, good] = right[result.length % right.length] as [string, Place]
    result.push({
      name: `${first.name}, ${second.name}, ${on}: ${badName}; fixed by ${goodName}`,
      devices: 1,
      bug: programOf(first, second, on, bad),
      fixed: programOf(first, second, on, good),
    })
  }
  return result
}
