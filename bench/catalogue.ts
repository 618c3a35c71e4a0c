/** What the bench measures on a GPU: the one list that every contestant and the table go by. */

interface Entry {
  /** The name in the line protocol. */
  readonly key: string
  /** What is counted, in the words of the table. */
  readonly title: string
  /** Calls in one round. */
  readonly calls: number
  /** The row of the other contestants to compare with, where it is not their row of the same key. */
  readonly against?: string
  /** Bytes that a call moves, where it is for moving bytes. */
  readonly bytes?: number
}

/** bench/contestant.c and bench/contestant.py have it too. */
export const COPY_BYTES = 256 * 1024 * 1024

export const rows = [
  { key: 'record', title: 'record(event), no timing', calls: 20_000 },
  { key: 'record-new', title: 'record() into a new event, and its close', calls: 5_000 },
  { key: 'wait-event', title: 'wait(event) of another stream', calls: 20_000 },
  { key: 'wait-stream', title: 'wait(stream); C: record + wait', calls: 10_000 },
  { key: 'stream-query', title: 'stream.query()', calls: 20_000 },
  { key: 'event-query', title: 'event.query()', calls: 20_000 },
  // What is known to be done need not be asked for; behind a stream that is held everyone has to ask.
  { key: 'stream-query-busy', title: 'stream.query(), not done', calls: 20_000 },
  { key: 'event-query-busy', title: 'event.query(), not done', calls: 20_000 },
  { key: 'synchronize-idle', title: 'synchronize(), idle', calls: 20_000 },
  { key: 'priority', title: 'priority', calls: 20_000 },
  { key: 'wrap', title: 'wrap a foreign handle, and let go', calls: 2_000 },
  { key: 'event-create', title: 'event create + close', calls: 5_000 },
  { key: 'stream-create', title: 'stream create + close', calls: 1_000 },
  { key: 'host-function', title: 'host function + synchronize()', calls: 500 },
  { key: 'launch-four', title: 'launch(kernel), four arguments', calls: 2_000 },
  { key: 'graph-launch', title: 'launch(exec), a graph of 100 empty kernels', calls: 900 },
  { key: 'graph-launch-1000', title: 'launch(exec), a graph of 1000 empty kernels', calls: 100 },
  { key: 'launch-synchronize', title: 'launch(kernel) + synchronize()', calls: 1_000 },
  {
    key: 'launch-finished',
    title: 'the same + await finished(); others: synchronize',
    calls: 1_000,
    against: 'launch-synchronize',
  },
  { key: 'copy-in', title: '256 MiB, pinned to device, + synchronize()', calls: 8, bytes: COPY_BYTES },
  { key: 'copy-out', title: '256 MiB, device to pinned, + synchronize()', calls: 8, bytes: COPY_BYTES },
  { key: 'upload', title: '256 MiB, an ordinary array to device, + synchronize()', calls: 2, bytes: COPY_BYTES },
  { key: 'download', title: '256 MiB, device to a new ordinary array', calls: 2, bytes: COPY_BYTES },
] as const satisfies readonly Entry[]

export type RowKey = (typeof rows)[number]['key']
export type Row = Entry & { readonly key: RowKey }

/** One side of the comparison. Its turn at a row gives nanoseconds per call. */
export interface Contestant {
  readonly name: string
  readonly version: string
  readonly keys: ReadonlySet<string>
  run(key: RowKey, calls: number): Promise<number>
  close(): Promise<void>
}
