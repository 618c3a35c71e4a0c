/**
 * What crosses the border to cuRAND: its functions as its header has them, what is asked of a C library that pretends to be it, and
 * where cuRAND is installed, its generator on the host against the simulator's. That one needs no GPU.
 */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { Stream } from 'cuda-streams'
import { LibraryError, RandomGenerator } from 'cuda-streams/curand'
import { VARIABLES } from '../../../src/foundation/base/environment-variables.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'
import { loadLibrary, type SharedLibrary } from '../../../src/foundation/native/shared-library.js'
import {
  CURAND_SIGNATURES,
  CURAND_STATUS,
  ORDERING_LEGACY,
  PHILOX4_32_10,
} from '../../../src/libraries/curand/curand-library.js'
import { type Distribution, Philox } from '../../../src/libraries/curand/philox.js'
import { declareFunctions } from '../../../src/libraries/library-call.js'
import { against, ledger, rows } from '../c-ledger.js'
import { fakeDevices, fakeLibraries } from '../fake-libraries.js'

describe('the ledger of cuRAND', () => ledger(CURAND_SIGNATURES))

against('curand.h', (header) => {
  rows(header, CURAND_SIGNATURES)
  it('every status has its number, the generator and the order', () => {
    for (const [name, value] of Object.entries(CURAND_STATUS)) assert.equal(header.enumerator(name), value, name)
    assert.equal(header.enumerator('CURAND_RNG_PSEUDO_PHILOX4_32_10'), PHILOX4_32_10)
    assert.equal(header.enumerator('CURAND_ORDERING_PSEUDO_LEGACY'), ORDERING_LEGACY)
  })
})

/** cuRAND itself, before the variable names a fake. */
function installed(): SharedLibrary | string {
  try {
    return loadLibrary(VARIABLES.curand)
  } catch (error) {
    return (error as Error).message
  }
}

const library = installed()
if (typeof library === 'string') console.log(`skipped: ${library}`)

describe("against cuRAND's generator on the host", { skip: typeof library === 'string' ? library : false }, () => {
  if (typeof library === 'string') return
  const { curandCreateGenerator, ...others } = CURAND_SIGNATURES
  const functions = declareFunctions(library, {
    ...others,
    curandCreateGeneratorHost: curandCreateGenerator.replace('Generator(', 'GeneratorHost('),
  })
  const COUNT = 262_144 + 37
  const memory = new NativeMemory(8 * COUNT)
  const generators = new NativeMemory(8)
  const cases: readonly (readonly [
    Distribution,
    keyof typeof functions,
    numbers: readonly number[],
    allowed: number,
  ])[] = [
    [{ of: 'bits', type: 'u32' }, 'curandGenerate', [], 0],
    [{ of: 'uniform', type: 'f32' }, 'curandGenerateUniform', [], 0],
    [{ of: 'uniform', type: 'f64' }, 'curandGenerateUniformDouble', [], 0],
    [{ of: 'normal', type: 'f32', mean: 3, stddev: 2 }, 'curandGenerateNormal', [3, 2], 5e-7],
    [{ of: 'normal', type: 'f64', mean: 3, stddev: 2 }, 'curandGenerateNormalDouble', [3, 2], 1e-14],
    [{ of: 'logNormal', type: 'f32', mean: 0, stddev: 0.5 }, 'curandGenerateLogNormal', [0, 0.5], 5e-7],
    [{ of: 'logNormal', type: 'f64', mean: 0, stddev: 0.5 }, 'curandGenerateLogNormalDouble', [0, 0.5], 1e-14],
  ]
  for (const [distribution, call, numbers, allowed] of cases) {
    it(`${distribution.of} of ${distribution.type}: ${allowed === 0 ? 'every bit' : `within ${allowed}`}`, () => {
      for (const [seed, offset] of [
        [1234, 0],
        [2 ** 53 - 1, 3],
        [7, 262_141],
        [7, 2 ** 40],
      ] as const) {
        assert.equal(functions.curandCreateGeneratorHost(generators.address, PHILOX4_32_10), 0)
        const generator = generators.pointerAt(0)
        functions.curandSetGeneratorOrdering(generator, ORDERING_LEGACY)
        functions.curandSetPseudoRandomGeneratorSeed(generator, seed)
        functions.curandSetGeneratorOffset(generator, offset)
        const mine = new Philox(seed, offset)
        // Odd lengths end in the middle of a group, where the next call goes on.
        for (const count of allowed === 0 ? [COUNT, 1, 6, 3] : [COUNT - 1, 2, 6]) {
          const width = distribution.type === 'f64' ? 8 : 4
          assert.equal(functions[call](generator, memory.address, count, ...numbers), 0)
          const expected = memory.bytes.slice(0, count * width)
          const got = new Uint8Array(count * width)
          mine.generate(distribution, got)
          if (allowed === 0) assert.equal(Buffer.compare(got, expected), 0, `${count} from ${offset}, seed ${seed}`)
          else
            assert.ok(
              farthest(got, expected, width) <= allowed,
              `${count} from ${offset}: ${farthest(got, expected, width)}`,
            )
        }
        functions.curandDestroyGenerator(generator)
      }
    })
  }

  function farthest(got: Uint8Array, expected: Uint8Array, width: number): number {
    const numbersOf = ({ buffer }: Uint8Array) => (width === 8 ? new Float64Array(buffer) : new Float32Array(buffer))
    const [one, other] = [numbersOf(got), numbersOf(expected)]
    let most = 0
    for (const [index, value] of one.entries()) {
      most = Math.max(most, Math.abs(value - (other[index] ?? 0)) / Math.max(1, Math.abs(value)))
    }
    return most
  }
})

const fake = fakeLibraries()
const skip = typeof fake === 'string' ? fake : false

describe('across the border to cuRAND', { skip }, () => {
  if (typeof fake === 'string') return
  const { devices, driver, told } = fakeDevices(1)
  const [device] = devices
  assert.ok(device)
  const stream = new Stream({ device })
  const buffer = device.alloc(4096)
  const hex = (value: bigint): string => value.toString(16)
  const drains = (act: () => unknown): number => {
    const before = driver.drained
    act()
    return driver.drained - before
  }

  afterEach(() => {
    fake.said()
    told.length = 0
  })

  it('a generator is Philox in the order that remains, with its seed and its offset', () => {
    using generator = new RandomGenerator({ seed: 2 ** 53 - 1, offset: 2 ** 40, device: stream.device })
    assert.deepEqual(fake.said(), [
      'create generator 161',
      'order 103',
      'seed 9007199254740991',
      'offset 1099511627776',
    ])
    assert.equal(generator.closed, false)
  })

  it('each call has its function, with the numbers by value', () => {
    using generator = new RandomGenerator({ device: stream.device })
    const half = buffer.subarray(16, 80)
    fake.said()
    generator.bits(stream, half).uniform(stream, half).uniform(stream, half, { type: 'f64' })
    generator.normal(stream, half, { mean: 0.5, stddev: 2 }).normal(stream, half, { type: 'f64', mean: 0.1 })
    generator.logNormal(stream, half, { mean: -1.5 }).logNormal(stream, half, { type: 'f64', stddev: 0.25 })
    const at = hex(half.pointer)
    const said = fake.said()
    assert.deepEqual(new Set(said.filter((_line, index) => index % 2 === 0)), new Set([`stream ${hex(stream.handle)}`]))
    const calls = said.filter((_line, index) => index % 2 === 1)
    assert.deepEqual(calls, [
      ...[`generate ${at} 16`, `generateUniform ${at} 16`, `generateUniformDouble ${at} 8`],
      ...[`generateNormal ${at} 16 0.5 2`, `generateNormalDouble ${at} 8 0.1 1`],
      ...[`generateLogNormal ${at} 16 -1.5 1`, `generateLogNormalDouble ${at} 8 0 0.25`],
    ])
    assert.deepEqual(
      told.map(({ memory }) => memory.map(({ byteLength, access }) => [byteLength, access])),
      Array(7).fill([[64, 'out']]),
    )
  })

  it('host functions run before a generator is made, before its first numbers, and before the first of a kind', () => {
    using generator = new RandomGenerator({ device: stream.device })
    using another = new RandomGenerator({ device: stream.device })
    assert.equal(
      drains(() => new RandomGenerator({ device: stream.device }).close()),
      1,
    )
    assert.equal(
      drains(() => generator.bits(stream, buffer.subarray(0, 96))),
      1,
    )
    assert.equal(
      drains(() => generator.bits(stream, buffer.subarray(0, 96))),
      1,
    )
    assert.equal(
      drains(() => generator.bits(stream, buffer.subarray(0, 96))),
      0,
    )
    assert.equal(
      drains(() => another.bits(stream, buffer.subarray(0, 96))),
      1,
    )
    assert.equal(
      drains(() => another.bits(stream, buffer.subarray(0, 96))),
      0,
    )
    assert.equal(
      drains(() => another.bits(stream, buffer.subarray(4, 100))),
      1,
    )
    assert.equal(
      drains(() => another.uniform(stream, buffer.subarray(0, 96))),
      1,
    )
  })

  it('a closed generator is destroyed when the next is made, and one that cuRAND refuses at once', () => {
    new RandomGenerator({ device: stream.device }).close()
    new RandomGenerator({ device: stream.device }).close()
    fake.said()
    new RandomGenerator({ device: stream.device }).close()
    assert.equal(fake.said()[0], 'destroy generator')
    fake.nextStatus(203)
    assert.throws(
      () => new RandomGenerator({ device: stream.device }),
      (error) =>
        error instanceof LibraryError &&
        error.code === 'CURAND_STATUS_INITIALIZATION_FAILED' &&
        error.call === 'curandSetPseudoRandomGeneratorSeed',
    )
    assert.equal(fake.said().at(-1), 'destroy generator')
  })
})
