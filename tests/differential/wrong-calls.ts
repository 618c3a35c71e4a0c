/** Calls that are refused before any work is queued, whatever else is under way. Only append: programs go by the place. */
import {
  type Device,
  DeviceBuffer,
  Event,
  ExternalStream,
  type GraphExec,
  type PinnedBuffer,
  Stream,
} from 'cuda-streams'
import { mix } from './kernel.js'

export interface Surroundings {
  readonly device: Device
  readonly stream: Stream
  readonly event: Event
  readonly buffer: DeviceBuffer | PinnedBuffer
}

type WrongCall = (given: Surroundings) => unknown

/** Lets TypeScript pass what it would refuse. */
const wrong = (value: unknown): never => value as never

export const WRONG_CALLS: readonly WrongCall[] = [
  ({ buffer }) => buffer.subarray(-buffer.byteLength - 1),
  ({ buffer }) => buffer.subarray(0, buffer.byteLength + 1),
  ({ buffer }) => buffer.subarray(1.5, 2),
  ({ buffer }) => buffer.subarray(buffer.byteLength + 1),
  ({ stream, buffer }) => stream.copy(buffer.subarray(0, 16), buffer.subarray(16, 48)),
  ({ stream, buffer }) => stream.copy(buffer, wrong('buffer')),
  ({ stream, buffer }) => stream.fill(buffer, 256),
  ({ stream, buffer }) => stream.fill(buffer, -129),
  ({ stream, buffer }) => stream.fill(buffer, 1.5),
  ({ stream, buffer }) => stream.fill(buffer, 0, { width: wrong(3) }),
  ({ stream, buffer }) => stream.fill(buffer.subarray(1, 5), 0, { width: 4 }),
  ({ stream, buffer }) => stream.fill(buffer.subarray(0, 3), 0, { width: 2 }),
  ({ stream }) => stream.wait(wrong(42)),
  ({ stream }) => stream.record(wrong('event')),
  ({ stream, event }) => stream.record(event, { timing: !event.timing }),
  ({ stream }) => stream.launchHostFunc(wrong(5)),
  ({ stream }) => stream.addCallback(wrong(undefined), 0),
  ({ event, stream }) => event.elapsedSince(wrong(stream)),
  ({ stream }) => stream.beginCapture(wrong('exclusive')),
  ({ stream }) => stream.beginCapture(wrong(0)),
  ({ stream }) => stream.launch<GraphExec>(wrong({})),
  ({ device }) => new Event({ device, timing: true, interprocess: true }),
  ({ device }) => new ExternalStream(0x1234n, { device }),
  ({ device }) => new ExternalStream(-1n, { device }),
  ({ device }) => new Stream({ device, priority: 1.5 }),
  ({ device }) => new Stream({ device, priority: wrong('1') }),
  ({ device }) => device.alloc(-1),
  ({ device }) => device.alloc(-1),
  ({ device }) => device.alloc(Number.NaN),
  ({ device, stream }) => device.alloc(16, { stream: wrong({ stream }) }),
  ({ device }) => device.attribute(wrong('speed')),
  ({ stream, buffer }) => void stream.upload(buffer, wrong('text')),
  ({ stream, buffer }) => void stream.upload(buffer, new Uint8Array(1)),
  ({ stream }) => Stream.compare(stream, wrong(0)),
  ({ stream }) => stream.capture(wrong(7)),
  ({ event }) => event.record(wrong(event)),
  ({ event }) => event.wait(wrong(3)),
  ({ device }) => device.alloc(2 ** 60),
  ({ stream, buffer }) => stream.launch(mix, { grid: 1, block: 2048 }, buffer, buffer, 1),
  ({ stream, buffer }) => stream.launch(mix, { grid: 0, block: 1 }, buffer, buffer, 1),
  ({ stream, buffer }) => stream.launch(mix, { grid: 1, block: [1, 1, 65] }, buffer, buffer, 1),
  ({ stream, buffer }) => stream.launch(mix, { grid: [1, 65_536], block: 1 }, buffer, buffer, 1),
  ({ stream, buffer }) => stream.launch(mix, { grid: 1, block: 1 }, buffer, buffer, wrong(undefined)),
  ({ device }) => device.allocPinned(-1),
  () => DeviceBuffer.from(0x1234n, 16),
  ({ buffer }) => DeviceBuffer.from(buffer.pointer, -1),
  () => new Stream({ device: wrong(99) }),
  ({ device }) => new ExternalStream(2n ** 60n, { device }),
  ({ event }) => event.elapsedSince(wrong(null)),
  ({ stream, buffer }) => stream.launch(mix, { grid: 1, block: 1, sharedMemory: 2 ** 20 }, buffer, buffer, 1),
]
