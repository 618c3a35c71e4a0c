/** A launch's shape does not depend on the launch before, whose shape is kept. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LaunchConfig } from 'cuda-streams'
import { Shapes } from '../../src/kernels/kernel.js'

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

test('the shape of a configuration, or its error, is the same behind any other', () => {
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
