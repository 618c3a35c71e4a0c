/** A kernel that faults: all that waits hears of it, nothing hangs, and the process ends as if nothing had been. */
import { it } from 'node:test'
import { FEW_QUEUES } from '../helpers/run-time.js'
import { onEveryBackend } from '../helpers/suite.js'
import { badKernelCases } from './bad-kernel-cases.js'
import { faultCases } from './fault-cases.js'
import { assertCase } from './run-child.js'

const SECONDS = 60

onEveryBackend('a fault', (bench) => {
  for (const name of Object.keys({ ...faultCases, ...badKernelCases })) {
    it(name, { timeout: (SECONDS + 10) * 1000 }, () => assertCase(bench, name, SECONDS, FEW_QUEUES))
  }
})
