/** The thread of the watchdog: it looks at the table of threads a few times in the time after which it warns. */
import { writeSync } from 'node:fs'
import { workerData } from 'node:worker_threads'
import { seconds } from '../../../base/warnings.js'
import type { StreamHandle } from '../../driver.js'
import { streamInWords } from '../../held-by.js'
import { NativeMemory } from '../libcuda/native.js'
import { Head, LABEL_BYTES, Label, Slot, type StandingGate, StandingGates, startOf, TOLD } from './thread-slots.js'
import { TABLE_BYTES } from './thread-table.js'
import { Loading, type Watched } from './watchdog.js'

/** In the time after which it warns. One more, so that a thread that can tell itself comes first. */
const LOOKS = 5

/** A thread that has not looked for host functions since. */
interface Still {
  readonly beat: number
  looks: number
}

class Watch {
  readonly #words: Int32Array
  readonly #standing: StandingGates
  readonly #still = new Map<number, Still>()
  readonly #told = new Set<string>()

  constructor(private readonly watched: Watched) {
    this.#words = new NativeMemory(TABLE_BYTES, watched.table).int32
    this.#standing = new StandingGates(this.#words)
  }

  look(): void {
    const used = this.#words[Head.MOST_SLOTS_USED] ?? 0
    for (let slot = 0; slot < used; slot += 1) this.#lookAt(slot)
  }

  #lookAt(slot: number): void {
    const at = startOf(slot)
    const isPending = Atomics.load(this.#words, at + Slot.PENDING) > 0
    const gates = isPending ? [...this.#standing.of(slot)] : []
    const [first] = gates
    const beat = this.#words[at + Slot.BEAT] ?? 0
    const still = this.#still.get(slot)
    if (first === undefined || (beat & TOLD) !== 0) this.#still.delete(slot)
    else if (still?.beat !== beat) this.#still.set(slot, { beat, looks: 0 })
    else {
      still.looks += 1
      if (still.looks === LOOKS + 1) this.#tell(slot, first, gates.length)
    }
  }

  #tell(slot: number, first: StandingGate, count: number): void {
    const owner = (this.#words[startOf(slot) + Slot.OWNER] ?? 1) - 1
    const thread = owner === 0 ? 'The main thread' : `Worker thread ${owner}`
    const others = count === 1 ? '' : `; ${count - 1} more stand so`
    const message =
      `${thread} has been inside one call or loop for ${seconds(this.watched.after)}, while ` +
      `${this.#inWords(slot, first)}, which only that thread can run and return from${others}. If the call waits for the ` +
      'GPU, it never ends. Call device.drainHostFunctions() before a blocking call of another library, and await ' +
      'finished() instead of a loop'
    if (this.#told.has(message)) return
    this.#told.add(message)
    try {
      writeSync(2, `(node:${process.pid}) [CUDA_STREAMS_BLOCKED_THREAD] CudaStreamsWarning: ${message}\n`)
    } catch {
      // Standard error is closed, or full.
    }
  }

  #inWords(slot: number, { index, arrived, ofGraph }: StandingGate): string {
    const labels = this.#standing.addressAt(slot, ofGraph ? Slot.GRAPH_LABELS : Slot.LABELS)
    const { uint32, bytes } = new NativeMemory(LABEL_BYTES, labels + index * LABEL_BYTES)
    const stream = ((uint32[Label.STREAM + 1] ?? 0) * 2 ** 32 + (uint32[Label.STREAM] ?? 0)) as StreamHandle
    const length = uint32[Label.LENGTH] ?? 0
    const site = Buffer.from(bytes.subarray(Label.TEXT, Label.TEXT + length)).toString('utf8')
    const isThisOne = uint32[Label.SEQUENCE] === arrived >>> 0
    const where = ofGraph ? 'of a graph launched at' : `${isThisOne ? '' : 'behind one '}queued at`
    return `${streamInWords(stream)} stands at a host function${length === 0 ? '' : ` (${where} ${site})`}`
  }
}

function start(watched: Watched): void {
  const { loading, after } = watched
  if (Atomics.compareExchange(loading, 0, Loading.NOT_BEGUN, Loading.BEGUN) !== Loading.NOT_BEGUN) return
  try {
    const watch = new Watch(watched)
    setInterval(() => watch.look(), after / LOOKS)
  } finally {
    Atomics.store(loading, 0, Loading.DONE)
    Atomics.notify(loading, 0)
  }
}

start(workerData as Watched)
