/** Runs one case on one backend, in a process of its own: `node child.js <backend> <case>` says 'ok' or fails. */
import { wrongArguments } from '../properties/wrong-arguments.js'
import { openBackend } from './backend.js'
import { badKernelCases } from './bad-kernel-cases.js'
import { type Case, cases } from './cases.js'
import { faultCases } from './fault-cases.js'
import { loadingCases } from './loading-cases.js'

const all: Readonly<Record<string, Case>> = {
  ...cases,
  ...faultCases,
  ...badKernelCases,
  ...loadingCases,
  'wrong arguments': wrongArguments,
}

const [backend = '', name = ''] = process.argv.slice(2)
const run = all[name]
if (run === undefined) throw new Error(`no case has the name '${name}'`)
await run(openBackend(backend))
console.log('ok')
