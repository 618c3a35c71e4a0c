/** Calls that have to be refused, each with its code: what they were about is as before. */
import { DeviceBuffer, Event, ExternalStream, Stream } from 'cuda-streams'
import type { Action, Client } from '../client.js'
import { affine } from '../kernels.js'

/** Lets TypeScript pass what it would refuse. */
const wrong = (value: unknown): never => value as never

function mistakenArguments(client: Client): void {
  const { random } = client
  const { stream, device } = client.track()
  const { buffer } = client.piece(
    ({ length }) => length >= 4,
    () => client.newPiece('device', 64),
  )
  const event = client.markFor(device).event
  const [what, code, call] = random.one<readonly [string, string, () => unknown]>([
    ['a device that does not exist', 'ERR_OUT_OF_RANGE', () => new Stream({ device: 999 })],
    ['a priority that is no integer', 'ERR_INVALID_ARG_TYPE', () => new Stream({ device, priority: 0.5 })],
    ['a value that has too many bytes', 'ERR_OUT_OF_RANGE', () => stream.fill(buffer, 256)],
    ['a width of 3', 'ERR_INVALID_ARG_VALUE', () => stream.fill(buffer, 0, { width: wrong(3) })],
    ['a copy of two lengths', 'ERR_OUT_OF_RANGE', () => stream.copy(buffer.subarray(0, 2), buffer.subarray(2, 3))],
    ['a copy of no buffer', 'ERR_INVALID_ARG_TYPE', () => stream.copy(buffer, wrong({}))],
    ['a slice beyond the end', 'ERR_OUT_OF_RANGE', () => buffer.subarray(0, buffer.byteLength + 1)],
    ['an upload of another length', 'ERR_OUT_OF_RANGE', () => stream.upload(buffer, new Uint8Array(0))],
    ['an upload of a text', 'ERR_INVALID_ARG_TYPE', () => stream.upload(buffer, wrong('text'))],
    ['a wait for a text', 'ERR_INVALID_ARG_TYPE', () => stream.wait(wrong('event'))],
    ['a wait for a bare handle', 'ERR_INVALID_ARG_TYPE', () => stream.wait(wrong(stream.handle))],
    ['a host function that is none', 'ERR_INVALID_ARG_TYPE', () => stream.launchHostFunc(wrong(1))],
    ['timing of an interprocess event', 'ERR_INVALID_ARG_VALUE', () => new Event({ timing: true, interprocess: true })],
    [
      'other options than the event has',
      'ERR_INVALID_ARG_VALUE',
      () => stream.record(event, { timing: !event.timing }),
    ],
    ['a handle that is none', 'ERR_INVALID_HANDLE', () => new ExternalStream(35n, { device })],
    ['a negative handle', 'ERR_OUT_OF_RANGE', () => new ExternalStream(-1, { device })],
    [
      'a protocol of another version',
      'ERR_INVALID_ARG_TYPE',
      () => Stream.from({ __cuda_stream__: () => wrong([1, 0n]) }),
    ],
    ['an event that is none', 'ERR_INVALID_HANDLE', () => Event.from(0x1234, { device })],
    ['memory that is none', 'ERR_INVALID_HANDLE', () => DeviceBuffer.from(0x1000n, 16, { device })],
    ['an allocation of fewer than no bytes', 'ERR_OUT_OF_RANGE', () => device.alloc(-1)],
    ['an allocation of two kinds', 'ERR_INVALID_ARG_VALUE', () => device.alloc(1, { stream, interprocess: true })],
    ['more memory than there is', 'CUDA_ERROR_OUT_OF_MEMORY', () => device.alloc(2 ** 46, { stream })],
    ['a launch of no block', 'ERR_OUT_OF_RANGE', () => stream.launch(affine, { grid: 1, block: 0 }, buffer, 1, 1)],
    [
      'a launch without arguments',
      'ERR_INVALID_ARG_VALUE',
      () => Reflect.apply(stream.launch, stream, [affine, { grid: 1, block: 1 }]),
    ],
    [
      'an argument that does not fit',
      'ERR_OUT_OF_RANGE',
      () => stream.launch(affine, { grid: 1, block: 1 }, buffer, 1, 256),
    ],
    ['a capture in no mode', 'ERR_INVALID_ARG_VALUE', () => stream.beginCapture(wrong('exclusive'))],
    ['no event to compare with', 'ERR_INVALID_ARG_TYPE', () => event.elapsedSince(wrong(stream))],
    ['a device that is none', 'ERR_OUT_OF_RANGE', () => device.alloc(-1)],
    ['64 bytes of no event', 'ERR_INVALID_HANDLE', () => Event.fromIpcHandle(new Uint8Array(64))],
    ['too few bytes of an event', 'ERR_INVALID_ARG_VALUE', () => Event.fromIpcHandle(new Uint8Array(63))],
    ['the sharing of a per-thread stream', 'ERR_UNSUPPORTED', () => device.run(() => Stream.perThread.share())],
  ])
  client.refused(what, code, call)
  const signal: never = wrong({ aborted: false })
  client.rejected('a signal that is none', 'ERR_INVALID_ARG_TYPE', stream.finished({ signal }))
}

/** What is closed is refused in every place, and can be closed again. */
function closed(client: Client): void {
  const { random } = client
  const { fixture } = client.machine
  const track = client.track()
  const { stream, device } = track
  const gone = new Stream({ device })
  if (!fixture.captureBegins()) {
    gone.close()
    return
  }
  const graph = gone.capture(() => {}, { mode: 'relaxed' })
  fixture.captureEnds()
  const event = device.createEvent()
  const buffer = device.alloc(16, { stream })
  const part = buffer.subarray(0, 8)
  const pinned = device.allocPinned(16)
  const wrapper = new ExternalStream(stream)
  const exec = graph.instantiate()
  const all = [gone, event, buffer, pinned, wrapper, graph, exec]
  for (const each of random.chance(0.5) ? all : all.toReversed()) each.close()
  for (const each of all) each.close()
  const [what, call] = random.one<readonly [string, () => unknown]>([
    ['a record on a closed stream', () => gone.record()],
    ['a wait of a closed stream', () => gone.wait(stream)],
    ['a wait for a closed stream', () => stream.wait(gone)],
    ['a closed stream to wrap', () => Stream.from(gone)],
    ['the query of a closed stream', () => gone.query()],
    ['a closed stream to make current', () => gone.run(() => {})],
    ['an allocation on a closed stream', () => device.alloc(1, { stream: gone })],
    ['a record into a closed event', () => stream.record(event)],
    ['a wait for a closed event', () => stream.wait(event)],
    ['the query of a closed event', () => event.query()],
    ['a copy to closed memory', () => stream.copy(buffer, buffer)],
    ['a fill of a slice of closed memory', () => stream.fill(part, 0)],
    ['a slice of closed memory', () => buffer.subarray(0, 1)],
    ['the bytes of closed memory', () => pinned.bytes],
    ['a launch with closed memory', () => stream.launch(affine, { grid: 1, block: 1 }, buffer, 1, 1)],
    ['a closed wrapper', () => wrapper.record()],
    ['a closed graph', () => graph.instantiate()],
    ['a closed instance', () => stream.launch(exec)],
    ['an upload on a closed stream', () => gone.upload(buffer, new Uint8Array(16))],
    ['an uploader of closed memory', () => stream.uploader(buffer)],
  ])
  client.refused(what, 'ERR_CLOSED', call)
  client.rejected('finished() of a closed stream', 'ERR_CLOSED', gone.finished())
  client.rejected('a download of closed memory', 'ERR_CLOSED', stream.download(buffer))
  client.tracker.same('closed', gone.closed && event.closed && part.closed && exec.closed, true)
  client.tracker.same('equals() of what is closed', gone.equals(gone), true)
  client.tracker.same('the owner of a closed wrapper', wrapper.owner, undefined)
}

function ofAnotherDevice(client: Client): void {
  const [device, other] = client.machine.devices
  if (device === undefined || other === undefined) return
  using stream = new Stream({ device })
  using theirs = new Stream({ device: other })
  using event = other.createEvent()
  client.refused('an event of another device', 'ERR_DEVICE_MISMATCH', () => stream.record(event))
  client.refused('an allocation on a stream of another device', 'ERR_DEVICE_MISMATCH', () =>
    device.alloc(1, { stream: theirs }),
  )
  client.refused('a wrapper on another device', 'ERR_DEVICE_MISMATCH', () => new ExternalStream(theirs, { device }))
  client.refused('options of another device', 'ERR_DEVICE_MISMATCH', () => device.createStream({ device: other }))
}

/** In this thread and process what is shared is the object itself. */
function share(client: Client): void {
  const { machine } = client
  const { device } = machine
  // What is shared is kept until it is closed.
  using stream = new Stream({ device })
  using buffer = device.alloc(64)
  using event = device.createEvent()
  client.tracker.same('a stream that is shared with itself', Stream.from(structuredClone(stream.share())), stream)
  client.tracker.same('an event that is shared with itself', Event.from(structuredClone(event.share())), event)
  client.tracker.same('a buffer that is shared with itself', DeviceBuffer.from(structuredClone(buffer.share())), buffer)
  // On the simulator what threads share processes cannot.
  using apart = device.createEvent({ interprocess: true })
  using memory = device.alloc(64, { interprocess: true })
  client.tracker.same('the length of a handle of memory', memory.ipcHandle().length, 80)
  client.tracker.same('the length of a handle of an event', apart.ipcHandle().length, 64)
  client.refused('memory of its own process', 'ERR_INVALID_HANDLE', () =>
    DeviceBuffer.fromIpcHandle(memory.ipcHandle()),
  )
  client.refused('an event of its own process', 'ERR_INVALID_HANDLE', () => Event.fromIpcHandle(apart.ipcHandle()))
  using plain = device.createEvent()
  client.refused('ipcHandle() of a plain event', 'CUDA_ERROR_INVALID_HANDLE', () => plain.ipcHandle())
}

function ofTimes(client: Client): void {
  const { device, stream } = client.track()
  using plain = stream.record()
  using timed = stream.record({ timing: true })
  using never = device.createEvent({ timing: true })
  stream.synchronize()
  const code = 'CUDA_ERROR_INVALID_HANDLE'
  client.refused('the time of an event without timing', code, () => timed.elapsedSince(plain))
  client.refused('the time of an event that was never recorded', code, () => timed.elapsedSince(never))
  client.tracker.same('query() of an event that was never recorded', never.query(), true)
  never.synchronize()
  stream.wait(never)
}

export const mistakeActions: readonly Action[] = [
  { name: 'mistaken arguments', weight: 2, play: mistakenArguments },
  { name: 'closed', weight: 1, play: closed },
  { name: 'of another device', weight: 0.3, play: ofAnotherDevice },
  { name: 'share', weight: 0.4, play: share },
  { name: 'of times', weight: 0.5, play: ofTimes },
]
