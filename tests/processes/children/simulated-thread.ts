/** The other thread of tests/processes/simulated-threads.test.ts: does what each message asks, and answers. */
import { isMainThread, parentPort } from 'node:worker_threads'
import {
  Device,
  DeviceBuffer,
  defineKernel,
  Event,
  type SharedBuffer,
  type SharedEvent,
  type SharedStream,
  Stream,
} from 'cuda-streams'
import { fault, latch, simulationOf } from 'cuda-streams/sim'

export interface Tokens {
  readonly stream: SharedStream
  readonly event: SharedEvent
  readonly buffer: SharedBuffer
}

export type Act =
  | 'take'
  /** How many bytes of memory does this thread keep? */
  | 'used'
  /** Adds one to each element on the shared stream, by a kernel. */
  | 'add'
  /** Queues work on the shared stream behind a latch that nobody opens. */
  | 'stand'
  /** The same on a stream of its own. */
  | 'standAlone'
  | 'open'
  /** Fills on the shared stream. */
  | 'fill'
  /** Fills on a stream of its own, records the event, and ends. */
  | 'fillAndExit'
  | 'fault'
  /** Blocks this thread until the word is 1. */
  | 'block'

export interface Request {
  readonly act: Act
  readonly tokens?: Tokens
  readonly value?: number
  readonly word?: Int32Array
}

const addOne = defineKernel({
  name: 'addOne',
  signature: ['inout f32*', 'i32'],
  ptx: `
.version 7.0
.target sm_70
.address_size 64
.visible .entry addOne(.param .u64 values, .param .u32 count) {
  .reg .u64 %where, %offset;
  .reg .u32 %block, %width, %thread, %index, %count;
  .reg .f32 %value;
  .reg .pred %outside;
  mov.u32 %block, %ctaid.x;
  mov.u32 %width, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %index, %block, %width, %thread;
  ld.param.u32 %count, [count];
  setp.ge.u32 %outside, %index, %count;
  @%outside ret;
  ld.param.u64 %where, [values];
  mul.wide.u32 %offset, %index, 4;
  add.u64 %where, %where, %offset;
  ld.global.f32 %value, [%where];
  add.f32 %value, %value, 0f3F800000;
  st.global.f32 [%where], %value;
  ret;
}
`,
})

let taken: { readonly stream: Stream; readonly event: Event; readonly buffer: DeviceBuffer } | undefined
let standing: ReturnType<typeof latch> | undefined

function answer({ act, tokens, value = 0, word }: Request): unknown {
  if (tokens !== undefined) {
    taken = {
      stream: Stream.from(tokens.stream),
      event: Event.from(tokens.event),
      buffer: DeviceBuffer.from(tokens.buffer),
    }
  }
  if (taken === undefined) throw new Error('nothing was taken in')
  const { stream, event, buffer } = taken
  const own = (): Stream => new Stream({ device: Device.get(0) })
  switch (act) {
    case 'take':
      return simulationOf(Device.get(0)).seed
    case 'used':
      // Not every run time lets a worker call its collector.
      if (globalThis.gc === undefined) return undefined
      globalThis.gc()
      return process.memoryUsage().arrayBuffers
    case 'add':
      stream.launch(addOne, { threads: buffer.byteLength / 4 }, buffer, buffer.byteLength / 4)
      return undefined
    case 'stand':
      standing = latch(stream)
      return undefined
    case 'standAlone':
      standing = latch(own())
      return undefined
    case 'open':
      standing?.open()
      return undefined
    case 'fill':
      stream.fill(buffer, value)
      return undefined
    case 'fillAndExit':
      own().fill(buffer, value).record(event)
      return process.exit()
    case 'fault':
      fault(stream)
      return undefined
    case 'block':
      if (word !== undefined) Atomics.wait(word, 0, 0)
      return undefined
    default:
      return act satisfies never
  }
}

if (!isMainThread) {
  parentPort?.on('message', (request: Request) => {
    try {
      parentPort?.postMessage({ answer: answer(request) })
    } catch (error) {
      parentPort?.postMessage({ failed: error instanceof Error ? String(error.stack) : String(error) })
    }
  })
}
