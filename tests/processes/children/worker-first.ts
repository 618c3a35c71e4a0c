/** Only workers load the native library: one after the other uses the event loop by it, and ends. */
import { isMainThread, Worker } from 'node:worker_threads'
import { BackOffTimer } from '../../../src/cuda/waiting/back-off-timer.js'

const TURNS = 50

if (isMainThread) {
  for (let left = 3; left > 0; left -= 1) {
    const worker = new Worker(new URL(import.meta.url))
    await new Promise((resolve) => worker.on('exit', resolve))
  }
  console.log('the workers are gone')
} else {
  const backOff = new BackOffTimer()
  let turns = 0
  const turn = (): void => {
    turns += 1
    if (turns < TURNS) backOff.sleep(turn)
  }
  // It ends while the loop still watches the backOff's timer.
  backOff.sleep(turn)
}
