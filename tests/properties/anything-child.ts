/**
 * Calls every function of every entry point with random values, and prints each error that has no code. The functions are found
 * by reflection, so those that are added later are among them.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { types } from 'node:util'
import * as main from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { entryPoints, isClass } from '../catalogue/entry-points.js'
import { objectsOf } from '../catalogue/objects.js'
import { allCalls } from '../catalogue/tools.js'
import { runs } from '../helpers/effort.js'
import { SEED } from './wrong-arguments.js'
import * as wrong from './wrong-values.js'

const CALLS = runs({ quick: 3000, normal: 10_000, nightly: 30_000 })
/** After so many calls there are new objects to make them on. */
const RENEW = 40
/** They lose the device, or make the simulation fail. */
const LEFT_OUT = ['fault', 'inject']

/** They start Python, or compile files. */
const OF_OTHERS = ['cuda-streams/python', 'cuda-streams/cu']

/** The names of options, and of the members of tokens. */
const NAMES = [
  ...allCalls.flatMap(({ options }) => Object.keys(options?.values ?? {})),
  ...['byteLength', 'byteOffset', 'driver', 'handle', 'key', 'process', 'simulation', 'size', 'thread'],
]

/** New objects of every kind, some of them closed. */
function makeObjects(device: main.Device): readonly object[] {
  const stream = new main.Stream({ device })
  const buffer = device.alloc(64, { stream })
  const closed = [new main.Stream({ device }), stream.record(), device.alloc(8), device.allocPinned(8)]
  for (const one of closed) one.close()
  const more = [device.defaultStream, stream.record(), buffer.subarray(8, 16)]
  return [...objectsOf(stream), ...closed, ...more, stream.share(), buffer.share(), buffer.subarray(0, 8).share()]
}

interface Callable {
  readonly name: string
  readonly call: (...args: readonly unknown[]) => unknown
}

/** Functions and constructors of the entry points, and static members of their classes. */
function exported(): readonly Callable[] {
  const found: Callable[] = []
  for (const [path, entryPoint] of entryPoints) {
    if (OF_OTHERS.includes(path)) continue
    for (const [name, value] of Object.entries(entryPoint) as [string, unknown][]) {
      if (isClass(value) && !(value.prototype instanceof Error)) {
        found.push({ name: `new ${name}`, call: (...args) => Reflect.construct(value, args) })
      }
      if (typeof value === 'function' && !isClass(value) && !LEFT_OUT.includes(name)) {
        found.push({ name, call: (...args) => Reflect.apply(value, undefined, args) })
      }
      for (const key of Reflect.ownKeys(Object(value))) {
        const { value: member } = Object.getOwnPropertyDescriptor(value, key) ?? {}
        if (typeof member !== 'function' || key === 'prototype') continue
        found.push({ name: `${name}.${String(key)}`, call: (...args) => Reflect.apply(member, value, args) })
      }
    }
  }
  return found
}

/** Methods and accessors of one of our objects. */
function membersOf(at: () => object, prototype: object): readonly Callable[] {
  const found: Callable[] = []
  for (let where = prototype; where !== Object.prototype; where = Object.getPrototypeOf(where)) {
    for (const key of Reflect.ownKeys(where)) {
      if (key === 'constructor' || /^Symbol\((launchOn|updateNode)\)$/.test(String(key))) continue
      const { value, get } = Object.getOwnPropertyDescriptor(where, key) ?? {}
      const member: unknown = value ?? get
      if (typeof member !== 'function') continue
      found.push({
        name: `${prototype.constructor.name}.${String(key)}`,
        call: (...args) => Reflect.apply(member, at(), args),
      })
    }
  }
  return found
}

let simulation = simulate({ devices: 2 })
let [device] = simulation.devices as readonly [main.Device, main.Device]
let objects = makeObjects(device)
const prototypes = objects.map((one) => Object.getPrototypeOf(one) as object)
const callables = [
  ...exported(),
  ...prototypes.flatMap((prototype, nth) => membersOf(() => objects[nth] as object, prototype)),
]

async function renew(): Promise<void> {
  for (const one of Sanitizer.running) one.stop()
  await turn()
  simulation.close()
  simulation = simulate({ devices: 2 })
  ;[device] = simulation.devices as readonly [main.Device, main.Device]
  objects = makeObjects(device)
}

/** One of the objects that were made last. */
function one<T extends object>(of: { readonly prototype: T; readonly name: string }): T {
  const found = objects.find((each): each is T => Object.prototype.isPrototypeOf.call(of.prototype, each))
  if (found === undefined) throw new Error(`there is no ${of.name}`)
  return found
}
const type = 'f32'
const square = { type, m: 2, n: 2, k: 2 }

/** Right arguments by the name of the function: they take the place of some of the random ones. */
const RIGHT: ReadonlyMap<string, () => readonly unknown[]> = new Map([
  ['launch', () => [one(main.DefinedKernel), { grid: 1, block: 1 }, one(main.DeviceBuffer), 1]],
  ['copy', () => [one(main.DeviceBuffer), one(main.PinnedBuffer)]],
  ['fill', () => [one(main.DeviceBuffer), 1, {}]],
  ['upload', () => [one(main.DeviceBuffer), new Uint8Array(64)]],
  ['download', () => [one(main.DeviceBuffer), Float32Array]],
  ['downloader', () => [one(main.DeviceBuffer), {}]],
  ['uploader', () => [one(main.DeviceBuffer)]],
  ['record', () => [one(main.Event), {}]],
  ['wait', () => [one(main.Event), {}]],
  ['capture', () => [() => {}, {}]],
  ['external', () => [{ name: 'x', memory: [{ buffer: one(main.DeviceBuffer) }], simulate() {} }, () => {}]],
  ['subarray', () => [0, 8]],
  ['view', () => [Float32Array]],
  ['alloc', () => [8, {}]],
  ['from', () => [objects.at(-1), {}]],
  ['fromHandle', () => [one(main.Event).handle, {}]],
  ['fromIpcHandle', () => [new Uint8Array(80), {}]],
  ['elapsedSince', () => [one(main.Event)]],
  ['gemm', () => [...Array.from({ length: 3 }, () => device.alloc(64)), square]],
  ['gemmStridedBatched', () => [...Array.from({ length: 3 }, () => device.alloc(64)), { ...square, batchCount: 2 }]],
  ['create', () => [{ id: new Uint8Array(128), rank: 0, size: 1, device }]],
  ['createAll', () => [[device], {}]],
  ['defineKernel', () => [{ name: 'k', source: '', signature: ['i32'], simulateGrid() {} }]],
  ['declareAccess', () => [one(main.Stream), { reads: [one(main.DeviceBuffer)] }, 'x']],
  ['declareWait', () => [one(main.Stream), one(main.Event)]],
  ['explore', () => [() => 1, { maxRuns: 2 }]],
  ['replay', () => [() => 1, '1:', {}]],
  ['busy', () => [one(main.Stream), 5]],
  ['nameStream', () => [one(main.Stream), 'x']],
  ['update', () => [one(main.Graph)]],
  ['prepare', () => [device]],
])

const surprises = new Map<string, string>()
let latest = ''

function judge(error: unknown, how: string): void {
  if (error instanceof wrong.Hostility || typeof Reflect.get(Object(error), 'code') === 'string') return
  const { name, message, stack = '' } = error as Error
  // A class that was passed as a callback cannot be called; and an aborted wait rejects with the signal's reason.
  if (/cannot be invoked without 'new'|requires 'new'|without \|new\|/.test(message) || name === 'AbortError') return
  const where = stack.split('\n').find((line) => line.includes('/dist/src/')) ?? ''
  const what = `${how} ${name}: ${message} ${where.trim()}`
  if (!surprises.has(what)) surprises.set(what, latest)
}

process.on('uncaughtException', (error) => judge(error, 'uncaught'))
process.on('unhandledRejection', (error) => judge(error, 'rejected'))

const close = (one: object): void => {
  const member: unknown = Reflect.get(one, 'close')
  if (typeof member === 'function') Reflect.apply(member, one, [])
}
const anything = wrong.anything([...new Set(NAMES)], () => objects, close)
const called = new Set<string>()
let made = 0
await fc.assert(
  fc.asyncProperty(
    fc.constantFrom(...callables),
    fc.array(anything, { maxLength: 4 }),
    fc.nat(31),
    async ({ name, call }, args, mask) => {
      made += 1
      if (made % RENEW === 0) await renew()
      called.add(name)
      const given = args.map(wrong.resolved)
      const right = RIGHT.get(name.split('.').at(-1) ?? '')?.() ?? []
      for (const [nth, value] of right.entries()) if (nth >= given.length || (mask >> nth) % 2 === 1) given[nth] = value
      latest = `${name}(${given.map(wrong.shown).join(', ')})`.slice(0, 400)
      try {
        const result = device.run(() => call(...given))
        if (types.isPromise(result)) result.catch((error) => judge(error, 'rejected'))
        else if (typeof result === 'object' && result !== null && 'flush' in result) close(result)
      } catch (error) {
        judge(error, 'threw')
      }
    },
  ),
  { seed: SEED, numRuns: CALLS, endOnFailure: true },
)
await turn()
console.log(
  JSON.stringify({ made, functions: called.size, surprises: [...surprises].map((pair) => pair.join('\n  ')) }),
)
process.exit(0)
