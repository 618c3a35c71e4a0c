/** Mistakes that are made on purpose, to see that a soak finds each of them. */
import { openSync } from 'node:fs'
import { devNull } from 'node:os'
import { Stream } from 'cuda-streams'
import { NativeMemory } from '../../src/foundation/native/native-memory.js'
import type { Client } from './client.js'
import type { InjectedBug } from './options.js'

/** When the mistake is made: after so many actions of the first client of the main thread. */
const AT = 20

const kept: unknown[] = []

type Leak = 'memory' | 'files'

/** So many MiB for each action are never freed, and so many files never closed. */
const LEAKED_MEBIBYTES = 5
const LEAKED_FILES = 2

export function inject(what: InjectedBug, client: Client, played: number): void {
  if (what === 'memory' || what === 'files') leak(what)
  else if (played === AT && client.name === '0.0') injectOnce(what, client)
}

/** Nothing is wrong but that the process has more and more. */
function leak(what: Leak): void {
  if (what === 'memory') new NativeMemory(LEAKED_MEBIBYTES * 2 ** 20).bytes.fill(1)
  else for (let left = LEAKED_FILES; left > 0; left -= 1) openSync(devNull, 'r')
}

function injectOnce(what: Exclude<InjectedBug, Leak>, client: Client): void {
  client.trace.note(`makes a mistake: ${what}`)
  const track = client.track()
  switch (what) {
    case 'byte': {
      // A model that is wrong is found as memory that is would be.
      const { model } = client.piece()
      model[0] = ~(model[0] ?? 0)
      break
    }
    case 'order':
      track.pending.push(track.at + 1)
      break
    case 'promise':
      client.follow('a promise that is never settled', new Promise(() => {}))
      break
    case 'error':
      track.stream.launchHostFunc(() => {
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
      const stream = new Stream({ device: track.device })
      client.dropped.push(new WeakRef(stream))
      kept.push(stream)
      break
    }
  }
}
