/** Where the calls of the catalogue are tried, and what they leave behind there. */
import assert from 'node:assert/strict'
import type { Device, Stream } from 'cuda-streams'
import type { Simulation } from 'cuda-streams/sim'
import { driverOf } from '../../src/core/device.js'
import { backendOf } from '../../src/foundation/driver/wrappable-driver.js'
import { SimDriver } from '../../src/simulator/sim-driver.js'
import { isPinned, type MemoryKind, type StreamKind } from '../catalogue/axes.js'
import { type Call, valuesOf } from '../catalogue/call.js'
import { calls } from '../catalogue/catalogue.js'
import { Lab } from '../catalogue/lab.js'
import { answerOf, RETURNS } from '../catalogue/rules.js'
import { outcomeOf, Scene } from '../catalogue/scene.js'
import { collectUntil } from '../conformance/expect.js'
import { workbenchOf } from '../helpers/workbench.js'

/** A call of the catalogue, with memory of this kind, and with its own options or all that it has. */
export interface Variant {
  readonly name: string
  readonly call: Call
  readonly where: StreamKind
  readonly kind: MemoryKind
  readonly hasAllOptions: boolean
}

const WHERE = { stream: 'non-blocking' } as const
/** Calls whose calls of the driver are others on such a stream. */
const ELSEWHERE: Partial<Record<StreamKind, readonly string[]>> = {
  null: ['stream.wait(another)', 'stream.record()', 'stream.query()'],
  external: ['device.alloc(length, { stream })'],
}
const KINDS: readonly MemoryKind[] = ['device', 'own', 'pinned']
/** The reason of its signal is an uncaught error where nothing was queued behind the wait that could tell of it. */
const ABORTED = 'stream.wait(promise, { signal })'
/** Bytes by the million: such a call takes too long to be made again and again. */
export const movesMuch = ({ name }: Variant): boolean => name.includes('more than')

export const variants: readonly Variant[] = calls
  .filter(({ apart, act, refuses, name }) => {
    const isRefused = (refuses?.({ situation: WHERE }) ?? []).length > 0
    return apart === undefined && name !== ABORTED && !isRefused && answerOf(act, WHERE).outcomes.includes(RETURNS)
  })
  .flatMap((call) => {
    const { memory = [], name } = call
    const isOfDevice = memory.some(({ takes }) => takes !== undefined)
    const kinds = memory.length === 0 ? KINDS.slice(0, 1) : KINDS.filter((kind) => !(isOfDevice && isPinned(kind)))
    const plain: Variant = { name, call, where: WHERE.stream, kind: 'device', hasAllOptions: false }
    const elsewhere = (Object.keys(ELSEWHERE) as StreamKind[]).filter((where) => ELSEWHERE[where]?.includes(name))
    return [
      ...kinds.map((kind) => ({ ...plain, kind, name: memory.length === 0 ? name : `${name}, with memory: ${kind}` })),
      ...elsewhere.map((where) => ({ ...plain, where, name: `${name}, on a stream: ${where}` })),
      ...(call.options === undefined ? [] : [{ ...plain, hasAllOptions: true, name: `${name}, with all options` }]),
    ]
  })

/** A call, and what it must have brought about once it has returned or its promise is done. */
export interface Attempt {
  readonly stream: Stream
  readonly act: () => unknown
  /** To be called where it has thrown. */
  readonly refused: () => void
  /** To be called with what it returned when all work is done. */
  readonly check: (value: unknown) => Promise<void>
  /** To be called in the end, without faults. */
  readonly end: () => void
}

export const labIn = (simulation: Simulation): Promise<Lab> => Lab.open(workbenchOf(simulation))

export async function attemptIn(lab: Lab, { call, where, kind, hasAllOptions }: Variant): Promise<Attempt> {
  const kinds = (call.memory ?? []).map(() => kind)
  const scene = new Scene(lab, call, { stream: where }, 'nothing', kinds, true)
  const invoke = await call.prepare(scene)
  scene.recordBefore()
  lab.settle()
  const { stream } = scene
  // What was allocated there has work.
  lab.bench.busy(lab.allocationStream, 1000)
  scene.beginCapture()
  const options = valuesOf(call, scene)
  let wasRefused = false
  return {
    stream,
    act: () => (hasAllOptions ? invoke(options as never) : invoke()),
    refused: () => {
      wasRefused = true
      assert.notEqual(call.closes?.(scene)?.closed, true, 'it is closed, though the call was refused')
      if (call.act === 'begins a capture' && stream.isCapturing) stream.endCapture()
    },
    check: async (value) => {
      assert.notEqual(call.closes?.(scene)?.closed, false, 'it is open')
      // What is noted of the use of memory after the work was queued may be refused, too: then the work is done twice.
      const times = wasRefused ? [1, 2] : [1]
      const wrong = times.map((each) => outcomeOf(() => scene.checkMemory(each)).error)
      if (wrong.every((error) => error !== undefined)) throw wrong[0]
      // A capture that could not be ended was ended here.
      if (!(wasRefused && call.act === 'begins a capture')) await call.answers?.(scene, value)
    },
    end: () => scene.dispose(),
  }
}

export function backendIn({ devices: [device] }: { readonly devices: readonly Device[] }): SimDriver {
  assert.ok(device)
  const backend = backendOf(driverOf(device))
  assert.ok(backend instanceof SimDriver)
  return backend
}

type Counts = SimDriver['counts']

export const isNoMore = (some: Counts, others: Counts): boolean =>
  some.streams <= others.streams && some.events <= others.events && some.bytes <= others.bytes

/** What is left when garbage was collected a few times, or when it is enough: by default, when a collection changes nothing. */
export async function left(simulation: Simulation, isEnough?: (counts: Counts) => boolean): Promise<Counts> {
  const backend = backendIn(simulation)
  let rounds = 0
  let before: Counts | undefined
  await collectUntil(() => {
    simulation.devices[0]?.synchronize()
    rounds += 1
    const now = backend.counts
    const isOver = isEnough?.(now) ?? (before !== undefined && isNoMore(before, now))
    before = now
    return rounds === 5 || isOver
  })
  return backend.counts
}
