/** Workers that come and go: each ends with work pending, by itself or by others, and harms nobody. */
import { Worker } from 'node:worker_threads'
import { Stream } from 'cuda-streams'
import { turn } from './client.js'
import { ENDINGS, type Ending, FOREIGN_CLIENT_ERROR, type ForeignClientData } from './foreign-client.js'
import { Random, seedOf } from './random.js'
import type { Thread } from './thread.js'

const EXIT_CODE = 7

/** Starts one foreign client after the other. */
export async function runForeignClients(thread: Thread, index: number, goesOn: () => boolean): Promise<void> {
  const track = thread.trace.track(index)
  const random = new Random(seedOf(thread.fixture.options.seed, 300))
  while (goesOn()) {
    const ending = random.one(ENDINGS)
    track.note(`has a foreign client that ends ${ending}`)
    await runForeignClient(thread, ending, random)
    for (let left = random.between(50, 500); left > 0; left -= 1) await turn()
  }
  track.over()
}

async function runForeignClient({ machine, tracker }: Thread, ending: Ending, random: Random): Promise<void> {
  const { device } = machine
  using stream = new Stream({ device })
  using event = stream.record()
  const shared = { stream: stream.share(), event: event.share() }
  const data: ForeignClientData = { ending, code: EXIT_CODE, ...shared }
  const worker = new Worker(new URL('foreign-client.js', import.meta.url), { workerData: data })
  const errors: unknown[] = []
  worker.on('error', (error) => errors.push(error))
  const exit = new Promise<number>((resolve) => worker.once('exit', resolve))
  // Some are ended while they begin.
  if (random.chance(0.8)) await new Promise((resolve) => worker.once('message', resolve).once('exit', resolve))
  for (let left = random.below(20); left > 0; left -= 1) await turn()
  const isEnded = ending === 'while it turns' || ending === 'while it blocks'
  if (isEnded) await worker.terminate()
  const code = await exit
  const wanted = { 'by itself': 0, 'by process.exit()': EXIT_CODE, 'by an exception': 1 }
  if (!isEnded)
    tracker.same(`the exit code of a foreign client that ends ${ending}`, code, wanted[ending as keyof typeof wanted])
  const [error] = errors
  const isMeant = ending === 'by an exception' && error instanceof Error && error.message === FOREIGN_CLIENT_ERROR
  if (error !== undefined && !isMeant) tracker.fail(`a foreign client that ends ${ending} had an error: ${error}`)
  // What it queued here stands for nobody any more.
  await stream.finished()
  tracker.counts.foreignClients += 1
}
