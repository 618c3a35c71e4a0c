/** The shape of the latest launch is taken for the next where the configuration asks for it, however that is written; else it is read. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LaunchConfig } from 'cuda-streams'
import fc from 'fast-check'
import { Shapes } from '../../src/kernels/kernel.js'
import { refused } from '../conformance/expect.js'

const axis = fc.integer({ min: 1, max: 3 })
const extent = fc.oneof(
  axis,
  fc.tuple(axis),
  fc.tuple(axis, axis),
  fc.tuple(axis, axis, axis),
  fc.tuple(axis, fc.constant(undefined), axis),
)
const config: fc.Arbitrary<LaunchConfig> = fc.record(
  {
    grid: extent,
    block: extent,
    sharedMemory: fc.constantFrom(0, 16, undefined),
    cooperative: fc.constantFrom(true, false, undefined),
    cluster: fc.constantFrom(1, undefined),
    priority: fc.constantFrom(0, undefined),
  },
  { requiredKeys: ['grid', 'block'] },
) as fc.Arbitrary<LaunchConfig>

test('a shape does not depend on the launches before', () => {
  fc.assert(
    fc.property(fc.array(config, { maxLength: 30 }), (configs) => {
      const shapes = new Shapes()
      for (const each of configs) assert.deepEqual(shapes.of(each), new Shapes().of(each))
    }),
  )
})

test('what is written in another way, in a new object or array, is the same shape; an array that was changed is another', () => {
  const shapes = new Shapes()
  const first = shapes.of({ grid: 4, block: [32, 1] })
  for (const same of [
    { grid: [4], block: 32 },
    { grid: [4, 1, 1], block: [32], sharedMemory: 0 },
  ] as const) {
    assert.equal(shapes.of(same), first)
  }
  const block = [32, 1]
  const config = { grid: 4, block: block as unknown as [number, number] }
  assert.equal(shapes.of(config), first)
  block[1] = 2
  assert.deepEqual(shapes.of(config).block, [32, 2, 1])
})

test('a configuration that is refused is refused behind one that looks like it', () => {
  for (const [grid, code] of [
    [[4, 1, 1, 1], 'ERR_INVALID_ARG_TYPE'],
    [[], 'ERR_INVALID_ARG_TYPE'],
    [[4, null], 'ERR_INVALID_ARG_TYPE'],
    [{ 0: 4, length: 1 }, 'ERR_INVALID_ARG_TYPE'],
    ['4', 'ERR_INVALID_ARG_TYPE'],
    [[4, 0], 'ERR_OUT_OF_RANGE'],
  ] as const) {
    const shapes = new Shapes()
    shapes.of({ grid: 4, block: 1 })
    refused(() => shapes.of({ grid: grid as unknown as number, block: 1 }), code, /config\.grid/)
  }
})
