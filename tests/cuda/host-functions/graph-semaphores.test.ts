/** Semaphores for the host functions of a graph. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { GraphSemaphores } from '../../../src/cuda/host-functions/graph-semaphores.js'
import type { SemaphoreMemory } from '../../../src/cuda/host-functions/semaphores.js'
import type { Library } from '../../../src/cuda/libcuda/libcuda.js'
import type { ContextHandle, Pointer } from '../../../src/foundation/driver/handle-types.js'

it('what is refused in the middle keeps no semaphores', () => {
  let left = 3
  const memory = {
    take: () => (left > 0 ? left-- : undefined),
    describe: () => 0,
    label: () => {},
  }
  const nodes = { setOperations: () => {} }
  const semaphores = new GraphSemaphores({} as Library, nodes, memory as unknown as SemaphoreMemory, () => 0 as Pointer)
  const context = 1 as ContextHandle
  const captured = (count: number) =>
    Array.from({ length: count }, (_, node) => ({ node, host: { run: () => {}, runsAfterFault: false } }))
  for (let tries = 0; tries < 3; tries += 1) {
    assert.throws(() => semaphores.arm(context, captured(4)), { code: 'ERR_UNSUPPORTED' })
    const armed = semaphores.arm(context, captured(3))
    assert.equal(armed.length, 3)
    for (const each of armed) each.destroy()
  }
})
