/**
 * What becomes of everything when a kernel faults. A fault poisons the device for its process, so each case has one of
 * its own; that the process then ends by itself, with code 0, is part of every case.
 */
import assert from 'node:assert/strict'
import { CudaError, type Device, type Event, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import type { Workbench } from '../helpers/workbench.js'
import type { Case } from './cases.js'

const ILLEGAL_ADDRESS = 700
const CONTEXT_IS_DESTROYED = 709

function assertCudaError(error: unknown, number: number): void {
  assert.ok(error instanceof CudaError, `a CudaError is expected, not ${error}`)
  assert.equal(error.number, number)
  if (number === ILLEGAL_ADDRESS) assert.equal(error.code, 'CUDA_ERROR_ILLEGAL_ADDRESS')
  assert.match(error.call, /^cu[A-Z]/)
}

function assertThrows(fn: () => unknown): void {
  assert.throws(fn, (error) => {
    assertCudaError(error, ILLEGAL_ADDRESS)
    return true
  })
}

/** Takes the reason now, so that no rejection stays unhandled while others are awaited. */
function reasonOf(promise: Promise<void>): Promise<unknown> {
  return promise.then(
    () => assert.fail('it resolved'),
    (reason: unknown) => reason,
  )
}

async function assertRejects(promises: readonly Promise<void>[], number = ILLEGAL_ADDRESS): Promise<void> {
  for (const reason of await Promise.all(promises.map(reasonOf))) assertCudaError(reason, number)
}

/** Faults the device and sees to it that the fault has come. */
async function faulted(bench: Workbench, stream = bench.stream()): Promise<void> {
  bench.fault(stream)
  await assertRejects([stream.finished()])
}

const pendingWaits: Case = async (bench) => {
  const [stream, held] = [bench.stream(), bench.stream()]
  const latch = bench.latch(stream)
  bench.latch(held)
  bench.fault(stream)
  const [event, heldEvent] = [stream.record(), held.record()]
  const waits = [stream, stream, held, event, heldEvent, bench.device].map((waited) => waited.finished())
  latch.open()
  await assertRejects(waits)
}

const laterWaits: Case = async (bench) => {
  const [stream, other] = [bench.stream(), bench.stream()]
  bench.latch(other)
  const event = other.record()
  await faulted(bench, stream)
  await assertRejects([stream, other, event, bench.device].map((waited) => waited.finished()))
}

const hostFunctions: Case = async (bench) => {
  const [stream, held] = [bench.stream(), bench.stream()]
  const seen: unknown[] = []
  const latch = bench.latch(stream)
  bench.latch(held)
  const callback = (where: Stream, status: number, arg: string): void => void seen.push([where, status, arg])
  stream.launchHostFunc(() => seen.push('before the fault'))
  stream.addCallback(callback, 'before the fault')
  bench.fault(stream)
  for (const behind of [stream, held]) {
    behind.launchHostFunc(() => seen.push('behind the fault'))
    behind.addCallback(callback, 'first')
    behind.launchHostFunc(() => seen.push('behind the fault'))
    behind.addCallback(callback, 'second')
  }
  const waits = [stream.finished(), held.finished()]
  latch.open()
  await assertRejects(waits)
  await turns()
  assert.deepEqual(seen.slice(0, 2), ['before the fault', [stream, 0, 'before the fault']])
  const behind = seen.slice(2)
  for (const where of [stream, held]) {
    const told = behind.filter((entry) => Array.isArray(entry) && entry[0] === where)
    assert.deepEqual(told, [
      [where, ILLEGAL_ADDRESS, 'first'],
      [where, ILLEGAL_ADDRESS, 'second'],
    ])
  }
  assert.equal(behind.length, 4)
}

/** A callback that hears of the fault may use the library: closing is what it will want. */
const callbackAfterFault: Case = async (bench) => {
  const stream = bench.stream()
  const seen: unknown[] = []
  bench.latch(stream)
  const told = new Promise<void>((resolve) => {
    stream.addCallback((where, status) => {
      seen.push(status)
      assertThrows(() => where.query())
      where.close()
      resolve()
    }, undefined)
  })
  bench.fault(bench.stream())
  await told
  await turns()
  assert.deepEqual(seen, [ILLEGAL_ADDRESS])
  assert.equal(stream.closed, true)
}

/** Enough of the event loop for anything that was still to come. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setTimeout(resolve, 1))
}

const calls: Case = async (bench) => {
  const [stream, other] = [bench.stream(), bench.stream()]
  bench.latch(other)
  const event = other.record()
  await faulted(bench, stream)
  for (const where of [stream, other]) {
    assertThrows(() => where.query())
    assertThrows(() => where.synchronize())
    assertThrows(() => where.record())
    assertThrows(() => where.record(event))
    assertThrows(() => where.launchHostFunc(() => {}))
    assertThrows(() => where.addCallback(() => {}, undefined))
  }
  assertThrows(() => event.query())
  assertThrows(() => event.synchronize())
  assertThrows(() => bench.device.synchronize())
}

/** A blocking wait that is under way when the fault comes. */
const blockingWait: Case = async (bench) => {
  const stream = bench.stream()
  const ran: string[] = []
  stream.launchHostFunc(() => ran.push('before'))
  bench.fault(stream)
  stream.launchHostFunc(() => ran.push('behind'))
  assertThrows(() => stream.synchronize())
  await turns()
  assert.deepEqual(ran, ['before'])
}

const closing: Case = async (bench) => {
  const [stream, other] = [bench.stream(), bench.stream()]
  const wrapper = Stream.from(bench.foreignStream(bench.device), { device: bench.device })
  const [event, timed] = [other.record(), bench.device.createEvent({ timing: true })]
  await other.finished()
  await faulted(bench, stream)
  for (const closable of [event, timed, stream, other, wrapper]) {
    closable.close()
    assert.equal(closable.closed, true)
    closable.close()
  }
  await assert.rejects(async () => {
    await using disposed = bench.device.defaultStream
    return disposed.closed
  }, CudaError)
}

const creating: Case = async (bench) => {
  await faulted(bench)
  for (let tries = 0; tries < 3; tries += 1) assertThrows(() => bench.stream())
  assertThrows(() => bench.device.createStream())
}

/** CUDA loses every device of the process, as was measured on two H200s. */
const otherDevices: Case = async (bench) => {
  const others = bench.devices.slice(1).map((device) => device.createStream())
  const pending = others.map((stream) => {
    bench.latch(stream)
    return stream.finished()
  })
  await faulted(bench)
  await assertRejects(pending)
  for (const stream of others) {
    assert.throws(() => stream.query(), { number: 700 })
    assert.throws(() => stream.device.createStream(), { number: 700 })
    stream.close()
  }
}

/** Callbacks of every device hear of a fault on one. */
const everyDevice: Case = async (bench) => {
  const seen: number[] = []
  const waits = bench.devices.map((device) => {
    const stream = device.createStream()
    bench.latch(stream)
    stream.addCallback((where) => seen.push(where.device.ordinal), undefined)
    return stream.finished()
  })
  bench.fault(bench.stream())
  await assertRejects(waits)
  await turns()
  assert.deepEqual(
    seen.toSorted((a, b) => a - b),
    bench.devices.map((device) => device.ordinal),
  )
}

/** Objects that became unreachable before the fault are destroyed after it. */
const collected: Case = async (bench) => {
  const make = (): void => {
    for (let made = 0; made < 100; made += 1) bench.stream().record()
  }
  make()
  await faulted(bench)
  for (let round = 0; round < 5; round += 1) {
    globalThis.gc?.()
    await turns()
  }
}

function heldStreams(devices: readonly Device[], bench: Workbench): { stream: Stream; event: Event }[] {
  return devices.map((device) => {
    const stream = device.createStream()
    bench.latch(stream)
    return { stream, event: stream.record() }
  })
}

/** Closing a simulation is to lose all its contexts at once. */
const closedSimulation: Case = async (bench) => {
  if (bench.name !== 'sim') return
  const simulation = simulate({ devices: 3 })
  const held = heldStreams(simulation.devices, bench)
  const statuses: number[] = []
  const waits = held.flatMap(({ stream, event }) => {
    stream.addCallback((_stream, status) => statuses.push(status), undefined)
    stream.launchHostFunc(() => assert.fail('behind the end'))
    return [stream.finished(), event.finished(), stream.device.finished()]
  })
  simulation.close()
  await assertRejects(waits, CONTEXT_IS_DESTROYED)
  await turns()
  assert.deepEqual(statuses, Array(3).fill(CONTEXT_IS_DESTROYED))
  for (const { stream, event } of held) {
    assert.throws(() => stream.query(), { number: CONTEXT_IS_DESTROYED })
    stream.close()
    event.close()
  }
}

export const faultCases = {
  'pending finished() of every stream, event and device rejects': pendingWaits,
  'later finished() rejects': laterWaits,
  'host functions behind it are dropped, callbacks are told once': hostFunctions,
  'a callback that is told may use the library': callbackAfterFault,
  'query(), synchronize() and record() throw': calls,
  'a synchronize() that is under way throws': blockingWait,
  'close() does not throw': closing,
  'no stream can be made': creating,
  'every device of the process is lost': otherDevices,
  'callbacks of every device hear of it': everyDevice,
  'what became unreachable is destroyed without a throw': collected,
  'a simulation that is closed': closedSimulation,
} satisfies Record<string, Case>
