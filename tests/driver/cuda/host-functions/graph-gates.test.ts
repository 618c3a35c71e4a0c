/** Gates for the host functions of a graph, on a driver that is pretended. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { GateMemory } from '../../../../src/driver/cuda/host-functions/gate-memory.js'
import { GraphGates } from '../../../../src/driver/cuda/host-functions/graph-gates.js'
import type { Library } from '../../../../src/driver/cuda/libcuda/library.js'
import type { ContextHandle } from '../../../../src/driver/driver.js'

it('what is refused in the middle keeps no gates', () => {
  let left = 3
  const memory = {
    take: () => (left > 0 ? left-- : undefined),
    describe: () => 0,
    label: () => {},
  }
  const nodes = { setOperations: () => {} }
  const gates = new GraphGates({} as Library, nodes, memory as unknown as GateMemory)
  const context = 1 as ContextHandle
  const captured = (count: number) =>
    Array.from({ length: count }, (_, node) => ({ node, host: { run: () => {}, runsAfterFault: false } }))
  for (let tries = 0; tries < 3; tries += 1) {
    assert.throws(() => gates.arm(context, captured(4)), { code: 'ERR_UNSUPPORTED' })
    const lanes = gates.arm(context, captured(3))
    assert.equal(lanes.length, 3)
    for (const lane of lanes) lane.destroy()
  }
})
