/**
 * Two processes and two pieces of GPU memory, one of each. The writer (rank 0) fills its memory with a number; the reader
 * (rank 1) copies it into its own, which the writer checks. Interprocess events say when a piece is written, so that the
 * GPU waits and neither process does; the messages between them only say that an event has been recorded. The writer's
 * stream is held until the reader has queued its copy and, where that does not wait, until the copy is done: so it is
 * right in every round with the wait, and in none without.
 */
import { type Device, DeviceBuffer, Event, Stream } from 'cuda-streams'
import { holdOn } from '../hold.js'
import type { Rendezvous } from './rendezvous.js'

export interface RelayOptions {
  readonly rounds: number
  /** False: the reader copies without waiting for the writer's event. */
  readonly wait: boolean
}

const BYTES = 2 ** 20

/** In how many rounds the writer got back what it had written. Both ranks get the answer. */
export async function relay(rendezvous: Rendezvous, device: Device, options: RelayOptions): Promise<number> {
  using own = device.alloc(BYTES, { interprocess: true })
  using done = device.createEvent({ interprocess: true })
  const handles = await rendezvous.allGather(Buffer.concat([own.ipcHandle(), done.ipcHandle()]))
  const theirs = handles[1 - rendezvous.rank] ?? Buffer.alloc(0)
  const right = await withTheirs(rendezvous, device, options, own, done, theirs)
  // What others have mapped must not be freed before they have closed it.
  await rendezvous.barrier()
  const answer = await rendezvous.broadcast(Buffer.from(String(right)))
  return Number(answer.toString())
}

async function withTheirs(
  rendezvous: Rendezvous,
  device: Device,
  { rounds, wait }: RelayOptions,
  own: DeviceBuffer,
  done: Event,
  handles: Uint8Array,
): Promise<number> {
  using theirs = DeviceBuffer.fromIpcHandle(handles.subarray(0, 80), { device })
  using theirsDone = Event.fromIpcHandle(handles.subarray(80), { device })
  if (rendezvous.rank === 0) return await write(rendezvous, device, rounds, own, done, theirs, theirsDone)
  await read(rendezvous, device, rounds, wait, own, done, theirs, theirsDone)
  return 0
}

async function write(
  rendezvous: Rendezvous,
  device: Device,
  rounds: number,
  numbers: DeviceBuffer,
  written: Event,
  answers: DeviceBuffer,
  answered: Event,
): Promise<number> {
  using stream = new Stream({ device })
  using result = device.allocPinned(BYTES)
  const hold = holdOn(device)
  stream.fill(numbers, 0).synchronize()
  let right = 0
  for (let round = 1; round <= rounds; round += 1) {
    const value = (round % 255) + 1
    const held = hold(stream)
    stream.fill(numbers, value).record(written)
    await rendezvous.barrier()
    await rendezvous.barrier()
    held.release()
    stream.wait(answered).copy(result, answers)
    await stream.finished()
    if (Buffer.alloc(BYTES, value).equals(result.bytes)) right += 1
  }
  return right
}

async function read(
  rendezvous: Rendezvous,
  device: Device,
  rounds: number,
  wait: boolean,
  answers: DeviceBuffer,
  answered: Event,
  numbers: DeviceBuffer,
  written: Event,
): Promise<void> {
  using stream = new Stream({ device })
  for (let round = 1; round <= rounds; round += 1) {
    // A wait is for the latest record: the writer has made it when this resolves.
    await rendezvous.barrier()
    if (wait) stream.wait(written)
    stream.copy(answers, numbers).record(answered)
    if (!wait) await stream.finished()
    await rendezvous.barrier()
  }
  await stream.finished()
}
