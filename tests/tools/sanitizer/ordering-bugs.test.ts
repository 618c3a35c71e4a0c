/** The programs of examples/ordering-bugs: each bug is found under the natural order, and no fixed version is complained of. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Sanitizer, type SanitizerReport } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
import { bugs, type Program } from '../../../examples/ordering-bugs/bugs.js'

async function reportsOf(program: Program): Promise<readonly SanitizerReport[]> {
  using simulation = simulate({ devices: 2 })
  const [device] = simulation.devices
  assert.ok(device)
  using sanitizer = Sanitizer.start({ device })
  await program(simulation)
  return sanitizer.reports
}

/** Bugs that are none of memory. */
const NOT_MEMORY = new Set(['two host functions, one variable'])

for (const { name, broken, fixed } of bugs) {
  describe(name, () => {
    it(NOT_MEMORY.has(name) ? 'cannot be seen' : 'is found', async () => {
      const reports = await reportsOf(broken)
      const errors = reports.filter(({ severity }) => severity === 'error')
      assert.equal(errors.length > 0, !NOT_MEMORY.has(name), errors.map(({ message }) => message).join('\n'))
    })

    it('is not found in the fixed version', async () => {
      assert.deepEqual(
        (await reportsOf(fixed)).map(({ message }) => message),
        [],
      )
    })
  })
}
