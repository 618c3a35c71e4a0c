/** The shape of the latest launch is taken for the next where the configuration asks for it, however that is written; else it is read. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LaunchConfig } from 'cuda-streams'
import fc from 'fast-check'
import { Shapes } from '../../../src/core/kernels/kernel.js'
import { refused } from '../../conformance/expect.js'

const axis = fc.integer({ min: 1, max: 3 })
const extent = fc.oneof(
  axis,
  fc.tuple(axis),
  fc.tuple(axis, axis),
  fc.tuple(axis, axis, axis),
  fc.tuple(axis, fc.constant(undefined), axis),
)
const options = {
  block: fc.option(extent, { nil: undefined }),
  sharedMemory: fc.constantFrom(0, 16, undefined),
  cooperative: fc.constantFrom(true, false, undefined),
  cluster: fc.constantFrom(1, undefined),
  priority: fc.constantFrom(0, undefined),
}
const config = fc.oneof(
  fc.record({ ...options, grid: extent, threads: fc.constant(undefined) }, { requiredKeys: ['grid'] }),
  fc.record({ ...options, threads: extent, grid: fc.constant(undefined) }, { requiredKeys: ['threads'] }),
) as fc.Arbitrary<LaunchConfig>

test('a shape does not depend on the launches before', () => {
  fc.assert(
    fc.property(fc.array(config, { maxLength: 30 }), (configs) => {
      const shapes = new Shapes('axpy')
      for (const each of configs) assert.deepEqual(shapes.of(each), new Shapes('axpy').of(each))
    }),
  )
})

const GRIDS: readonly unknown[] = [
  undefined,
  0,
  1,
  7,
  1.5,
  -1,
  Number.NaN,
  2 ** 31,
  '3',
  [4],
  [4, 2],
  [5, 1, 1],
  [0, 1],
  [1, 2, 3],
]
const BLOCKS: readonly unknown[] = [undefined, 32, 256, [32, 2], [8, 8, 2], 0]
const MORE: readonly object[] = [
  {},
  { sharedMemory: 64 },
  { cooperative: true },
  { cluster: 1 },
  { priority: 0 },
  { unknown: 1 },
]

function outcomeOf(shapes: Shapes, config: unknown): string {
  try {
    return JSON.stringify(shapes.of(config as LaunchConfig))
  } catch (error) {
    return String(error)
  }
}

test('a wrong configuration is the same error behind any other', () => {
  const configs: readonly object[] = [
    ...GRIDS.flatMap((grid) => BLOCKS.map((block) => ({ grid, block }))),
    ...GRIDS.flatMap((threads) => BLOCKS.map((block) => ({ threads, block }))),
    ...MORE.flatMap((more) => [
      { grid: 3, block: 32, ...more },
      { threads: 100, ...more },
      { grid: 3, threads: 3, ...more },
    ]),
  ]
  const alone = configs.map((config) => outcomeOf(new Shapes('k'), config))
  const shapes = new Shapes('k')
  for (const before of configs) {
    for (const [index, config] of configs.entries()) {
      outcomeOf(shapes, before)
      assert.equal(outcomeOf(shapes, config), alone[index], JSON.stringify([before, config]))
    }
  }
})

test('what is written in another way, in a new object or array, is the same shape; an array that was changed is another', () => {
  const shapes = new Shapes('axpy')
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

const NONE = { attributes: undefined, sharedMemory: 0, cooperative: false, cluster: undefined }

test('threads give the grid by the block, rounded up', () => {
  for (const [threads, block, grid] of [
    [1000, 256, [4, 1, 1]],
    [1024, 256, [4, 1, 1]],
    [1025, 256, [5, 1, 1]],
    [
      [100, 50],
      [16, 16],
      [7, 4, 1],
    ],
    [
      [100, 50, 9],
      [8, 8, 4],
      [13, 7, 3],
    ],
    [2 ** 33, 1024, [2 ** 23, 1, 1]],
  ] as const) {
    assert.deepEqual(new Shapes('axpy').of({ threads, block }).grid, grid)
  }
  const whole = new Shapes('axpy').of({ threads: 1000, block: 256, cluster: 3 })
  assert.deepEqual(whole.grid, [6, 1, 1], 'in whole clusters')
  const tooMany = () => new Shapes('axpy').of({ threads: 2 ** 40, block: 1 })
  refused(tooMany, 'ERR_OUT_OF_RANGE', /^axpy: config\.threads must be those of at most 2147483647 blocks of 1, not/)
})

test('a block has 256 threads unless the configuration says otherwise', () => {
  const shapes = new Shapes('axpy')
  for (const [threads, block, grid] of [
    [1000, [256, 1, 1], [4, 1, 1]],
    [
      [1000, 1],
      [256, 1, 1],
      [4, 1, 1],
    ],
    [
      [100, 50],
      [32, 8, 1],
      [4, 7, 1],
    ],
    [
      [100, 50, 9],
      [32, 4, 2],
      [4, 13, 5],
    ],
  ] as const) {
    assert.deepEqual(shapes.of({ threads }), { ...NONE, block, grid })
    assert.deepEqual(shapes.of({ grid }).block, block)
  }
})

test('a configuration with both or none of grid and threads is refused, also behind one that looks like it', () => {
  const shapes = new Shapes('axpy')
  shapes.of({ grid: 4, block: 256 })
  const both = { grid: 4, threads: 1024, block: 256 } as unknown as LaunchConfig
  refused(() => shapes.of(both), 'ERR_INVALID_ARG_VALUE', /^axpy: config\.grid and .*exclude each other/)
  shapes.of({ threads: 1024, block: 256 })
  refused(() => shapes.of(both), 'ERR_INVALID_ARG_VALUE', /exclude each other/)
  refused(
    () => shapes.of({ block: 256 } as unknown as LaunchConfig),
    'ERR_INVALID_ARG_VALUE',
    /must have grid, .*threads/,
  )
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
    const shapes = new Shapes('axpy')
    shapes.of({ grid: 4, block: 1 })
    refused(() => shapes.of({ grid: grid as unknown as number, block: 1 }), code, /config\.grid/)
  }
})
