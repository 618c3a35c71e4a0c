/** A thread that has host functions pending, and tells what it sees of the others. */
import { parentPort } from 'node:worker_threads'
import { openProcessRegistry } from '../../../src/cuda/host-functions/process-registry.js'
import type { StreamHandle } from '../../../src/foundation/driver/handle-types.js'

export type Question =
  | { readonly publish: number }
  | { readonly keep: number }
  /** Begins or ends a capture of this stream. */
  | { readonly begin: number; readonly isMadeHere: boolean }
  | { readonly end: number }
  | { readonly entries: number }
  | 'exclusive'
  | 'leave'
export interface Reply {
  readonly othersPending: boolean
  readonly entered?: boolean
  readonly taken?: number | undefined
}

const registry = openProcessRegistry()

parentPort?.on('message', (question: Question) => {
  const { othersPending } = registry
  if (question === 'exclusive') reply({ othersPending, entered: registry.exclusive.tryTake() })
  else if (question === 'leave') {
    registry.exclusive.release()
    reply({ othersPending })
  } else if ('publish' in question) {
    const entered = registry.tryAnnounce(question.publish)
    reply({ othersPending, entered })
  } else if ('begin' in question) {
    registry.captures.add(question.begin as StreamHandle, question.isMadeHere)
    reply({ othersPending })
  } else if ('end' in question) {
    registry.captures.remove(question.end as StreamHandle)
    reply({ othersPending })
  } else if ('entries' in question) {
    registry.publishWork(1, question.entries)
    reply({ othersPending })
  } else {
    registry.spareStreams.add(0, question.keep)
    reply({ othersPending })
  }
})

function reply(answer: Reply): void {
  parentPort?.postMessage(answer)
}
