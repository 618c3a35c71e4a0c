/** Much work that waits: what the worst moments of a process are tested with. */
import type { Stream } from 'cuda-streams'
import type { Workbench } from '../helpers/workbench.js'

export const LOAD_STREAMS = 64
export const LOAD_EACH = 10_000

export interface Load {
  readonly streams: readonly Stream[]
  readonly promises: readonly Promise<void>[]
  /** Host functions that have run. */
  readonly ran: () => number
}

export function loadStreams(bench: Workbench): Stream[] {
  return Array.from({ length: LOAD_STREAMS }, () => bench.stream())
}

/** Ten thousand host functions and ten thousand pending finished() on the streams, in turns. */
export function queueLoad(streams: readonly Stream[]): Load {
  let ran = 0
  const count = (): void => {
    ran += 1
  }
  const promises: Promise<void>[] = []
  for (let queued = 0; queued < LOAD_EACH; queued += 1) {
    const stream = streams[queued % streams.length]
    if (stream === undefined) throw new Error('a load needs streams')
    stream.launchHostFunc(count)
    promises.push(stream.finished())
  }
  return { streams, promises, ran: () => ran }
}

/** Blocks the thread: the GPU goes on, JavaScript does not. */
export function pause(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
}
