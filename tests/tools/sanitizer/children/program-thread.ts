/** A thread of tests/tools/sanitizer/random-threads.test.ts. */
import { isMainThread, parentPort } from 'node:worker_threads'
import { Device } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { Player, racesIn, type SharedOfThread, type Step } from '../thread-play.js'

export type Request =
  | { readonly act: 'begin' }
  | { readonly act: 'receive'; readonly all: readonly SharedOfThread[] }
  | { readonly act: 'play'; readonly step: Step; readonly number: number }
  | { readonly act: 'races' }
  | { readonly act: 'close' }

export interface Reply {
  readonly shared?: SharedOfThread
  readonly races?: readonly string[]
  readonly failed?: string
}

let sanitizer: Sanitizer | undefined
let player: Player | undefined

async function answer(request: Request): Promise<Reply> {
  if (request.act === 'begin') {
    sanitizer = Sanitizer.start({ stacks: 'none' })
    player = new Player(Device.get())
    return { shared: player.share() }
  }
  if (request.act === 'receive') player?.receive(request.all)
  if (request.act === 'play') await player?.play(request.step, request.number)
  if (request.act === 'close') {
    player?.close()
    sanitizer?.stop()
  }
  if (request.act !== 'races') return {}
  const races = racesIn(sanitizer?.reports ?? [])
  player?.release()
  return { races }
}

if (!isMainThread) {
  parentPort?.on('message', (request: Request) => {
    answer(request).then(
      (reply) => parentPort?.postMessage(reply),
      (error: unknown) =>
        parentPort?.postMessage({ failed: error instanceof Error ? String(error.stack) : String(error) }),
    )
  })
}
