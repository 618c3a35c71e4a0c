/** The mistakes that are most often made with memory: each message says in one line what is wrong, and what to write. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Module, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'

const [device] = simulate().devices
assert.ok(device)
const stream = device.createStream()
const buffer = device.alloc(400, { stream })
const array = new Float32Array(100)

/** Calls that TypeScript refuses, too. */
const call = (target: object, method: string, ...args: readonly unknown[]): unknown =>
  Reflect.apply(Reflect.get(target, method), target, args)
const fill = (...args: readonly unknown[]): unknown => call(stream, 'fill', buffer, ...args)

const MISTAKES: readonly (readonly [mistake: string, act: () => unknown, message: RegExp])[] = [
  [
    'a length in elements',
    () => stream.upload(device.alloc(array.length, { stream }), array),
    /^source must be 100 bytes long, .*, not 400: 100 elements have 400 bytes, and device\.alloc\(\) takes bytes/,
  ],
  [
    'a length in elements, for a download',
    () => stream.download(device.alloc(array.length, { stream }), array),
    /^into must be 100 bytes long, .*, not 400: 100 elements have 400 bytes, and device\.alloc\(\) takes bytes/,
  ],
  [
    'another length',
    () => stream.upload(buffer, array.subarray(1)),
    /^source must be 400 bytes long, as the destination is \(take a slice\), not 396$/,
  ],
  [
    'an array for copy()',
    () => call(stream, 'copy', buffer, array),
    /^source must be a DeviceBuffer or a PinnedBuffer, not Float32Array\(100\) \[.*: stream\.upload\(buffer, array\)/,
  ],
  [
    'arguments in the wrong order',
    () => call(stream, 'upload', array, buffer),
    /^buffer must be a DeviceBuffer or a PinnedBuffer, not Float32Array\(100\) \[.*: stream\.upload\(buffer, array\)/,
  ],
  ...[{ signal: AbortSignal.abort() }, AbortSignal.abort()].map(
    (given) =>
      [
        'a signal for upload()',
        () => call(stream, 'upload', buffer, array, given),
        /^options must be left out, as upload\(\) has none, not .*: await stream\.finished\(\{ signal \}\) first/,
      ] as const,
  ),
  [
    'a signal for download() itself, in place of options',
    () => call(stream, 'download', buffer, array, AbortSignal.abort()),
    /^options must be an object|\{ signal \}/,
  ],
  ['a value that is too wide', () => fill(300), /in 1 byte\(s\), not 300: .*fill\(buffer, value, \{ width: 4 \}\)$/],
  ['a value that no width has', () => fill(2 ** 32), /in 1 byte\(s\), not 4294967296$/],
  [
    'a length for an end',
    () => buffer.subarray(200, 100),
    /^end must be 200 or more, where the part begins: it is an offset and no length, not 100$/,
  ],
  [
    'bytes that are no whole elements',
    () => stream.download(device.alloc(402, { stream }), Float32Array),
    /402 bytes.* is no whole number of elements of 4 bytes$/,
  ],
  [
    'elements that begin in the middle',
    () => device.allocPinned(10).subarray(2, 10).view(Float32Array),
    /begins in the middle of an element of 4 bytes, at byte 2$/,
  ],
  [
    'a device for options',
    () => Reflect.construct(Stream, [device]),
    /^options must be an object of options, as in \{ device \}, not Device\(0, sim\)$/,
  ],
  [
    'a path for code',
    () => Module.load('build/kernels.cubin', { device }),
    /^code is 'build\/kernels\.cubin', which is a path and no code: Module\.load\(await readFile\(path\)\)$/,
  ],
  [
    'a path for a source',
    () => Module.load('axpy.cu', { device }),
    /: Program\.compile\(source\) compiles CUDA C\+\+$/,
  ],
]

for (const [mistake, act, message] of MISTAKES) {
  test(`${mistake}: the message says what to write`, async () => {
    await assert.rejects(
      async () => act(),
      (error: unknown) => {
        assert.ok(error instanceof Error)
        assert.match(error.message, message)
        assert.ok(!error.message.includes('\n'), 'the message is one line')
        return true
      },
    )
  })
}
