/**
 * Frames go through three stages on three streams. The first and the last stream belong to another library, as a
 * decoder's and an encoder's do; the one in the middle is ours. Events let a stage of a frame start when the stage
 * before it is done, and a host function tells when the frame is. The bytes are real: each frame is copied to the GPU,
 * a kernel turns it into its negative, and the result is copied back and looked at.
 */
import { type DeviceBuffer, defineKernel, ExternalStream, type PinnedBuffer, type Stream } from 'cuda-streams'
import type { Workbench } from '../../tests/helpers/workbench.js'

export const FRAME_BYTES = 64 * 1024

export interface Stage {
  readonly name: string
  readonly stream: Stream
  readonly kernel: typeof decode
  /** What the stage takes, beside moving the bytes. */
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

const negative = defineKernel({
  name: 'negative',
  source: `extern "C" __global__ void negative(const unsigned char* in, unsigned char* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 255 - in[i];
  }`,
  signature: ['in u8*', 'out u8*', 'i32'],
  simulateGrid(_grid, input, output, n) {
    for (let i = 0; i < n; i += 1) output[i] = 255 - (input[i] ?? 0)
  },
})

/** A kernel that only takes time, as a decoder does. */
const working = (name: string, nanoseconds: number) =>
  defineKernel({
    name,
    source: `extern "C" __global__ void ${name}(unsigned long long nanoseconds) {
      unsigned long long start, now;
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
      do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
      while (now - start < nanoseconds);
    }`,
    signature: ['u64'],
    nanoseconds,
    simulateGrid() {},
  })
const decode = working('decode', 600_000)
const filter = working('filter', 900_000)
const encode = working('encode', 700_000)
const LAUNCH = { grid: FRAME_BYTES / 256, block: 256 }

export async function openStages(bench: Workbench): Promise<readonly Stage[]> {
  for (const kernel of [negative, decode, filter, encode]) await kernel.prepare(bench.device)
  const theirs = (): Stream => new ExternalStream(bench.foreignStream(bench.device), { device: bench.device })
  return [
    { name: 'decode (theirs)', stream: theirs(), kernel: decode, nanoseconds: 600_000 },
    { name: 'negative (ours)', stream: bench.stream(), kernel: filter, nanoseconds: 900_000 },
    { name: 'encode (theirs)', stream: theirs(), kernel: encode, nanoseconds: 700_000 },
  ]
}

/** Sends frames through the stages and looks at what comes back. `clock` gives milliseconds. */
export async function runPipeline(
  bench: Workbench,
  stages: readonly Stage[],
  ordering: Ordering,
  frames: number,
  clock: () => number,
  onFrame: (frame: number) => void = () => {},
): Promise<Run> {
  const all = Array.from({ length: frames }, (_, index) => makeFrame(bench, index))
  await bench.device.finished()
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

function makeFrame(bench: Workbench, index: number): Frame {
  const { device } = bench
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
  const work: readonly ((stream: Stream) => void)[] = [
    (stream) => stream.copy(frame.input, frame.source),
    (stream) => stream.launch(negative, LAUNCH, frame.input, frame.output, FRAME_BYTES),
    (stream) => stream.copy(frame.result, frame.output),
  ]
  for (const [index, stage] of stages.entries()) {
    const stream = streamOf(stages, index, ordering)
    if (ordering === 'events' && index > 0) stream.wait(streamOf(stages, index - 1, ordering))
    stream.launch(stage.kernel, { grid: 1, block: 1 }, stage.nanoseconds)
    work[index]?.(stream)
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
