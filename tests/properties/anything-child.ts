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
import { rightCall } from '../catalogue/arguments.js'
import { type Call, valuesOf } from '../catalogue/call.js'
import { entryPoints, isClass } from '../catalogue/entry-points.js'
import type { Lab } from '../catalogue/lab.js'
import { objectsOf } from '../catalogue/objects.js'
import { Scene } from '../catalogue/scene.js'
import { allCalls } from '../catalogue/tools.js'
import { runs } from '../helpers/effort.js'
import { labIn } from '../simulator/stage.js'
import { SEED } from './wrong-arguments.js'
import * as wrong from './wrong-values.js'

const CALLS = runs({ quick: 3000, normal: 3000, nightly: 30_000 })
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
let opened = labIn(simulation)
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
  right.clear()
  opened = labIn(simulation)
}

/** One of the objects that were made last. */
function one<T extends object>(of: { readonly prototype: T; readonly name: string }): T {
  const found = objects.find((each): each is T => Object.prototype.isPrototypeOf.call(of.prototype, each))
  if (found === undefined) throw new Error(`there is no ${of.name}`)
  return found
}

/** Right arguments of exported functions, which no entry of the catalogue tells. */
const OF_FUNCTIONS: ReadonlyMap<string, () => readonly unknown[]> = new Map([
  ['defineKernel', () => [{ name: 'k', source: '', signature: ['i32'], simulateGrid() {} }]],
  ['declareAccess', () => [one(main.Stream), { reads: [one(main.DeviceBuffer)] }, 'x']],
  ['declareWait', () => [one(main.Stream), one(main.Event)]],
  ['explore', () => [() => 1, { maxRuns: 2 }]],
  ['replay', () => [() => 1, '1:', {}]],
  ['busy', () => [one(main.Stream), 5]],
  ['nameStream', () => [one(main.Stream), 'x']],
])
const entriesOf = (name: string): readonly Call[] =>
  allCalls.filter(({ members: [member] }) => member?.split(/[#.]/)[1] === name)

/** Right arguments by the name of the function: they take the place of some of the random ones. */
const right = new Map<string, readonly unknown[]>()

async function rightOf(name: string): Promise<readonly unknown[]> {
  const ofFunction = OF_FUNCTIONS.get(name)
  if (ofFunction !== undefined) return ofFunction()
  const known = right.get(name)
  if (known !== undefined) return known
  const entries = entriesOf(name)
  const call = entries[made % entries.length]
  const lab = await opened
  const isHere = call !== undefined && (await call.lacks?.({ lab, bench: lab.bench })) === undefined
  // What the calls before have done may refuse it, or keep it waiting.
  const args = isHere ? await Promise.race([argumentsOf(lab, call).catch(() => []), turns(TURNS)]) : []
  right.set(name, args)
  return args
}

const TURNS = 50
async function turns(left: number): Promise<readonly unknown[]> {
  for (let more = left; more > 0; more -= 1) await turn()
  return []
}

async function argumentsOf(lab: Lab, call: Call): Promise<readonly unknown[]> {
  const kinds = (call.memory ?? []).map(() => 'device' as const)
  const scene = new Scene(lab, call, { stream: 'non-blocking' }, 'nothing', kinds, true)
  return (await rightCall(call, scene, valuesOf(call, scene)))?.args ?? []
}

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
      const rights = await rightOf(name.split('.').at(-1) ?? '')
      for (const [nth, value] of rights.entries())
        if (nth >= given.length || (mask >> nth) % 2 === 1) given[nth] = value
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
