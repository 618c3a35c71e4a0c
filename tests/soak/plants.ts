/** Mistakes that are made on purpose, to see that a soak finds each of them. */
import { Stream } from 'cuda-streams'
import type { Actor } from './actor.js'
import type { Plant } from './options.js'

/** When the mistake is made: after so many actions of the first actor of the main thread. */
const AT = 20

const kept: unknown[] = []

export function plant(what: Plant, actor: Actor, played: number): void {
  if (played !== AT || actor.name !== '0.0') return
  actor.trace.note(`makes a mistake: ${what}`)
  const lane = actor.lane()
  switch (what) {
    case 'byte': {
      // A model that is wrong is found as memory that is would be.
      const { model } = actor.piece()
      model[0] = ~(model[0] ?? 0)
      break
    }
    case 'order':
      lane.pending.push(lane.at + 1)
      break
    case 'promise':
      actor.follow('a promise that is never settled', new Promise(() => {}))
      break
    case 'error':
      lane.stream.launchHostFunc(() => {
        throw new Error('a mistake in a host function')
      })
      break
    case 'crash':
      process.kill(process.pid, 'SIGSEGV')
      break
    case 'block':
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
      break
    case 'stall':
      // All is done, and the process does not end.
      setInterval(() => {}, 1000)
      break
    case 'kept': {
      const stream = new Stream({ device: lane.device })
      actor.dropped.push(new WeakRef(stream))
      kept.push(stream)
      break
    }
  }
}
