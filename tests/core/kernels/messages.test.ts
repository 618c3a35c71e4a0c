/** The mistakes that are most often made in a launch: each message says what is wrong and with which kernel, and what to write. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineKernel, struct } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'

const [device] = simulate().devices
assert.ok(device)
const stream = device.createStream()
const axpy = defineKernel({
  name: 'axpy',
  source: 'the simulator runs the JavaScript',
  signature: ['f32', 'in f32*', 'inout f32*', 'i32'],
  simulate: () => undefined,
})
const Params = struct({ scale: 'f32', size: 'i32x2' })
const filter = defineKernel({
  name: 'filter',
  source: 'the simulator runs the JavaScript',
  signature: ['inout f32x4*', Params, 'f16', 'u8x4'],
  parameterNames: ['image', 'p', 'gain', 'key'],
  simulate: () => undefined,
})
const x = device.alloc(4000, { stream })
const ONE = { grid: 1, block: 256 }
const closed = device.alloc(4, { stream })
closed.close()

const MISTAKES: readonly (readonly [args: readonly unknown[], message: RegExp])[] = [
  [
    [{ grid: 100 / 256 }, 2, x, x, 100],
    /^axpy: config\.grid must be an integer, not 0\.390625: round up, as in Math\.ceil\(n \/ block\)/,
  ],
  [[{ grid: [0.5, 2] }, 2, x, x, 100], /^axpy: config\.grid\[0\] must be an integer, .*Math\.ceil\(n \/ block\)/],
  [[{ grid: 0 }, 2, x, x, 0], /^axpy: config\.grid must be from 1 to 2147483647 \(skip the launch .*\), not 0$/],
  [[{ threads: 0.5 }, 2, x, x, 0], /^axpy: config\.threads must be an integer, not 0\.5$/],
  [[{ threads: -1 }, 2, x, x, 0], /^axpy: config\.threads must be from 0 to \d+, not -1$/],
  [[{ gridDim: 1, block: 1 }, 2, x, x, 1], /^axpy: unknown option 'gridDim' in config: did you mean 'grid'\?$/],
  [[{ grid: 1, blockSize: 1 }, 2, x, x, 1], /^axpy: unknown option 'blockSize' in config: did you mean 'block'\?$/],
  [[{ grid: 1, shared: 1 }, 2, x, x, 1], /^axpy: unknown option 'shared' in config: did you mean 'sharedMemory'\?$/],
  [
    [{ block: 256 }, 2, x, x, 1],
    /^axpy: config must have grid, the number of blocks, or threads, that of all threads$/,
  ],
  [
    [2, x, x, 1],
    /^axpy: config must be an object such as \{ grid, block \} or \{ threads \}, not 2: the config.* comes before/,
  ],
  [[ONE, 2, x, x, 100.5], /^axpy: argument 3 \('i32'\) must be an integer, not 100\.5$/],
  [[ONE, 2, x, x, 2 ** 31], /^axpy: argument 3 \('i32'\) must be from -2147483648 to 2147483647, not 2147483648$/],
  [
    [ONE, x, 2, x, 1],
    /^axpy: argument 0 \('f32'\) must be a number, not DeviceBuffer\(0x[0-9a-f]+, 4000 bytes, Device\(0, sim\)\)$/,
  ],
  [
    [ONE, 2, new Float32Array(4), x, 1],
    /^axpy: argument 1 \('in f32\*'\) must be a DeviceBuffer.*: stream\.bufferFrom\(array\) makes/,
  ],
  [
    [ONE, 2, x, x.subarray(2, 6), 1],
    /^axpy: argument 2 \('inout f32\*'\): .* does not begin at a multiple of 4, for f32$/,
  ],
  [[ONE, 2, closed, x, 1], /^axpy: argument 1 \('in f32\*'\): DeviceBuffer\(.*, closed\) cannot be used any more$/],
  [[ONE, 2, x, x], /^axpy takes 4 arguments, 'f32', 'in f32\*', 'inout f32\*', 'i32', and 3 were given$/],
  [[ONE, [2, x, x, 1]], /^axpy takes 4 arguments, .*, and 1 were given: pass them one by one, not as an array$/],
]

test('a graph takes no configuration and no arguments, and nothing is launched with them', async () => {
  const buffer = device.alloc(4, { stream })
  stream.fill(buffer, 0)
  using exec = stream.capture(() => void stream.fill(buffer, 1)).instantiate()
  for (const rest of [[{ threads: 1 }], [undefined, buffer, 1]]) {
    assert.throws(
      () => Reflect.apply(stream.launch, stream, [exec, ...rest]),
      /GraphExec\(.*\) takes no configuration and no arguments: .*exec\.update\(node, config, \.\.\.args\)/,
    )
  }
  assert.deepEqual([...(await stream.download(buffer))], [0, 0, 0, 0])
  using other = stream.capture(() => {})
  assert.throws(
    () => exec.update(other),
    /UPDATE_FAILURE.*differs from the graph of the instance by more than values.*Make another instance/,
  )
})

const right = { scale: 1, size: [4, 4] }
const NAMED_MISTAKES: typeof MISTAKES = [
  [
    [ONE, x, { ...right, scale: 'x' }, 1, [0, 0, 0, 0]],
    /^filter: parameter `p\.scale` \(f32\) must be a number, not 'x'$/,
  ],
  [
    [ONE, x, { ...right, size: [1, 0.5] }, 1, [0, 0, 0, 0]],
    /^filter: parameter `p\.size\[1\]` \(i32\) must be an integer, not 0\.5$/,
  ],
  [
    [ONE, x, { scale: 1, sizes: [1, 2] }, 1, [0, 0, 0, 0]],
    /^filter: parameter `p\.size` \(i32x2\) is missing: the object has 'sizes'$/,
  ],
  [
    [ONE, x, 1, 1, [0, 0, 0, 0]],
    /^filter: parameter `p` \(struct\) must be an object such as \{ scale, size \}, not 1$/,
  ],
  [[ONE, x, right, '1', [0, 0, 0, 0]], /^filter: parameter `gain` \(f16\) must be a number, not '1'$/],
  [[ONE, x, right, 1, [0, 0, 0, 256]], /^filter: parameter `key\[3\]` \(u8\) must be from 0 to 255, not 256$/],
  [
    [ONE, x, right, 1, [0, 0, 0]],
    /^filter: parameter `key` \(u8x4\) must be an array of 4 elements \(u8\), and 3 were given$/,
  ],
  [
    [ONE, x.subarray(8, 72), right, 1, [0, 0, 0, 0]],
    /^filter: parameter `image` \(inout f32x4\*\): .* multiple of 16, for f32x4$/,
  ],
  [[ONE, x, right, 1], /^filter takes 4 arguments, 'inout f32x4\*', 'struct', 'f16', 'u8x4', and 3 were given$/],
]

const ALL = [
  ...MISTAKES.map((row) => [axpy, ...row] as const),
  ...NAMED_MISTAKES.map((row) => [filter, ...row] as const),
]
for (const [kernel, args, message] of ALL) {
  test(`${message}`, () => {
    let line = 0
    assert.throws(
      () => {
        line = lineOfCaller()
        Reflect.apply(stream.launch, stream, [kernel, ...args])
      },
      (error: Error) => {
        assert.match(error.message, message)
        const [first = ''] = framesOf(error)
        assert.match(first, new RegExp(`messages\\.test\\.js:${line + 1}:`), 'the stack begins at the call')
        return true
      },
    )
  })
}

const framesOf = ({ stack = '' }: Error): string[] => stack.split('\n').filter((line) => line.startsWith('    at '))

function lineOfCaller(): number {
  const [, frame = ''] = framesOf(new Error('here'))
  return Number(/:(\d+):\d+\)?$/.exec(frame)?.[1])
}
