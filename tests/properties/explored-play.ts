/** Small programs for exploration, and how they are played: few steps of every kind that an order can show in. */
import { DeviceBuffer, defineKernel, type PinnedBuffer, Stream } from 'cuda-streams'
import { type ExploredProgram, fault, latch } from 'cuda-streams/sim'
import fc from 'fast-check'
import { stepsOf } from '../programs/generate.js'
import type { StepOf } from '../programs/steps.js'

/** A non-blocking one, a blocking one, and the null stream. */
const STREAMS = 3
const BUFFERS = 2
const EVENTS = 2

/** Not the same in any two orders, so that an order that is missed shows. */
const mix = defineKernel({
  name: 'mix',
  source: 'extern "C" __global__ void mix(unsigned char* to, const unsigned char* from) { *to = 3 * *to + *from + 1; }',
  signature: ['inout u8*', 'in u8*'],
  simulate(_thread, to, from) {
    to[0] = 3 * (to[0] ?? 0) + (from[0] ?? 0) + 1
  },
})

const ONE = { grid: 1, block: 1 }

const WEIGHTS = {
  setByte: 30,
  mixByte: 40,
  toPinned: 10,
  fromPinned: 10,
  record: 15,
  wait: 15,
  host: 8,
  synchronizeStream: 8,
  queryStream: 8,
  awaitStream: 8,
  thenStream: 8,
  hostQueues: 5,
  temporary: 5,
  hostWaits: 20,
  queryEvent: 5,
  synchronizeEvent: 5,
  branches: 10,
  holdFor: 10,
  fault: 10,
  keptHost: 7,
  keptSynchronize: 7,
  keptAwait: 7,
  look: 10,
  write: 10,
} as const
const RANGES = {
  stream: STREAMS,
  buffer: BUFFERS,
  source: BUFFERS,
  event: EVENTS,
  value: fc.integer({ min: 1, max: 9 }),
}
export type ExploredStep = StepOf<keyof typeof WEIGHTS>

export const exploredPrograms = (maxLength: number): fc.Arbitrary<readonly ExploredStep[]> =>
  stepsOf<keyof typeof WEIGHTS>(WEIGHTS, RANGES, { minLength: 2, maxLength })

/** The steps as a program: what it returns tells all that they came to. */
export function programOf(steps: readonly ExploredStep[]): ExploredProgram {
  return async ({ devices }) => {
    const device = at(devices, 0)
    const streams = [new Stream({ device }), new Stream({ device, nonBlocking: false }), device.defaultStream]
    const spare = new Stream({ device })
    const buffers = Array.from({ length: BUFFERS }, () => device.alloc(1))
    const events = Array.from({ length: EVENTS }, () => device.createEvent())
    const pinned = device.allocPinned(1)
    const results = buffers.map(() => device.allocPinned(1))
    const log: string[] = []
    // Looked through without the simulator's knowledge, where it is to expect that.
    const kept = pinned.bytes
    let state = 1
    // Host functions launch it, in which no code can be loaded.
    await mix.prepare(device)
    for (const each of steps) await perform(each)
    for (const each of streams) each.synchronize()
    for (const [index, each] of buffers.entries()) at(streams, 0).copy(at(results, index), each)
    at(streams, 0).synchronize()
    return { log, state, pinned: pinned.bytes[0], buffers: results.map(({ bytes }) => bytes[0]) }

    function perform(step: ExploredStep): Promise<void> | undefined {
      const bufferOf = (index: number): DeviceBuffer => at(buffers, index)
      const on = at(streams, 'stream' in step ? step.stream : 0)
      const note = (what: string): void => {
        state = 'stream' in step ? (3 * state + step.stream) % 1000 : (3 * state) % 1000
        log.push('stream' in step ? `${what} ${step.stream}` : what)
      }
      switch (step.what) {
        case 'setByte':
          on.fill(bufferOf(step.buffer), step.value)
          break
        case 'mixByte':
          on.launch(mix, ONE, bufferOf(step.buffer), bufferOf(step.source))
          break
        case 'toPinned':
          on.copy(pinned, bufferOf(step.buffer))
          break
        case 'fromPinned':
          on.copy(bufferOf(step.buffer), pinned)
          break
        case 'record':
          on.record(at(events, step.event))
          break
        case 'wait':
          on.wait(at(events, step.event))
          break
        case 'host':
          on.launchHostFunc(() => note(`host function sees ${pinned.bytes[0]}`))
          break
        case 'keptHost':
          on.launchHostFunc(() => log.push(`kept ${kept[0]}`))
          break
        case 'keptSynchronize':
          on.synchronize()
          log.push(`kept ${kept[0]}`)
          break
        case 'keptAwait':
          return on.finished().then(() => void log.push(`kept ${kept[0]}`))
        case 'hostQueues':
          on.launchHostFunc(() => {
            at(streams, step.other).launch(mix, ONE, bufferOf(step.buffer), bufferOf(step.buffer))
          })
          break
        case 'hostWaits':
          on.launchHostFunc(() => {
            note('waits')
            try {
              at(streams, step.other).synchronize()
              note(`waited for ${step.other}`)
            } catch (error) {
              // ERR_DEADLOCK, or a fault.
              note(`${step.other} ${String(Reflect.get(error as Error, 'code'))}`)
            }
          })
          break
        case 'temporary': {
          // Read by its bare address, of which the free knows nothing.
          const temporary = device.alloc(1, { stream: on })
          on.fill(temporary, 5)
          const bare = DeviceBuffer.from(temporary.pointer, 1, { device })
          at(streams, step.other).launch(mix, ONE, bufferOf(step.buffer), bare)
          temporary.close()
          break
        }
        case 'synchronizeStream':
          on.synchronize()
          note('synchronized')
          break
        case 'branches': {
          const [one, other] = buffers as [DeviceBuffer, DeviceBuffer]
          // The null stream captures nothing.
          const exec = spare
            .capture(() => {
              const side = new Stream({ device }).wait(spare.record())
              spare.launch(mix, ONE, one, one)
              side.launch(mix, ONE, bufferOf(step.buffer), other)
              spare.wait(side.record())
            })
            .instantiate()
          on.launch(exec)
          break
        }
        case 'holdFor': {
          const held = latch(on)
          at(streams, step.other).launchHostFunc(() => held.open())
          break
        }
        case 'fault':
          fault(on)
          break
        case 'queryEvent':
          log.push(`event ${at(events, step.event).query()}`)
          break
        case 'synchronizeEvent':
          at(events, step.event).synchronize()
          note('event')
          break
        case 'queryStream':
          log.push(`query ${on.query()}`)
          break
        case 'thenStream':
          void on.finished().then(
            () => note('then'),
            () => note('rejected'),
          )
          break
        case 'awaitStream':
          return on.finished().then(() => note('awaited'))
        case 'look':
          log.push(`looks ${pinned.bytes[0]}`)
          break
        case 'write':
          pinned.bytes[0] = step.value
          break
      }
      return undefined
    }
  }
}

function at<T extends Stream | DeviceBuffer | PinnedBuffer | object>(list: readonly T[], index: number): T {
  const item = list[index]
  if (item === undefined) throw new RangeError(`there is no item ${index} of ${list.length}`)
  return item
}
