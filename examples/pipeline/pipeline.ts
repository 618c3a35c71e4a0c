/**
 * Frames go through three stages on three streams. The first and the last stream belong to another library, as a
 * decoder's and an encoder's do; the one in the middle is ours. Events let a stage of a frame start when the stage
 * before it is done, and a host function tells when the frame is. The bytes are real: 'decode' ends with a copy to the
 * GPU, 'negative' computes, and 'encode' ends with a copy back, which is looked at. The kernels are CUDA C++ (kernels.cu), and
 * the simulator runs the same code as a GPU.
 */
import { type Device, type DeviceBuffer, defineKernel, ExternalStream, type PinnedBuffer, Stream } from 'cuda-streams'
import { theirStream } from './another-library.js'
import { KERNELS } from './kernels-ptx.js'

export const FRAME_BYTES = 64 * 1024

export interface Stage {
  readonly name: string
  readonly stream: Stream
  /** What it does on the GPU with a frame. */
  readonly work: (on: Stream, frame: Frame) => void
  /** What it takes, beside moving the bytes. */
  readonly nanoseconds: number
}

/** How the stages are joined: by events, by nothing, on one stream, or by the host. */
export type Ordering = 'events' | 'nothing' | 'one stream' | 'synchronize()'

export interface Run {
  readonly ordering: Ordering
  readonly frames: number
  /** Frames whose bytes came back as they should, in the order in which they were sent. */
  readonly right: number
  /** From the first call to the end of the last frame. */
  readonly milliseconds: number
}

interface Frame {
  readonly source: PinnedBuffer
  readonly input: DeviceBuffer
  readonly output: DeviceBuffer
  readonly result: PinnedBuffer
}

/** How long each stage works on a frame. */
const NANOSECONDS = { decode: 600_000, negative: 900_000, encode: 700_000 }

/** A kernel that only takes time, as a decoder's do. */
const working = (name: 'decode' | 'encode') =>
  defineKernel({ name, ptx: KERNELS, signature: ['u64'], nanoseconds: NANOSECONDS[name] })
const [decode, encode] = [working('decode'), working('encode')]
const negative = defineKernel({
  name: 'negative',
  ptx: KERNELS,
  signature: ['in u8*', 'out u8*', 'i32', 'u64'],
  nanoseconds: NANOSECONDS.negative,
})
const ONE = { grid: 1, block: 1 }
const FOR_EACH_BYTE = { grid: FRAME_BYTES / 256, block: 256 }

export async function openStages(device: Device): Promise<readonly Stage[]> {
  for (const kernel of [decode, negative, encode]) await kernel.prepare(device)
  const theirs = (): Stream => new ExternalStream(theirStream(device), { device })
  return [
    {
      name: 'decoder',
      stream: theirs(),
      nanoseconds: NANOSECONDS.decode,
      work: (on, { source, input }) => on.launch(decode, ONE, NANOSECONDS.decode).copy(input, source),
    },
    {
      name: 'ours',
      stream: new Stream({ device }),
      nanoseconds: NANOSECONDS.negative,
      work: (on, { input, output }) =>
        on.launch(negative, FOR_EACH_BYTE, input, output, FRAME_BYTES, NANOSECONDS.negative),
    },
    {
      name: 'encoder',
      stream: theirs(),
      nanoseconds: NANOSECONDS.encode,
      work: (on, { output, result }) => on.launch(encode, ONE, NANOSECONDS.encode).copy(result, output),
    },
  ]
}

/** Sends frames through the stages and looks at what comes back. `clock` gives milliseconds. */
export async function runPipeline(
  device: Device,
  stages: readonly Stage[],
  ordering: Ordering,
  frames: number,
  clock: () => number,
  onFrame: (frame: number) => void = () => {},
): Promise<Run> {
  const all = Array.from({ length: frames }, (_, index) => makeFrame(device, index))
  await device.finished()
  const finished: number[] = []
  const started = clock()
  for (const [index, frame] of all.entries()) {
    queueFrame(stages, ordering, frame)
    streamOf(stages, 2, ordering).launchHostFunc(() => {
      finished.push(index)
      onFrame(index)
    })
  }
  await Promise.all(stages.map((stage) => stage.stream.finished()))
  const milliseconds = clock() - started
  const right = all.filter((frame, index) => isNegative(frame, index) && finished[index] === index).length
  for (const buffer of all.flatMap((frame) => Object.values(frame))) buffer.close()
  return { ordering, frames, right, milliseconds }
}

function makeFrame(device: Device, index: number): Frame {
  const frame = {
    source: device.allocPinned(FRAME_BYTES),
    input: device.alloc(FRAME_BYTES),
    output: device.alloc(FRAME_BYTES),
    result: device.allocPinned(FRAME_BYTES),
  }
  frame.source.bytes.fill(index + 1)
  frame.result.bytes.fill(0)
  device.defaultStream.fill(frame.input, 0).fill(frame.output, 0)
  return frame
}

function queueFrame(stages: readonly Stage[], ordering: Ordering, frame: Frame): void {
  for (const [index, stage] of stages.entries()) {
    const stream = streamOf(stages, index, ordering)
    if (ordering === 'events' && index > 0) stream.wait(streamOf(stages, index - 1, ordering))
    stage.work(stream, frame)
    if (ordering === 'synchronize()') stream.synchronize()
  }
}

function streamOf(stages: readonly Stage[], index: number, ordering: Ordering): Stream {
  const stage = stages[ordering === 'one stream' ? 1 : index]
  if (stage === undefined) throw new Error(`a pipeline has no stage ${index}`)
  return stage.stream
}

function isNegative({ result }: Frame, index: number): boolean {
  return result.bytes.every((byte) => byte === 255 - (index + 1))
}
