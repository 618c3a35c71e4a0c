/** A kernel that faults: all that waits hears of it, nothing hangs, and the process ends as if nothing had been. */
import { it } from 'node:test'
import { ofTheDay } from '../helpers/of-the-day.js'
import { FEW_QUEUES } from '../helpers/run-time.js'
import { onEveryBackend } from '../helpers/suite.js'
import { badKernelCases } from './bad-kernel-cases.js'
import { faultCases } from './fault-cases.js'
import { assertCase } from './run-child.js'

/** In so many days each case has its turn. */
const DAYS = 2
const SECONDS = 60

onEveryBackend('a fault', (bench) => {
  for (const name of ofTheDay(Object.keys({ ...faultCases, ...badKernelCases }), DAYS)) {
    it(name, { timeout: (SECONDS + 10) * 1000 }, () => assertCase(bench, name, SECONDS, FEW_QUEUES))
  }
})
