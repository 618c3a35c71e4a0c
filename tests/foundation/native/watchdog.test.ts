/** The watchdog warns once of a thread that does not look for host functions, and of no other. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import {
  Head,
  LABEL_BYTES,
  Label,
  REGISTRY_WORDS,
  REPORTED,
  Slot,
  startOf,
} from '../../../src/cuda/host-functions/process-registry.js'
import { own } from '../../../src/foundation/native/c-functions.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'
import { skip } from './compile.js'

const MILLISECOND = 1_000_000
const WARNED = 'BLOCKED_THREAD'
/** Milliseconds after which it warns, and how long a warning is waited for. */
const AFTER = 100
const LONGEST = 30_000
const COUNT = 8

interface Waiting {
  /** The number of the thread and one. */
  readonly owner?: number
  readonly waiting: readonly number[]
  readonly ofGraphs?: true
  readonly stream?: number
  readonly site?: string
  readonly sequence?: number
  /** The thread looks for host functions all the time; it has reported why it does not; the memory of its semaphores is unmapped. */
  readonly looks?: true
  readonly reported?: true
  readonly isUnmapped?: true
}

const ROWS: readonly (readonly [title: string, thread: Waiting, written: readonly RegExp[]])[] = [
  [
    'a stream that waits for a host function',
    { waiting: [1], stream: 0x5500_1234_5678 },
    [
      /^\(node:\d+\) \[CUDA_STREAMS_BLOCKED_THREAD\] CudaStreamsWarning: The main thread has been inside one call or loop for 0\.1 s, while the stream 0x550012345678 waits for a host function, which only that thread can run and return from\. If the call/,
    ],
  ],
  [
    'where it was queued',
    { waiting: [3], stream: 4096, site: 'file.js:1:2', sequence: 3 },
    [/the stream 0x1000 waits for a host function \(queued at file\.js:1:2\)/],
  ],
  [
    'behind another',
    { waiting: [3], stream: 4096, site: 'file.js:1:2', sequence: 4 },
    [/\(behind one queued at file\.js:1:2\)/],
  ],
  [
    'a graph',
    { waiting: [3], ofGraphs: true, stream: 4096, site: 'file.js:1:2' },
    [/\(of a graph launched at file\.js:1:2\)/],
  ],
  [
    'several streams of a worker',
    { owner: 8, waiting: [1, 0, 1, 2], stream: 4 },
    [/Worker thread 7 .* the null stream of device 1 .*; 2 more streams wait for one\./],
  ],
  ['a per-thread default stream', { waiting: [1], stream: 2 }, [/the per-thread default stream of device 0/]],
  ['a sequence that has begun again', { waiting: [-(2 ** 31)], stream: 4096 }, []],
  ['none', { waiting: [0, 0] }, []],
  ['a thread that looks', { waiting: [1], looks: true }, []],
  ['a thread that has reported why it does not', { waiting: [1], reported: true }, []],
  ['semaphores whose memory is unmapped', { waiting: [1], isUnmapped: true }, []],
]

function wait(
  { owner = 1, waiting, ofGraphs, stream = 4096, site = '', sequence = 0, looks, reported, isUnmapped }: Waiting,
  mayWarn: boolean,
): void {
  const words = new NativeMemory(4 * REGISTRY_WORDS, own().processRegistry()).int32
  const [semaphores, labels] = [new NativeMemory(8 * COUNT), new NativeMemory(LABEL_BYTES * COUNT)]
  for (const [index, sequenceThere] of waiting.entries()) semaphores.int32[2 * index] = sequenceThere
  const first = waiting.findIndex((sequenceThere) => sequenceThere !== 0)
  const at = (Math.max(first, 0) * LABEL_BYTES) / 4
  labels.uint32[at + Label.STREAM] = stream
  labels.uint32[at + Label.STREAM + 1] = stream / 2 ** 32
  labels.uint32[at + Label.SEQUENCE] = sequence
  labels.uint32[at + Label.LENGTH] = site.length
  labels.bytes.set(Buffer.from(site), 4 * at + Label.TEXT)
  const slot = startOf(2)
  const address = (word: number, value: number): void => {
    words[slot + word] = value | 0
    words[slot + word + 1] = Math.floor(value / 2 ** 32)
  }
  words[slot + Slot.SEMAPHORE_COUNT] = COUNT
  address(ofGraphs ? Slot.GRAPH_SEMAPHORES : Slot.SEMAPHORES, isUnmapped ? 0x1000 : semaphores.address)
  address(ofGraphs ? Slot.GRAPH_LABELS : Slot.LABELS, labels.address)
  words[slot + Slot.BEAT] = reported ? REPORTED | 1 : 1
  words[slot + Slot.OWNER] = owner
  words[slot + Slot.PENDING] = 1
  words[Head.MOST_SLOTS_USED] = 3
  // Long enough that a busy machine does not keep a thread that looks from looking.
  const after = looks ? 500 : AFTER
  own().watch(after * MILLISECOND, NativeMemory.ofText('0.1 s').address)
  // A second one is not started.
  own().watch(1, NativeMemory.ofText('none').address)
  const begun = performance.now()
  // Who waits for a warning ends this: a busy machine may let no other thread run for long.
  const most = mayWarn ? LONGEST : 4 * after
  while (performance.now() - begun < most) {
    own().nap(1000)
    if (looks) words[slot + Slot.BEAT] = (words[slot + Slot.BEAT] ?? 0) + 1
  }
}

const row = ROWS[Number(process.argv[2] ?? -1)]
if (row !== undefined) wait(row[1], row[2].length > 0)
else {
  for (const [index, [title, , written]] of ROWS.entries()) {
    test(`of ${title}: ${written.length === 0 ? 'nothing' : 'one warning'}`, { skip }, async () => {
      const args = [fileURLToPath(import.meta.url), String(index)]
      const child = spawn(process.execPath, args, { env: { ...process.env, NODE_TEST_CONTEXT: undefined } })
      let stderr = ''
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        stderr += text
        // It warns once, and would have warned again by then.
        if (text.includes(WARNED)) setTimeout(() => child.kill(), 4 * AFTER)
      })
      const [status] = await once(child, 'close')
      const lines = stderr.split('\n').filter((line) => line.includes(WARNED))
      assert.equal(status ?? 0, 0, stderr)
      assert.equal(lines.length, written.length, stderr)
      for (const [nth, expected] of written.entries()) assert.match(lines[nth] ?? '', expected)
    })
  }
}
