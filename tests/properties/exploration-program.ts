/** Small random programs for exploration: few steps of every kind that an order can show in. */
import { DeviceBuffer, defineKernel, type PinnedBuffer, Stream } from 'cuda-streams'
import { type ExploredProgram, fault, latch } from 'cuda-streams/sim'
import fc from 'fast-check'

export type ExploredStep =
  | { readonly what: 'fill'; readonly stream: number; readonly buffer: number; readonly value: number }
  | { readonly what: 'mix'; readonly stream: number; readonly buffer: number; readonly other: number }
  | { readonly what: 'toPinned' | 'fromPinned'; readonly stream: number; readonly buffer: number }
  | { readonly what: 'record' | 'wait'; readonly stream: number; readonly event: number }
  | { readonly what: 'host' | 'synchronize' | 'query' | 'await' | 'then'; readonly stream: number }
  | { readonly what: 'keptHost' | 'keptSynchronize' | 'keptAwait'; readonly stream: number }
  | { readonly what: 'eventQuery' | 'eventSynchronize'; readonly stream: number; readonly event: number }
  | { readonly what: 'graph'; readonly stream: number; readonly buffer: number }
  | { readonly what: 'latch'; readonly stream: number; readonly other: number }
  | { readonly what: 'fault'; readonly stream: number }
  | {
      readonly what: 'hostQueues' | 'hostWaits' | 'temporary'
      readonly stream: number
      readonly other: number
      readonly buffer: number
    }
  | { readonly what: 'look' | 'write'; readonly value: number }

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
const stream = fc.nat(STREAMS - 1)
const buffer = fc.nat(BUFFERS - 1)
const event = fc.nat(EVENTS - 1)
const value = fc.integer({ min: 1, max: 9 })
const kind = <W extends string>(...what: W[]): fc.Arbitrary<W> => fc.constantFrom(...what)

const step: fc.Arbitrary<ExploredStep> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ what: kind('fill'), stream, buffer, value }) },
  { weight: 4, arbitrary: fc.record({ what: kind('mix'), stream, buffer, other: buffer }) },
  { weight: 2, arbitrary: fc.record({ what: kind('toPinned', 'fromPinned'), stream, buffer }) },
  { weight: 3, arbitrary: fc.record({ what: kind('record', 'wait'), stream, event }) },
  { weight: 4, arbitrary: fc.record({ what: kind('host', 'synchronize', 'query', 'await', 'then'), stream }) },
  { weight: 1, arbitrary: fc.record({ what: kind('hostQueues', 'temporary'), stream, other: stream, buffer }) },
  { weight: 2, arbitrary: fc.record({ what: kind('hostWaits'), stream, other: stream, buffer }) },
  { weight: 1, arbitrary: fc.record({ what: kind('eventQuery', 'eventSynchronize'), stream, event }) },
  { weight: 1, arbitrary: fc.record({ what: kind('graph'), stream, buffer }) },
  { weight: 1, arbitrary: fc.record({ what: kind('latch'), stream, other: stream }) },
  { weight: 1, arbitrary: fc.record({ what: kind('fault'), stream }) },
  { weight: 2, arbitrary: fc.record({ what: kind('keptHost', 'keptSynchronize', 'keptAwait'), stream }) },
  { weight: 2, arbitrary: fc.record({ what: kind('look', 'write'), value }) },
)

export const exploredPrograms = (maxLength: number): fc.Arbitrary<readonly ExploredStep[]> =>
  fc.array(step, { minLength: 2, maxLength })

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
      if ('stream' in step) return queue(at(streams, step.stream), step)
      if (step.what === 'look') log.push(`looks ${pinned.bytes[0]}`)
      else pinned.bytes[0] = step.value
      return undefined
    }

    function queue(on: Stream, step: Extract<ExploredStep, { stream: number }>): Promise<void> | undefined {
      const bufferOf = (index: number): DeviceBuffer => at(buffers, index)
      const note = (what: string): void => {
        state = (3 * state + step.stream) % 1000
        log.push(`${what} ${step.stream}`)
      }
      switch (step.what) {
        case 'fill':
          on.fill(bufferOf(step.buffer), step.value)
          break
        case 'mix':
          on.launch(mix, ONE, bufferOf(step.buffer), bufferOf(step.other))
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
        case 'synchronize':
          on.synchronize()
          note('synchronized')
          break
        case 'graph': {
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
        case 'latch': {
          const held = latch(on)
          at(streams, step.other).launchHostFunc(() => held.open())
          break
        }
        case 'fault':
          fault(on)
          break
        case 'eventQuery':
          log.push(`event ${at(events, step.event).query()}`)
          break
        case 'eventSynchronize':
          at(events, step.event).synchronize()
          note('event')
          break
        case 'query':
          log.push(`query ${on.query()}`)
          break
        case 'then':
          void on.finished().then(
            () => note('then'),
            () => note('rejected'),
          )
          break
        case 'await':
          return on.finished().then(() => note('awaited'))
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
