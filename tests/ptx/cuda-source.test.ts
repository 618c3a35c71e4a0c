/** Kernels that NVRTC compiles when the tests run, optimised and for debuggers: what its present version makes of them runs. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { compileCudaNow } from '../../src/foundation/native/nvrtc.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { root } from '../helpers/root.js'
import { faultOf } from './faults.js'
import { integers, Machine, type NumericArray, type TestLaunch } from './machine.js'

const skip = lacksNvrtc()
const FILE = join(root, 'tests/ptx/kernels/compiled.cu')
const texts = new Map<string, string>()

interface SourceCase {
  /** What is guaranteed. */
  readonly title: string
  readonly kernel: string
  readonly launch: TestLaunch
  readonly parameters: () => readonly NumericArray[]
  /** Given the arrays as the kernel left them. */
  readonly check: (...after: readonly NumericArray[]) => void
  /** Those that have the instructions. Default: all. */
  readonly architectures?: readonly string[]
}

const numbers = (count: number): Int32Array => new Int32Array(count)
const all = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))
const values = (array: NumericArray | undefined): unknown[] => [...(array ?? [])]

const CASES: readonly SourceCase[] = [
  {
    title: 'integers of 128 bits divide: a subtraction leaves the flag that addc takes',
    kernel: 'divide_128',
    launch: { block: 32 },
    parameters: () => [
      BigUint64Array.from(integers(96, 2 ** 31), (each, i) => BigInt(each) ** 2n * (i % 3 === 2 ? 1n : 3n) + 1n),
      new BigUint64Array(96),
    ],
    check: (a, out) => {
      const given = values(a) as bigint[]
      const expected = all(32, (i) => {
        const [high = 0n, low = 0n, by = 1n] = given.slice(3 * i)
        const whole = (high << 64n) | low
        return [BigInt.asUintN(64, (whole / by) >> 64n), BigInt.asUintN(64, whole / by), whole % by]
      })
      assert.deepEqual(values(out), expected.flat())
    },
  },
  {
    title: 'a block that looks for a flag between barriers lets the block run that sets it',
    kernel: 'flag_between_barriers',
    launch: { grid: 12, block: 64 },
    parameters: () => [numbers(12), numbers(12)],
    check: (_flags, out) =>
      assert.deepEqual(
        values(out),
        all(12, (i) => i),
      ),
  },
  {
    title: 'warps that look for a flag with shuffles let each other run',
    kernel: 'flag_by_shuffles',
    launch: { block: 64 },
    parameters: () => [numbers(64)],
    check: (out) => assert.ok(values(out).every((each) => each === 10)),
  },
  {
    title: 'a loop that waits through a call lets the thread run that it waits for',
    kernel: 'wait_in_call',
    launch: { block: 64 },
    parameters: () => [numbers(64), numbers(64)],
    check: (_flags, out) =>
      assert.deepEqual(
        values(out),
        all(64, (i) => i),
      ),
  },
  {
    title: 'activemask in a function has the lanes of its caller, not those of another branch',
    kernel: 'active_in_call',
    launch: { block: 32 },
    parameters: () => [Int32Array.from(all(32, (i) => i)), numbers(32)],
    check: (_in, out) => {
      // Both branches write the lanes whose number is no multiple of 3.
      const mask = all(32, (i) => (i % 3 === 0 ? 0 : 1 << i)).reduce((a, b) => a | b)
      assert.ok(values(out).every((each) => each === mask))
    },
  },
  {
    title: 'the arrival of asynchronous copies is awaited besides, unless it says noinc',
    architectures: ['sm_80', 'sm_90'],
    kernel: 'copies_arrive',
    launch: { block: 32 },
    parameters: () => [Int32Array.from(all(32, (i) => i)), numbers(32)],
    check: (_in, out) =>
      assert.deepEqual(
        values(out),
        all(32, (i) => 31 - i),
      ),
  },
  {
    title: 'the shared memory that CUDA reserves for its headers belongs to the block, beside its own',
    architectures: ['sm_80', 'sm_90'],
    kernel: 'reserved_shared',
    launch: { block: 32 },
    parameters: () => [numbers(32)],
    check: (out) =>
      assert.deepEqual(
        values(out),
        all(32, (i) => 7 * (31 - i) + i),
      ),
  },
  {
    title: 'minima and maxima that are at least zero run, as NVRTC writes them',
    architectures: ['sm_75', 'sm_90'],
    kernel: 'at_least_zero',
    launch: { block: 32 },
    parameters: () => [integers(32, 1000), numbers(64)],
    check: (given, out) => {
      const a = (i: number): number => Number(given?.[i]) - 500
      const least = (x: number, y: number): number => Math.max(0, Math.min(x, y))
      const expected = all(32, (i) => {
        const [x, y] = [a(i), a(31 - i)]
        return [Math.max(0, x + y), (least(x, y) << 16) | least(y, 5)]
      })
      assert.deepEqual(values(out), expected.flat())
    },
  },
]

const DEBUG = [[], ['-G']]

for (const { title, kernel, launch, parameters, check, architectures = ['sm_75', 'sm_90'] } of CASES) {
  for (const architecture of architectures) {
    for (const debug of DEBUG) {
      test(`${title} (${[architecture, ...debug]})`, { skip }, () => {
        const machine = new Machine()
        const module = machine.load(compiled(architecture, debug))
        const arrays = parameters()
        const addresses = arrays.map((each) => machine.put(each))
        machine.run(module, kernel, launch, addresses)
        check(...arrays.map((each, index) => machine.get(addresses[index] ?? 0, each)))
      })
    }
  }
}

const ENDLESS = { 'meets at barriers': 'endless_barriers', shuffles: 'endless_shuffles', calculates: 'endless_sums' }

for (const [what, kernel] of Object.entries(ENDLESS)) {
  test(`a kernel that ${what} forever ends at the limit`, { skip }, () => {
    const machine = new Machine()
    const module = machine.load(compiled('sm_75', []))
    const out = machine.put(numbers(2))
    const fault = faultOf(() => machine.run(module, kernel, { grid: 2, block: 64, instructionLimit: 1e7 }, [out]))
    assert.equal(fault.code, 'CUDA_ERROR_LAUNCH_TIMEOUT')
  })
}

test('printf writes a null pointer as the C library does', { skip }, () => {
  const machine = new Machine()
  let text = ''
  const print = (more: string): void => {
    text += more
  }
  machine.run(machine.load(compiled('sm_75', [])), 'null_pointer', { print }, [])
  assert.equal(text, '(nil) 0x12')
})

function compiled(architecture: string, debug: readonly string[]): string {
  const key = `${architecture} ${debug}`
  const known = texts.get(key)
  if (known !== undefined) return known
  const options = [`--gpu-architecture=${architecture}`, ...debug, '--device-int128']
  const source = { text: readFileSync(FILE, 'utf8'), file: 'compiled.cu', options }
  const text = new TextDecoder().decode(compileCudaNow(source, 'ptx')).replace(/\0$/, '')
  texts.set(key, text)
  return text
}
