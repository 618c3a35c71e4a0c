/** A thread that has host functions pending, and tells what it sees of the others. */
import { parentPort } from 'node:worker_threads'
import { openThreadTable } from '../../../src/driver/cuda/host-functions/thread-table.js'

export type Question =
  | { readonly publish: number }
  | { readonly keep: number }
  | { readonly captures: number }
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
  } else if ('captures' in question) reply({ othersPending, entered: threads.announceCaptures(question.captures) })
  else if ('entries' in question) {
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
