/** A thread of the system that is gone. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'

/** The number that a thread has which has ended by now. */
export async function endedThread(): Promise<number> {
  const source = new URL('../../src/foundation/base/system-threads.js', import.meta.url).href
  const program = `import(${JSON.stringify(source)}).then(({ ownThread }) => require('node:worker_threads').parentPort.postMessage(ownThread()))`
  const worker = new Worker(program, { eval: true })
  const ended = once(worker, 'exit')
  const [thread] = (await once(worker, 'message')) as [number]
  await ended
  return thread
}
