/** A worker that runs one program, and is ended then. */

import { NoProgram } from './compile.js'
import { declared } from './kernel-modules.js'
import type { DeclareRequest, Reply, Request } from './messages.js'
import { explore, profile, run } from './runner.js'

const reply = (message: Reply): void => self.postMessage(message)

// What the library warns of, and what a program does with the console behind our back.
for (const level of ['log', 'warn', 'error'] as const)
  console[level] = (...values: unknown[]) => reply({ what: 'console', level, text: values.join(' ') })
self.addEventListener('error', (event) => {
  event.preventDefault()
  reply({ what: 'console', level: 'error', text: `Uncaught ${event.message}` })
})
self.addEventListener('unhandledrejection', (event) => {
  event.preventDefault()
  reply({ what: 'console', level: 'error', text: `Uncaught (in a promise) ${event.reason}` })
})
Object.assign(self, {
  setImmediate: (fn: () => void) => self.setTimeout(fn, 0),
  clearImmediate: (timer: number) => self.clearTimeout(timer),
})

self.addEventListener('message', ({ data }: MessageEvent<DeclareRequest | Request>) => {
  if (data.what === 'declare') reply({ what: 'declared', files: declared(data.kernels) })
  else void answer(data)
})

async function answer({ what, code, kernels }: Request): Promise<void> {
  try {
    if (what === 'run')
      reply({ what: 'ran', ran: await run(code, (level, text) => reply({ what: 'console', level, text }), kernels) })
    else if (what === 'profile') reply({ what: 'profiled', profiles: await profile(code, kernels) })
    else
      reply({
        what: 'explored',
        explored: await explore(code, (runs, maxRuns) => reply({ what: 'progress', runs, maxRuns }), kernels),
      })
  } catch (error) {
    const isProgram = !(error instanceof NoProgram)
    const message = error instanceof Error ? error.message : String(error)
    reply({ what: 'refused', isProgram, message, line: isProgram ? undefined : error.line })
  }
}
