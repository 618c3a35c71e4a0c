/** Each form of the table computes what the reference says, on special and random operands. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Machine } from '../machine.js'
import { allCases, type FormCase, inputsOf, isNew, keyOf, operandsFor, ptxOfCases, SPECIAL } from './cases.js'
import { decodeFloat, FORMATS, toNumber } from './exact.js'
import { COUNT, digestOf, load, RECORDING } from './recording.js'
import { type Answer, reference, widthOf } from './reference.js'

const BATCH = 64
/** Threads of a launch at most. */
const BLOCK = 1024

/** add.cc and its like: the sum and the carry, by definition. A subtraction adds the complement: it carries where it borrows nothing. */
function carryReference(each: FormCase, o: Readonly<Record<string, bigint>>, thread: number): Answer {
  const { form, modifiers } = each
  const width = BigInt(widthOf(modifiers['T'] ?? 'u32'))
  // The kernel makes a carry in odd threads: seed - 1 = seed + 0xffffffff.
  const carry = thread % 2 === 1 ? 1n : 0n
  const takes = /c$/.test(form.opcode)
  const writes = each.text.split('.').includes('cc')
  const { a = 0n, b = 0n, c = 0n } = o
  let [x, y] = [a, b]
  if (form.opcode.startsWith('mad')) {
    const sign = modifiers['T']?.startsWith('s') ? BigInt.asIntN : BigInt.asUintN
    const product = sign(Number(width), a) * sign(Number(width), b)
    x = BigInt.asUintN(Number(width), modifiers['H'] === 'hi' ? product >> width : product)
    y = c
  }
  const subtracts = form.opcode.startsWith('sub')
  const total = subtracts ? x - y - (takes ? 1n - carry : 0n) : x + y + (takes ? carry : 0n)
  const out = subtracts ? (total < 0n ? 0n : 1n) : total >> width
  return { kind: 'bits', results: [total, writes ? out : carry] }
}

function answerTo(each: FormCase, operands: Readonly<Record<string, bigint>>, thread: number): Answer {
  const { meaning, opcode, pattern } = each.form
  if (meaning.kind === 'code' && meaning.code === 'carry') return carryReference(each, operands, thread)
  return reference(opcode, { ...each.modifiers, __pattern: pattern }, each.types, operands)
}

const allowedError = (answer: Extract<Answer, { kind: 'about' }>): number =>
  answer.absolute + answer.relative * Math.abs(answer.value)

/** `operands` says what they were, where the answer is wrong. */
function check(each: FormCase, answer: Answer, actual: readonly bigint[], operands: () => string): void {
  const width = widthOf(each.types['d'] ?? 'b32')
  if (answer.kind === 'open') return
  if (answer.kind === 'bits') {
    answer.results.forEach((expected, index) => {
      if (each.form.opcode === 'setp' && index >= each.results) return
      const bits = index === 0 || each.form.opcode === 'setp' ? width : 32
      const [is, shall] = [BigInt.asUintN(bits, actual[index] ?? 0n), BigInt.asUintN(bits, expected)]
      if (is !== shall)
        assert.fail(
          `${each.text}, result ${index}, of ${operands()}: 0x${is.toString(16)}, not 0x${shall.toString(16)}`,
        )
    })
    return
  }
  const value = toNumber(decodeFloat(BigInt.asUintN(width, actual[0] ?? 0n), FORMATS[answer.format]))
  const error = Math.abs(value - answer.value)
  const overflow =
    !Number.isFinite(value) &&
    Math.abs(answer.value) >= (answer.format === 'f16' ? 65504 : answer.format === 'f64' ? 1e308 : 3.3e38)
  const right =
    Object.is(value, answer.value) ||
    (Number.isNaN(value) && Number.isNaN(answer.value)) ||
    error <= allowedError(answer) ||
    overflow
  if (!right) assert.fail(`${each.text} gives ${value} instead of ${answer.value}, of ${operands()}`)
}

const cases = allCases()

/** The operands of a thread, by name. */
function operandsOf(each: FormCase, operands: BigUint64Array, thread: number): Readonly<Record<string, bigint>> {
  const names = inputsOf(each)
  const given = Object.fromEntries(names.map((name, at) => [name, operands[thread * names.length + at] ?? 0n]))
  return { ...each.constants, ...given }
}

function shownOperands(each: FormCase, operands: BigUint64Array, thread: number): string {
  const entries = Object.entries(operandsOf(each, operands, thread))
  return entries.map(([name, value]) => `${name}=0x${value.toString(16)}`).join(' ')
}

interface Outcome {
  readonly each: FormCase
  readonly operands: BigUint64Array
  /** Two words of 64 bits for each thread. */
  readonly results: BigUint64Array
}

const outcomes = new Map<number, readonly Outcome[]>()

/** What the engine makes of a batch of cases; each is run once. */
function outcomesOf(begin: number): readonly Outcome[] {
  const known = outcomes.get(begin)
  if (known !== undefined) return known
  const machine = new Machine()
  const batch = cases.slice(begin, begin + BATCH)
  const module = machine.load(ptxOfCases(batch))
  const made = batch.map((each, index) => {
    const operands = operandsFor(each, COUNT)
    const outputs = machine.put(new BigUint64Array(2 * COUNT))
    machine.run(module, `k${index}`, { block: COUNT }, [machine.put(operands), outputs, COUNT])
    return { each, operands, results: machine.get(outputs, new BigUint64Array(2 * COUNT)) }
  })
  outcomes.set(begin, made)
  return made
}

test(`the table has cases for ${cases.length} forms`, () => {
  assert.ok(cases.length > 1500)
})

const BEGINNINGS = Array.from({ length: Math.ceil(cases.length / BATCH) }, (_, batch) => batch * BATCH)

for (const begin of BEGINNINGS) {
  const batch = cases.slice(begin, begin + BATCH)
  const names = [...new Set(batch.map(({ form }) => form.opcode))].join(', ')
  test(`forms of ${names} are right bit for bit (from case ${begin})`, () => {
    for (const { each, operands, results } of outcomesOf(begin)) {
      for (let thread = 0; thread < COUNT; thread++) {
        const answer = answerTo(each, operandsOf(each, operands, thread), thread)
        const actual = [results[2 * thread] ?? 0n, results[2 * thread + 1] ?? 0n]
        check(each, answer, actual, () => shownOperands(each, operands, thread))
      }
    }
  })
}

/** Where positions, lengths and steps begin and end. */
const ENDS = [0n, 31n, 32n, 37n, 64n, 0x80000000n, 0xffffffffn]
/** What the operands of a case are tried with: all pairs and triples of ends, and special floats where there is one operand. */
function triedWith(each: FormCase): readonly (readonly bigint[])[] {
  const lists = inputsOf(each).map((name, _, { length }) => {
    const type = each.types[name] ?? 'b32'
    if (length === 1 && SPECIAL[type] !== undefined) return SPECIAL[type]
    // An operand of 64 bits that is negative in 32 is so, too.
    return /^[busd]\d+$/.test(type) ? ENDS.map((end) => BigInt.asUintN(widthOf(type), BigInt.asIntN(32, end))) : []
  })
  return lists.some((list) => list.length === 0) ? [] : lists
}

test('forms are right for each special value, and forms of integers for every combination of ends', () => {
  const tried = cases.filter((each) => triedWith(each).length > 0)
  for (let begin = 0; begin < tried.length; begin += BATCH) {
    const machine = new Machine()
    const batch = tried.slice(begin, begin + BATCH)
    const module = machine.load(ptxOfCases(batch))
    for (const [index, each] of batch.entries()) {
      const lists = triedWith(each)
      const count = lists.reduce((product, list) => product * list.length, 1)
      const all = Array.from({ length: count }, (_, thread) => {
        let rest = thread
        return lists.map((list) => {
          const value = list[rest % list.length] ?? 0n
          rest = Math.floor(rest / list.length)
          return value
        })
      })
      const operands = BigUint64Array.from(all.flat())
      const [inputs, outputs] = [machine.put(operands), machine.put(new BigUint64Array(2 * count))]
      for (let from = 0; from < count; from += BLOCK) {
        const block = Math.min(BLOCK, count - from)
        machine.run(module, `k${index}`, { block }, [inputs + 8 * lists.length * from, outputs + 16 * from, block])
      }
      const results = machine.get(outputs, new BigUint64Array(2 * count))
      for (let thread = 0; thread < count; thread++) {
        const answer = answerTo(each, operandsOf(each, operands, thread), thread)
        const actual = [results[2 * thread] ?? 0n, results[2 * thread + 1] ?? 0n]
        check(each, answer, actual, () => shownOperands(each, operands, thread))
      }
    }
  }
})

const { header, cases: recorded } = load(RECORDING)

/** Cases that the recording lacks though the GPU has the form. It shrinks when record.ts is run again. */
const UNRECORDED: readonly string[] = []
/**
 * Generated NaN of f64 are the processor's own: those of x86 under V8 are the GPU's. Of two NaN operands a GPU takes one that is signalling,
 * x86 the first.
 */
const hasNaNsOfGpu = process.arch === 'x64' && process.versions['bun'] === undefined

test('the recording of a GPU has every case but those that are listed, with these operands', () => {
  const expected = cases.filter((each) => !isNew(each))
  const missing = expected.filter((each) => recorded.get(keyOf(each))?.operands !== digestOf(each)).map(keyOf)
  assert.deepEqual(missing, UNRECORDED)
  const keys = new Set(expected.map(keyOf))
  const unknown = [...recorded.keys()].filter((key) => !keys.has(key))
  assert.deepEqual(unknown, [], 'recorded, but no case')
})

const NAME = `an ${header.device} gave, driver ${header.driverVersion}`

test(`each form gives the bits that ${NAME}`, () => {
  for (const { each, operands, results } of BEGINNINGS.flatMap(outcomesOf)) {
    const known = recorded.get(keyOf(each))
    if (known === undefined) continue
    for (let thread = 0; thread < COUNT; thread++) {
      const own = wordsOf(results, thread)
      const gpu = wordsOf(known.results, thread)
      const given = operandsOf(each, operands, thread)
      if (own.first === gpu.first && own.second === gpu.second) continue
      if (each.types['d'] === 'f64' && isNaN64(own.first) && isNaN64(gpu.first)) {
        const ofTwo =
          Object.entries(given).filter(([name, bits]) => each.types[name] === 'f64' && isNaN64(bits)).length > 1
        if (ofTwo || !hasNaNsOfGpu) continue
      }
      assert.fail(
        `${each.text} of ${shownOperands(each, operands, thread)} gives ${own.text}; the GPU gave ${gpu.text}`,
      )
    }
  }
})

function wordsOf(results: BigUint64Array, thread: number) {
  const [first = 0n, second = 0n] = results.subarray(2 * thread, 2 * thread + 2)
  return { first, second, text: `0x${first.toString(16)}${second === 0n ? '' : `, 0x${second.toString(16)}`}` }
}

const isNaN64 = (bits: bigint): boolean => (bits & 0x7fffffffffffffffn) > 0x7ff0000000000000n
