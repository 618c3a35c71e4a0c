/** Wrong arguments, ten thousand of them, in a process of its own: a crash of it is a failure here. */
import { it } from 'node:test'
import { onEveryBackend } from '../helpers/suite.js'
import { assertCase } from '../torture/run-child.js'
import { CALLS, SEED } from './wrong-arguments.js'

const SECONDS = 120

onEveryBackend(`wrong arguments (fast-check seed ${SEED})`, (bench) => {
  const options = { timeout: (SECONDS + 10) * 1000 }
  it(`${CALLS} of them are refused and leave no trace`, options, () => assertCase(bench, 'wrong arguments', SECONDS))
})
