/** A host implementation that writes where its launch only reads, outside of its slice, or beyond its views is told so; others never. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type DefinedKernel, type DeviceBuffer, defineKernel, Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
import { collectingUncaught } from '../../src/foundation/base/uncaught.js'

const KIB = 1024

function machine() {
  const [device] = simulate().devices
  assert.ok(device)
  return { device, stream: new Stream({ device }) }
}

/** What surfaces as an uncaught exception, by the time the stream is done. */
async function told(stream: Stream, queue: () => void): Promise<string[]> {
  const errors: string[] = []
  await collectingUncaught(
    (error) => errors.push(`${Reflect.get(error as object, 'code')}: ${(error as Error).message}`),
    async () => {
      queue()
      stream.synchronize()
    },
  )
  return errors
}

type Signature = readonly ['in u32*', 'out u32*', 'u32']

const kernelOf = (simulateGrid: (from: Uint32Array, to: Uint32Array) => unknown): DefinedKernel<Signature> =>
  defineKernel({
    name: 'k',
    source: '',
    signature: ['in u32*', 'out u32*', 'u32'],
    simulateGrid: (_grid, from, to) => void simulateGrid(from, to),
  })

type Launch = (from: DeviceBuffer, to: DeviceBuffer) => readonly [DeviceBuffer, DeviceBuffer]
const whole: Launch = (from, to) => [from, to]
const slices: Launch = (from, to) => [from.subarray(64, 96), to.subarray(128, 160)]

const WRONG: Readonly<Record<string, readonly [(from: Uint32Array, to: Uint32Array) => unknown, Launch, RegExp]>> = {
  'the first element of what it reads': [
    (from) => from.fill(9, 0, 0 + 1),
    whole,
    /^ERR_INVALID_ARG_VALUE: .*kernel k writes byte 0 of the 4096 of argument 0, 'in u32\*', which it may only read. Say 'inout'/,
  ],
  'the last element': [
    (from) => from.fill(9, 1023, 1023 + 1),
    whole,
    /byte 4092 of the 4096 of argument 0, 'in u32\*'/,
  ],
  'a slice that it reads': [(from) => from.fill(9, 2, 2 + 1), slices, /byte 8 of the 32 of argument 0, 'in u32\*'/],
  'the allocation of which it has a slice': [
    (_, to) => new Uint32Array(to.buffer).fill(9, 0, 1),
    slices,
    /outside of the memory that it was given, at byte 0 of the allocation. The \.buffer of a view/,
  ],
  'behind its slice': [
    (_, to) => new Uint32Array(to.buffer, to.byteOffset).fill(9, 8, 9),
    slices,
    /outside of the memory that it was given, at byte 160 of the allocation/,
  ],
  'what it reads and writes, as two arguments': [
    (from) => from.fill(9, 200, 200 + 1),
    (from) => [from, from.subarray(0, 400)],
    /byte 800 of the 4096 of argument 0/,
  ],
}

const RIGHT: Readonly<Record<string, readonly [(from: Uint32Array, to: Uint32Array) => unknown, Launch]>> = {
  'what it is to write': [(from, to) => to.set(from), whole],
  'all of its slice': [(from, to) => to.set(from), slices],
  'in place': [(from, to) => to.set(from.map((value) => value + 1)), (from) => [from, from]],
  'two slices of one allocation': [
    (from, to) => to.set(from),
    (from) => [from.subarray(0, 512), from.subarray(512, 1024)],
  ],
}

describe('a host implementation on the simulator', () => {
  for (const [what, [act, launch, expected]] of Object.entries(WRONG)) {
    it(`is told that it writes ${what}`, async () => {
      const { device, stream } = machine()
      const [from, to] = launch(device.alloc(4 * KIB, { stream }), device.alloc(4 * KIB, { stream }))
      const [first = '', ...others] = await told(stream, () =>
        stream.launch(kernelOf(act), { grid: 1, block: 1 }, from, to, 0),
      )
      assert.match(first, expected)
      assert.deepEqual(others, [])
    })
  }

  for (const [what, [act, launch]] of Object.entries(RIGHT)) {
    it(`may write ${what}`, async () => {
      const { device, stream } = machine()
      const [from, to] = launch(device.alloc(4 * KIB, { stream }), device.alloc(4 * KIB, { stream }))
      stream.fill(from, 5).fill(to, 6)
      const launched = () => stream.launch(kernelOf(act), { grid: 1, block: 1 }, from, to, 0)
      assert.deepEqual(await told(stream, launched), [])
    })
  }

  it('may queue work, and wait for work, that changes the memory that it reads', async () => {
    const { device, stream } = machine()
    const other = new Stream({ device })
    const [from, to] = [device.alloc(4 * KIB, { stream }), device.alloc(4 * KIB, { stream })]
    const kernel = kernelOf(() => {
      other.fill(from, 9)
      other.synchronize()
    })
    assert.deepEqual(await told(stream, () => stream.launch(kernel, { grid: 1, block: 1 }, from, to, 0)), [])
  })

  it('of long memory is compared at both ends, and in full under a sanitizer', async () => {
    const { device, stream } = machine()
    const [from, to] = [device.alloc(KIB * KIB, { stream }), device.alloc(4, { stream })]
    const writes = (at: number) => () =>
      stream.launch(
        kernelOf((view) => view.fill(9, at, at + 1)),
        { grid: 1, block: 1 },
        from,
        to,
        0,
      )
    const [ends, middle] = [[0, KIB, 256 * KIB - 1], 128 * KIB]
    for (const at of ends) assert.match((await told(stream, writes(at))).join(), new RegExp(`byte ${4 * at} of`))
    assert.deepEqual(await told(stream, writes(middle)), [])
    using _sanitizer = Sanitizer.start({ device })
    assert.match((await told(stream, writes(middle + 1))).join(), new RegExp(`byte ${4 * middle + 4} of`))
  })

  it('of external work is told the same', async () => {
    const { device, stream } = machine()
    const buffer = device.alloc(64, { stream })
    const work = {
      name: 'theirs',
      memory: [{ buffer, access: 'in' }],
      simulate: ([bytes]: readonly Uint8Array[]) => void bytes?.fill(1, 7),
    } as const
    const queue = () => stream.external(work, () => {})
    assert.match(
      (await told(stream, queue)).join(),
      /theirs writes byte 7 of the 64 of memory\[0\], which it may only read/,
    )
    using _sanitizer = Sanitizer.start({ device })
    stream.fill(buffer, 0)
    assert.match((await told(stream, queue)).join(), /theirs writes byte 7 of the 64/)
  })
})

describe('a thread of a host implementation', () => {
  const setOwn = (at: number, x: Float32Array): void => {
    x[at] = at
  }
  const LENGTH = 1000
  const launched = async (simulate: (globalX: number, x: Float32Array, one: Int32Array) => unknown, block = 256) => {
    const { device, stream } = machine()
    const [x, one] = [device.alloc(4 * LENGTH, { stream }), device.alloc(4, { stream })]
    stream.fill(x, 0).fill(one, 0)
    const kernel = defineKernel({
      name: 'k',
      source: '',
      signature: ['inout f32*', 'inout i32*'],
      simulate: ({ globalX }, floats, integers) => simulate(globalX, floats, integers),
    })
    const errors = await told(stream, () => stream.launch(kernel, { grid: Math.ceil(LENGTH / block), block }, x, one))
    return { errors, one: new Int32Array((await stream.download(one)).buffer)[0] }
  }

  it('that has no element is told so where it reads or writes one', async () => {
    const write = await launched(setOwn)
    assert.equal(write.errors.length, 1)
    assert.match(
      write.errors[0] ?? '',
      /^ERR_OUT_OF_RANGE: The element of argument 0, 'inout f32\*', that kernel 'k' writes must be from 0 to 999 \(.*return early: if \(globalX >= n\) return\), not 1000$/,
    )
    const read = await launched((at, x) => x[at])
    assert.match(read.errors.join(), /kernel 'k' reads must be from 0 to 999/)
    const negative = await launched((at, x) => at >= LENGTH && x[LENGTH - at - 1])
    assert.match(negative.errors.join(), /not -1$/)
  })

  it('that returns early, or has something else to do, is right; so is a launch that fits', async () => {
    assert.deepEqual((await launched((at, x) => at < x.length && setOwn(at, x))).errors, [])
    assert.deepEqual((await launched(setOwn, 250)).errors, [])
    const counted = await launched((_, __, one) => one.set([(one[0] ?? 0) + 1]))
    assert.deepEqual(counted, { errors: [], one: 1024 })
    const methods = await launched((_, x, one) => {
      assert.ok(x instanceof Float32Array)
      assert.equal(x.subarray(1).length, LENGTH - 1)
      assert.equal([...one].length, 1)
      assert.equal(new DataView(one.buffer, one.byteOffset).byteLength, 4)
      one.set([...one].map((value) => value + 1))
    })
    assert.deepEqual(methods, { errors: [], one: 1024 })
  })
})
