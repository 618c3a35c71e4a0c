/** A thread that has host functions pending, and tells what it sees of the others. */
import { parentPort } from 'node:worker_threads'
import { openThreadTable } from '../../../src/driver/cuda/host-functions/thread-table.js'
import type { StreamHandle } from '../../../src/driver/driver.js'

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

const threads = openThreadTable()

parentPort?.on('message', (question: Question) => {
  const { othersPending } = threads
  if (question === 'exclusive') reply({ othersPending, entered: threads.exclusive.take() })
  else if (question === 'leave') {
    threads.exclusive.giveBack()
    reply({ othersPending })
  } else if ('publish' in question) {
    const entered = threads.announce(question.publish)
    reply({ othersPending, entered })
  } else if ('begin' in question) {
    threads.captures.add(question.begin as StreamHandle, question.isMadeHere)
    reply({ othersPending })
  } else if ('end' in question) {
    threads.captures.remove(question.end as StreamHandle)
    reply({ othersPending })
  } else if ('entries' in question) {
    threads.publishWork(1, question.entries)
    reply({ othersPending })
  } else {
    threads.kept.keep(0, question.keep)
    reply({ othersPending })
  }
})

function reply(answer: Reply): void {
  parentPort?.postMessage(answer)
}
