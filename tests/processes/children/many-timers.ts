/** Workers, one after the other, each of which sleeps by a timer of the system's: prints how many files are open before and after. */
import { readdirSync } from 'node:fs'
import { isMainThread, Worker } from 'node:worker_threads'
import { BackOffTimer } from '../../../src/cuda/waiting/back-off-timer.js'

const WORKERS = 8

const openFiles = (): number => readdirSync('/proc/self/fd').length

async function worker(): Promise<void> {
  const one = new Worker(new URL(import.meta.url))
  await new Promise((resolve) => one.on('exit', resolve))
}

if (isMainThread) {
  await worker()
  const before = openFiles()
  for (let left = WORKERS; left > 0; left -= 1) await worker()
  console.log(openFiles() - before)
} else {
  const backOff = new BackOffTimer()
  backOff.sleep(() => backOff.cancel())
}
