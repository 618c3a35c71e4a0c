/** The mistakes that are most often made in a launch: each message says what is wrong and with which kernel, and what to write. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineKernel } from 'cuda-streams'
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
  [[{ threads: 0 }, 2, x, x, 0], /^axpy: config\.threads must be from 1 to .* \(skip the launch .*\), not 0$/],
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
    [ONE, 2, x, x.slice(2, 4), 1],
    /^axpy: argument 2 \('inout f32\*'\): .* does not begin at a multiple of 4, for f32$/,
  ],
  [[ONE, 2, closed, x, 1], /^axpy: argument 1 \('in f32\*'\): DeviceBuffer\(.*, closed\) cannot be used any more$/],
  [[ONE, 2, x, x], /^axpy takes 4 arguments, 'f32', 'in f32\*', 'inout f32\*', 'i32', and 3 were given$/],
  [[ONE, [2, x, x, 1]], /^axpy takes 4 arguments, .*, and 1 were given: pass them one by one, not as an array$/],
]

for (const [args, message] of MISTAKES) {
  test(`${message}`, () => {
    let line = 0
    assert.throws(
      () => {
        line = lineOfCaller()
        Reflect.apply(stream.launch, stream, [axpy, ...args])
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
