/** What crosses the border to cuFFT: its functions as its header has them, and what is asked of a C library that pretends to be it. */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { Stream } from 'cuda-streams'
import { Fft, LibraryError } from 'cuda-streams/cufft'
import { LIBRARY_ENTRIES } from '../../../src/foundation/driver/driver-constants.js'
import { CUFFT_DIRECTION, CUFFT_RESULT, CUFFT_SIGNATURES } from '../../../src/libraries/cufft/cufft-library.js'
import { FORMS } from '../../../src/libraries/cufft/fft-shape.js'
import { refused } from '../../conformance/expect.js'
import { against, ledger, rows } from '../c-ledger.js'
import { fakeDevices, fakeLibraries } from '../fake-libraries.js'

describe('the ledger of cuFFT', () => ledger(CUFFT_SIGNATURES))

against('cufft.h', (header) => {
  rows(header, CUFFT_SIGNATURES)
  it('every result and type has its number, and the directions', () => {
    for (const [name, value] of Object.entries(CUFFT_RESULT)) assert.equal(header.enumerator(name), value, name)
    for (const [type, { cufft }] of Object.entries(FORMS)) {
      assert.equal(header.enumerator(`CUFFT_${type.toUpperCase()}`), cufft, type)
    }
    assert.equal(header.macro('CUFFT_INVERSE'), CUFFT_DIRECTION.inverse)
  })
})

const fake = fakeLibraries()
const skip = typeof fake === 'string' ? fake : false

describe('across the border to cuFFT', { skip }, () => {
  if (typeof fake === 'string') return
  const { devices, driver, told } = fakeDevices(1)
  const [device] = devices
  assert.ok(device)
  const stream = new Stream({ device })
  const other = new Stream({ device })
  const [from, to] = [device.alloc(256), device.alloc(256)]
  const hex = (value: bigint): string => value.toString(16)
  /** What was asked, with `area` for the addresses of memory that is not the test's. */
  const said = (): string[] => fake.said().map((line) => line.replace(/^area \w+$/, 'area'))

  afterEach(() => {
    fake.said()
    told.length = 0
  })

  it('a plan has the sizes, the type and the number of arrays, and does not allocate', () => {
    using fft = new Fft({ type: 'd2z', shape: [2, 3, 5], batch: 7, device: stream.device })
    assert.deepEqual(said(), ['create plan', 'auto allocation 0', 'plan 6a of 2 3 5 x7, plain 1'])
    assert.equal(fft.closed, false)
  })

  it('each type has its function, its direction, and the memory of its stream', () => {
    for (const [type, ways] of [
      ['c2c', ['forward', 'inverse']],
      ['z2z', ['forward', 'inverse']],
      ['r2c', ['forward']],
      ['d2z', ['forward']],
      ['c2r', ['inverse']],
      ['z2d', ['inverse']],
    ] as const) {
      using fft = new Fft({ type, shape: [4], device: stream.device })
      said()
      for (const way of ways) {
        fft[way](stream, from, to)
        const direction = ways.length === 2 ? ` ${way === 'forward' ? -1 : 1}` : ''
        const call = `${type.toUpperCase()} ${hex(from.pointer)} ${hex(to.pointer)}${direction}`
        assert.deepEqual(said(), [`stream ${hex(stream.handle)}`, 'area', call])
      }
    }
  })

  it('each stream has its own memory to work in, the same at each transform, and none if the plan needs none', () => {
    using fft = new Fft({ type: 'c2c', shape: [4], device })
    const areaOn = (on: Stream): string | undefined => {
      fake.said()
      fft.forward(on, from)
      return fake.said().find((line) => line.startsWith('area'))
    }
    const [first, second, again] = [areaOn(stream), areaOn(other), areaOn(stream)]
    assert.ok(first !== undefined && second !== undefined)
    assert.equal(first, again)
    assert.notEqual(first, second)
    fake.call('fake_work_bytes', 0)
    using small = new Fft({ type: 'c2c', shape: [2], device: stream.device })
    fake.call('fake_work_bytes', 4096)
    said()
    small.forward(stream, from)
    assert.deepEqual(said().slice(1), [`C2C ${hex(from.pointer)} ${hex(from.pointer)} -1`])
  })

  it('drivers are told which memory is read and written: the input of a transform to real numbers as well', () => {
    const uses = (): unknown[] =>
      told.splice(0).flatMap(({ memory }) => memory.map(({ byteLength, access }) => [byteLength, access]))
    using complex = new Fft({ type: 'c2c', shape: [4], device: stream.device })
    using back = new Fft({ type: 'z2d', shape: [4], device: stream.device })
    complex.forward(stream, from, to).forward(stream, from)
    back.inverse(stream, from, to)
    assert.deepEqual(uses(), [
      ...[
        [32, 'in'],
        [32, 'out'],
        [4096, 'inout'],
      ],
      ...[
        [32, 'inout'],
        [4096, 'inout'],
      ],
      ...[
        [48, 'inout'],
        [32, 'out'],
        [4096, 'inout'],
      ],
    ])
  })

  it('drivers are told how many kernels it may be: more where there are more dimensions', () => {
    using line = new Fft({ type: 'c2c', shape: [8], device: stream.device })
    using cube = new Fft({ type: 'c2c', shape: [2, 2, 2], device: stream.device })
    line.forward(stream, from)
    cube.forward(stream, from)
    assert.deepEqual(
      told.map(({ entries }) => entries),
      [LIBRARY_ENTRIES, 3 * LIBRARY_ENTRIES],
    )
  })

  it('host functions run before a plan is made, and before the first transform of a kind', () => {
    const drains = (act: () => unknown): number => {
      const before = driver.drained
      act()
      return driver.drained - before
    }
    using fft = new Fft({ type: 'c2c', shape: [9], device: stream.device })
    using same = new Fft({ type: 'c2c', shape: [9], device: stream.device })
    assert.equal(
      drains(() => new Fft({ type: 'c2c', shape: [9], device: stream.device }).close()),
      1,
    )
    assert.equal(
      drains(() => fft.forward(stream, from, to)),
      1,
    )
    assert.equal(
      drains(() => fft.forward(stream, from, to)),
      0,
    )
    assert.equal(
      drains(() => same.forward(stream, from, to)),
      0,
    )
    assert.equal(
      drains(() => fft.inverse(stream, from, to)),
      1,
    )
    assert.equal(
      drains(() => fft.forward(stream, from)),
      1,
    )
    assert.equal(
      drains(() => fft.forward(stream, from.subarray(8, 136), to)),
      1,
    )
  })

  it('a closed plan is destroyed when the next is made, and one that cuFFT refuses at once', () => {
    // Those of the other tests.
    new Fft({ type: 'c2c', shape: [2], device: stream.device }).close()
    new Fft({ type: 'c2c', shape: [2], device: stream.device }).close()
    said()
    new Fft({ type: 'c2c', shape: [2], device: stream.device }).close()
    assert.deepEqual(said(), ['destroy plan', 'create plan', 'auto allocation 0', 'plan 29 of 2 x1, plain 1'])
    fake.nextStatus(8)
    assert.throws(
      () => new Fft({ type: 'c2c', shape: [2], device: stream.device }),
      (error) =>
        error instanceof LibraryError &&
        error.code === 'CUFFT_INVALID_SIZE' &&
        error.call === 'cufftMakePlanMany64' &&
        error.number === 8,
    )
    assert.equal(said().at(-1), 'destroy plan')
  })

  it('a transform that is refused allocates no memory to work in', () => {
    using fft = new Fft({ type: 'c2c', shape: [11], device: stream.device })
    const before = device.memoryPool.used
    stream.launchHostFunc(() => refused(() => fft.forward(stream, from), 'ERR_DEADLOCK'))
    stream.synchronize()
    assert.equal(device.memoryPool.used, before)
    fft.forward(stream, from)
    assert.equal(device.memoryPool.used, before + 4096)
  })

  it('what a host function closes that is run first is not used any more', () => {
    using fft = new Fft({ type: 'z2z', shape: [9], device: stream.device })
    driver.whileDrained = () => fft.close()
    try {
      fake.said()
      refused(() => fft.forward(stream, from), 'ERR_CLOSED')
      assert.deepEqual(fake.said(), [])
    } finally {
      driver.whileDrained = undefined
    }
  })
})
