/** Each form of the table computes what the reference says, on special and random operands. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../../helpers/root.js'
import { Machine } from '../machine.js'
import { allCases, type FormCase, inputsOf, operandsFor, ptxOfCases } from './cases.js'
import { decodeFloat, FORMATS, toNumber } from './exact.js'
import { COUNT, type Recording } from './record.js'
import { type Answer, reference, widthOf } from './reference.js'

const BATCH = 64

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

function check(each: FormCase, answer: Answer, actual: readonly bigint[], operands: string): void {
  const width = widthOf(each.types['d'] ?? 'b32')
  if (answer.kind === 'open') return
  if (answer.kind === 'bits') {
    answer.results.forEach((expected, index) => {
      if (each.form.opcode === 'setp' && index >= each.results) return
      const bits = index === 0 || each.form.opcode === 'setp' ? width : 32
      const [is, shall] = [BigInt.asUintN(bits, actual[index] ?? 0n), BigInt.asUintN(bits, expected)]
      assert.equal(is.toString(16), shall.toString(16), `${each.text}, result ${index}, of ${operands}`)
    })
    return
  }
  const value = toNumber(decodeFloat(BigInt.asUintN(width, actual[0] ?? 0n), FORMATS[answer.format]))
  const error = Math.abs(value - answer.value)
  const allowed = answer.absolute + answer.relative * Math.abs(answer.value)
  const overflow =
    !Number.isFinite(value) &&
    Math.abs(answer.value) >= (answer.format === 'f16' ? 65504 : answer.format === 'f64' ? 1e308 : 3.3e38)
  const right =
    Object.is(value, answer.value) ||
    (Number.isNaN(value) && Number.isNaN(answer.value)) ||
    error <= allowed ||
    overflow
  assert.ok(right, `${each.text} gives ${value} instead of ${answer.value}, of ${operands}`)
}

const cases = allCases()

test(`the table has cases for ${cases.length} forms`, () => {
  assert.ok(cases.length > 1500)
})

for (let begin = 0; begin < cases.length; begin += BATCH) {
  const batch = cases.slice(begin, begin + BATCH)
  const names = [...new Set(batch.map(({ form }) => form.opcode))].join(', ')
  test(`forms of ${names} are right bit for bit (from case ${begin})`, () => {
    const machine = new Machine()
    const module = machine.load(ptxOfCases(batch))
    for (const [index, each] of batch.entries()) {
      const operands = operandsFor(each, COUNT)
      const outputs = machine.put(new BigUint64Array(2 * COUNT))
      machine.run(module, `k${index}`, { block: COUNT }, [machine.put(operands), outputs, COUNT])
      const results = machine.get(outputs, new BigUint64Array(2 * COUNT))
      const names = inputsOf(each)
      for (let thread = 0; thread < COUNT; thread++) {
        const given = Object.fromEntries(names.map((name, at) => [name, operands[thread * names.length + at] ?? 0n]))
        const all = { ...each.constants, ...given }
        const carries = each.form.meaning.kind === 'code' && each.form.meaning.code === 'carry'
        const words = { ...each.modifiers, __pattern: each.form.pattern }
        const answer = carries ? carryReference(each, all, thread) : reference(each.form.opcode, words, each.types, all)
        const shown = Object.entries(all)
          .map(([name, value]) => `${name}=0x${value.toString(16)}`)
          .join(' ')
        check(each, answer, [results[2 * thread] ?? 0n, results[2 * thread + 1] ?? 0n], shown)
      }
    }
  })
}

/** What a GPU answered, if record.ts was run on one. Approximations and what the manual leaves open are not compared. */
const answers = join(root, 'tests/ptx/forms/answers.json')
const skip = existsSync(answers) ? false : 'no recording of a GPU is checked in: record.ts makes one'

test('each form gives the bits that a GPU gave', { skip }, () => {
  const { cases: recorded } = JSON.parse(readFileSync(answers, 'utf8')) as Recording
  const byKey = new Map(recorded.map((each) => [`${each.text} ${each.constants}`, each]))
  const machine = new Machine()
  for (const each of cases) {
    const known = byKey.get(`${each.text} ${Object.values(each.constants).join()}`)
    if (known === undefined || /approx|full|^(sin|cos|lg2|ex2|tanh)/.test(each.text)) continue
    const module = machine.load(ptxOfCases([each]))
    const outputs = machine.put(new BigUint64Array(2 * COUNT))
    machine.run(module, 'k0', { block: COUNT }, [machine.put(operandsFor(each, COUNT)), outputs, COUNT])
    const results = machine.get(outputs, new BigUint64Array(2 * COUNT))
    const base64 = Buffer.from(results.buffer, results.byteOffset, results.byteLength).toString('base64')
    assert.equal(base64, known.results, each.text)
  }
})
