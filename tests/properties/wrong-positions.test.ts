/**
 * Each argument of each public method, by its position, with something wrong in its place: it is refused by name, and queues nothing. The
 * methods, and what they take, are those of the catalogue; what is wrong follows from what is right there.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { Device, DeviceBuffer, Event, PinnedBuffer, Stream } from 'cuda-streams'
import fc from 'fast-check'
import { rightCall } from '../catalogue/arguments.js'
import { type Call, valuesOf } from '../catalogue/call.js'
import { calls } from '../catalogue/catalogue.js'
import { Lab } from '../catalogue/lab.js'
import { Scene } from '../catalogue/scene.js'
import { runs } from '../helpers/effort.js'
import { simWorkbench } from '../helpers/workbench.js'
import { isNoOptionsObject, SEED } from './wrong-arguments.js'
import * as wrong from './wrong-values.js'

const CALLS = runs({ quick: 2000, normal: 6000, nightly: 50_000 })
const REFUSED =
  /^(ERR_(INVALID_ARG_(TYPE|VALUE)|OUT_OF_RANGE|CLOSED|DEVICE_MISMATCH|INVALID_HANDLE)|(CUDA_ERROR|ORT)_\w+)$/
/** Milliseconds in which a promise of such a call has settled. */
const SOON = 10_000

/** Arguments that are the program's own, or of which anything means something. By the member and the place. */
const ANYTHING: Readonly<Record<string, string>> = {
  'Stream#launchHostFunc 2': 'is passed on to the function',
  'Stream#addCallback 2': 'is passed on to the function',
  'Communicator#send 1': 'waits for the other side before the memory is of any interest',
  'Communicator#recv 1': 'waits for the other side before the memory is of any interest',
}

type Values = fc.Arbitrary<unknown>

interface Target {
  readonly title: string
  readonly make: (value: unknown) => unknown
  readonly values: Values
}

test(`wrong arguments of methods are refused by name (fast-check seed ${SEED})`, async () => {
  const [bench, other] = [simWorkbench({ devices: 2 }), simWorkbench()]
  const lab = await Lab.open(bench)
  const { device } = bench
  const stream = bench.stream()
  const [closed, closedStream, closedEvent] = [device.alloc(64), bench.stream(), stream.record()]
  for (const one of [closed, closedStream, closedEvent]) one.close()
  const [foreign, otherStream] = [other.device.alloc(64), other.stream()]
  const otherEvent = otherStream.record()
  const [, second] = bench.devices
  assert.ok(second)
  const [farStream, farEvent] = [second.createStream(), second.createEvent()]
  const nothing = wrong.nothingOfOurs
  const noInteger = wrong.noInteger
  const noFloat = noInteger.filter((value) => typeof value !== 'number')
  const noText = wrong.oneOf(null, 1, 1n, true, Symbol('s'), {}, [], () => {}, 'no name of anything')

  const isNoNumber = (value: unknown): boolean => typeof value !== 'number' && typeof value !== 'bigint'

  /** By the names of options, and by members and places, where the type of what is right does not say it. */
  const named: Readonly<Record<string, Values>> = {
    owner: wrong.noOwner,
    priority: wrong.noPriority,
    mean: noFloat,
    stddev: noFloat,
    timeout: noFloat,
    name: noText.filter((value) => typeof value !== 'string'),
    'Stream#wait 1': wrong.either(
      wrong.noWaitTarget(() => stream.handle),
      wrong.oneOf(closedStream, closedEvent, otherStream, otherEvent),
    ),
    'Stream.from 1': wrong.either(
      wrong.noSource(() => stream.handle),
      wrong.oneOf(closedStream, closedEvent, device),
    ),
    // A stream of another simulated GPU makes a session there.
    'Session.load 2': wrong.noOptions,
    // An address is right for a pointer.
    'Stream#launch 3': nothing.filter(isNoNumber),
    'GraphExec#update 3': nothing.filter(isNoNumber),
    'Stream#record 1': wrong.either(nothing.filter(isNoOptionsObject), wrong.oneOf(closedEvent, otherEvent, farEvent)),
    'Event#record 1': wrong.either(nothing, wrong.oneOf(closedStream, otherStream, farStream)),
    'Stream#writeValue 2': noInteger.filter((value) => typeof value !== 'bigint'),
    'Stream#waitValue 2': noInteger.filter((value) => typeof value !== 'bigint'),
  }
  function wrongFor(right: unknown, name: string): Values | undefined {
    if (named[name] !== undefined) return named[name]
    switch (typeof right) {
      case 'number':
        return noInteger
      case 'bigint':
        return noInteger.filter((value) => typeof value !== 'bigint')
      case 'boolean':
        return wrong.noBoolean
      case 'function':
        return wrong.noFunction
      case 'string':
        return noText
      default:
        return typeof right === 'object' && right !== null ? noObjectLike(right) : undefined
    }
  }
  function noObjectLike(right: object): Values {
    if (right instanceof Stream) return wrong.either(nothing, wrong.oneOf(closedStream, otherStream, closed, device))
    if (right instanceof Event) return wrong.either(nothing, wrong.oneOf(closedEvent, otherEvent, stream, device))
    if (right instanceof DeviceBuffer || right instanceof PinnedBuffer)
      return wrong.either(nothing, wrong.oneOf(closed, foreign, stream, device))
    // A number is that of a device, in places.
    if (right instanceof Device) return nothing.filter((value) => !Number.isInteger(value))
    if (right instanceof AbortSignal) return wrong.noSignal
    if (ArrayBuffer.isView(right)) return wrong.oneOf(null, 1, 'x', 1n, true, () => {}, {}, stream)
    if (Array.isArray(right)) return wrong.oneOf(null, 1, 'x', 1n, true, () => {}, stream)
    if (Object.getPrototypeOf(right) !== Object.prototype)
      return wrong.either(nothing, wrong.oneOf(stream, device, closed))
    const members = Object.entries(right).flatMap(([name, value]): (readonly [string, Values])[] => {
      const values = wrongFor(value, name)
      return values === undefined ? [] : [[name, values]]
    })
    return members.length === 0 ? wrong.noOptions : wrong.wrongOptions(Object.fromEntries(members))
  }

  async function targetsOf(call: Call): Promise<readonly Target[]> {
    if ((await call.lacks?.({ lab, bench })) !== undefined) return []
    const kinds = (call.memory ?? []).map(() => 'device' as const)
    const scene = new Scene(lab, call, { stream: 'non-blocking' }, 'nothing', kinds, true)
    const { member = '', on = {}, args = [] } = (await rightCall(call, scene, valuesOf(call, scene))) ?? {}
    return args.flatMap((right, nth) => {
      const place = `${member} ${nth + 1}`
      const values = place in ANYTHING ? undefined : wrongFor(right, place)
      const method = (): unknown => Reflect.get(on, member.split(/[#.]/)[1] ?? '')
      const make = (value: unknown): unknown => Reflect.apply(method() as () => unknown, on, args.with(nth, value))
      return values === undefined ? [] : [{ title: `${call.name}, argument ${nth + 1}`, values, make }]
    })
  }

  const targets: Target[] = []
  for (const call of calls) targets.push(...(await targetsOf(call)))
  assert.ok(targets.length > 200, `${targets.length} arguments`)
  lab.settle()
  await device.finished()
  const cases = fc.oneof(...targets.map((target) => target.values.map((value) => [target, value] as const)))
  await fc.assert(
    fc.asyncProperty(cases, async ([{ title, make }, value]) => {
      const given = (): string => `${title}: ${wrong.shown(value)}`
      let result: unknown
      const late = new AbortController()
      const limit = setTimeout(() => late.abort(), SOON)
      try {
        const pending = new Promise((resolve) => late.signal.addEventListener('abort', () => resolve('nothing yet')))
        result = await Promise.race([device.run(() => make(wrong.resolved(value))), pending])
      } catch (error) {
        if (error instanceof wrong.Hostility) return
        assert.match(String(Reflect.get(Object(error), 'code')), REFUSED, `${given()} threw ${inspect(error)}`)
        return
      } finally {
        clearTimeout(limit)
      }
      assert.fail(`${given()} returned ${inspect(result)}`)
    }),
    { seed: SEED, numRuns: CALLS, endOnFailure: true },
  )
  assert.equal(stream.query(), true)
  assert.equal(device.defaultStream.query(), true)
})
