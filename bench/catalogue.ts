/** What the bench measures: the one list that every contestant and the table go by. */

/** What a table shows; a contestant always answers in nanoseconds a call, or in per cent. */
export type Unit = 'ns' | 'µs' | 'GB/s' | 'operations/s' | '%'

export interface Row {
  /** The name in the line protocol. */
  readonly key: string
  /** What is counted, in the words of the table. */
  readonly title: string
  /** Calls in one round, but beside C in one process (bench/pairs.ts). */
  readonly calls: number
  /** The row of the other contestants to compare with, where it is not their row of the same key. */
  readonly against?: string
  /** Beside C in one process, the most calls between two waits, where a call is not one or two entries of a hardware queue. */
  readonly mostCalls?: number
  /** Bytes that a call moves, where it is for moving bytes. */
  readonly bytes?: number
}

export interface Group {
  readonly title: string
  readonly unit: Unit
  /** Of the time of a run; what a group leaves goes to those after it. */
  readonly share: number
  readonly mostRounds?: number
  /** Its calls take so long that a round to warm up would change nothing. */
  readonly isLong?: boolean
  readonly rows: readonly Row[]
}

/** bench/contestant.c and bench/contestant.py have it too. */
export const COPY_BYTES = 256 * 1024 * 1024
/** Of the kernels that fill the GPU beside other streams. */
export const FILLING_NS = 100_000
/** Launches and collectives in one group of NCCL. */
export const IN_GROUP = 50

const calls = {
  title: 'calls',
  unit: 'ns',
  share: 0.55,
  rows: [
    { key: 'record', title: 'record(event), no timing', calls: 20_000 },
    { key: 'record-allocated', title: 'record(event) on a stream that has allocated memory', calls: 20_000 },
    { key: 'record-new', title: 'record() into a new event, and its close', calls: 20_000 },
    { key: 'record-dropped', title: 'record() into a new event that is left to the garbage collector', calls: 5_000 },
    { key: 'wait-event', title: 'wait(event) of another stream', calls: 20_000 },
    { key: 'wait-stream', title: 'wait(stream); C: record + wait', calls: 10_000 },
    { key: 'stream-query', title: 'stream.query(), done', calls: 20_000 },
    { key: 'event-query', title: 'event.query(), done', calls: 20_000 },
    // What is known to be done need not be asked for; behind a stream that is held everyone has to ask.
    { key: 'stream-query-busy', title: 'stream.query(), not done', calls: 20_000 },
    { key: 'event-query-busy', title: 'event.query(), not done', calls: 20_000 },
    { key: 'synchronize-idle', title: 'synchronize(), idle', calls: 20_000 },
    { key: 'priority', title: 'priority', calls: 20_000 },
    { key: 'wrap', title: 'wrap a foreign handle, and let go', calls: 2_000 },
    { key: 'event-create', title: 'event create + close', calls: 20_000 },
    { key: 'stream-create', title: 'stream create + close', calls: 1_000 },
    { key: 'allocate', title: 'alloc(16 KiB) + close, on 16 streams in turn', calls: 2_000 },
    { key: 'host-function', title: 'host function + synchronize()', calls: 500 },
    { key: 'launch-four', title: 'launch(kernel), four arguments', calls: 2_000 },
    { key: 'graph-launch', title: 'launch(exec), a graph of 100 empty kernels', calls: 900, mostCalls: 8 },
    { key: 'graph-launch-1000', title: 'launch(exec), a graph of 1000 empty kernels', calls: 100, mostCalls: 1 },
    { key: 'launch-synchronize', title: 'launch(kernel) + synchronize()', calls: 1_000 },
    {
      key: 'launch-finished',
      title: 'the same + await finished(); others: synchronize',
      calls: 1_000,
      against: 'launch-synchronize',
    },
  ],
} as const satisfies Group

/** Nanoseconds beyond those of the kernel. */
const wakes = {
  title: 'waits: after the end of a kernel',
  unit: 'µs',
  share: 0.07,
  rows: [
    { key: 'late-100us', title: 'await finished() of 100 µs of work; C: synchronize', calls: 100 },
    { key: 'late-1ms', title: '1 ms', calls: 20 },
    { key: 'late-10ms', title: '10 ms', calls: 4 },
    { key: 'late-100ms', title: '100 ms', calls: 1 },
  ],
} as const satisfies Group

const cpu = {
  title: 'CPU burnt',
  unit: '%',
  share: 0.08,
  mostRounds: 3,
  isLong: true,
  rows: [{ key: 'cpu-await', title: 'of one core, awaiting a second of work; C: synchronize', calls: 10 }],
} as const satisfies Group

const beside = {
  title: 'a kernel of 100 µs that fills the GPU',
  unit: 'µs',
  share: 0.1,
  mostRounds: 7,
  isLong: true,
  rows: [
    { key: 'beside-0', title: 'alone', calls: 500 },
    { key: 'beside-31', title: 'beside 31 streams, each with a host function a frame', calls: 500 },
    { key: 'beside-200', title: 'beside 200 streams', calls: 500 },
  ],
} as const satisfies Group

// What moves many bytes leaves garbage, after which V8 compiles again what the other rows run: it comes after the calls.
const moves = {
  title: '256 MiB',
  unit: 'GB/s',
  share: 0.2,
  rows: [
    { key: 'copy-in', title: 'pinned to device, + synchronize()', calls: 8, bytes: COPY_BYTES },
    { key: 'copy-out', title: 'device to pinned, + synchronize()', calls: 8, bytes: COPY_BYTES },
    { key: 'upload', title: 'an ordinary array to device, + synchronize()', calls: 2, bytes: COPY_BYTES },
    { key: 'download', title: 'device to a new ordinary array', calls: 2, bytes: COPY_BYTES },
    { key: 'download-into', title: 'device to an ordinary array of before', calls: 2, bytes: COPY_BYTES },
  ],
} as const satisfies Group

const collectives = {
  title: 'NCCL, two processes with a GPU each',
  unit: 'µs',
  share: 0.4,
  rows: [
    { key: 'all-reduce-1024', title: 'allReduce of 1 KiB', calls: 200 },
    { key: 'all-reduce-65536', title: '64 KiB', calls: 200 },
    { key: 'all-reduce-1048576', title: '1 MiB', calls: 200 },
    { key: 'all-reduce-16777216', title: '16 MiB', calls: 100 },
    { key: 'all-reduce-1073741824', title: '1 GiB', calls: 10 },
    { key: 'all-reduce-group', title: `a group of ${IN_GROUP} of 1 KiB`, calls: 20 },
  ],
} as const satisfies Group

const collectivesOfOne = {
  title: 'NCCL, one process with two GPUs',
  unit: 'µs',
  share: 0.3,
  rows: [
    { key: 'both-1024', title: 'allReduce of 1 KiB', calls: 200 },
    { key: 'both-65536', title: '64 KiB', calls: 200 },
    { key: 'both-1048576', title: '1 MiB', calls: 200 },
    { key: 'both-16777216', title: '16 MiB', calls: 100 },
    { key: 'both-1073741824', title: '1 GiB', calls: 10 },
    { key: 'both-group', title: `a group of ${IN_GROUP} of 1 KiB`, calls: 20 },
  ],
} as const satisfies Group

const simulated = {
  title: 'the simulator',
  unit: 'operations/s',
  share: 0.05,
  rows: [
    { key: 'sim-record', title: 'record(event), synchronized every 500', calls: 50_000 },
    { key: 'sim-wait-event', title: 'wait(event), synchronized every 500', calls: 50_000 },
    { key: 'sim-wait-stream', title: 'wait(stream), synchronized every 500', calls: 50_000 },
    { key: 'sim-query', title: 'stream.query()', calls: 50_000 },
    { key: 'sim-synchronize', title: 'synchronize(), idle', calls: 50_000 },
    { key: 'sim-host-function', title: 'host function + synchronize()', calls: 10_000 },
    { key: 'sim-busy', title: 'busy(stream, 1000), synchronized every 500', calls: 50_000 },
    { key: 'sim-pipeline', title: 'a pipeline of three streams, synchronized every 60 items', calls: 50_000 },
  ],
} as const satisfies Group

const scale = {
  title: 'the simulator, a million operations',
  unit: 'operations/s',
  share: 0.15,
  mostRounds: 5,
  isLong: true,
  rows: [
    { key: 'sim-million-1', title: '1 stream', calls: 1_000_000 },
    { key: 'sim-million-100', title: '100 streams', calls: 1_000_000 },
    { key: 'sim-million-10000', title: '10 000 streams', calls: 1_000_000 },
    { key: 'sim-random-100', title: '100 streams, random order', calls: 1_000_000 },
    { key: 'sim-random-10000', title: '10 000 streams, random order', calls: 1_000_000 },
    { key: 'sim-mixed-0', title: '8 streams picked at random, with memory and host functions', calls: 1_000_000 },
    { key: 'sim-mixed-7', title: 'the same, random order', calls: 1_000_000 },
  ],
} as const satisfies Group

export const groups: readonly Group[] = [
  calls,
  wakes,
  cpu,
  beside,
  moves,
  collectives,
  collectivesOfOne,
  simulated,
  scale,
]

/** Of the rows that cuda-streams plays beside C in one process. */
export const pairedRows: readonly Row[] = calls.rows

export type GpuKey = (typeof calls | typeof wakes | typeof cpu | typeof beside | typeof moves)['rows'][number]['key']
export type SimulatedKey = (typeof simulated | typeof scale)['rows'][number]['key']

/** `ours` is this version of the library. The first of them is what all are compared with; the others run in other ways. */
export type Kind = 'ours' | 'other version' | 'C' | 'Python'

/** What a turn at a row gives. */
export interface Turn {
  /** Nanoseconds per call, or per cent. */
  readonly taken: number
  /** Where C was played in the same process: what it took, and the ratios of slices of both that were neighbours. */
  readonly besideC?: { readonly taken: number; readonly ratios: readonly number[] }
}

/** One side of the comparison. */
export interface Contestant {
  /** That of a column of the table: two that share one have rows of their own. */
  readonly name: string
  readonly kind: Kind
  /** Versions, and what else tells runs apart. */
  readonly facts: Readonly<Record<string, string>>
  readonly keys: ReadonlySet<string>
  run(key: string, calls: number): Promise<Turn>
  /** The result says if it did not end, and was killed. */
  close(): Promise<string | undefined>
}
