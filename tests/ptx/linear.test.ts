/** Steps of the compiler that grow with the length of a text, and not with its square: counted, not timed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractionsOf } from '../../src/ptx/contraction.js'
import { decode } from '../../src/ptx/decoding.js'
import { parsePtx } from '../../src/ptx/parser.js'

const textOf = (body: string): string => `.version 8.0\n.target sm_80\n.address_size 64\n.entry k() {\n${body}\nret;\n}`
const listOf = (count: number, each: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => each(index)).join('\n')

/** How many properties of instructions are read while products and sums are looked for. */
function contractionSteps(body: string): number {
  let steps = 0
  const counted = <T extends object>(object: T): T =>
    new Proxy(object, {
      get: (target, name) => {
        steps++
        return Reflect.get(target, name)
      },
    })
  const instructions = parsePtx(textOf(body)).functions.get('k')?.body ?? []
  const code = instructions.map((instruction) => {
    const decoded = decode(instruction)
    return counted({ ...decoded, instruction: counted(decoded.instruction), form: counted(decoded.form) })
  })
  assert.ok(contractionsOf(code, new Set()).size > 0)
  return steps
}

/** How many names are compared and taken apart while a text is read. */
function parserSteps(text: string): number {
  let steps = 0
  const { startsWith, slice } = String.prototype
  String.prototype.startsWith = function (...given) {
    steps++
    return startsWith.apply(this, given)
  }
  String.prototype.slice = function (...given) {
    steps++
    return slice.apply(this, given)
  }
  try {
    parsePtx(text)
  } finally {
    Object.assign(String.prototype, { startsWith, slice })
  }
  return steps
}

const CASES: Readonly<Record<string, (count: number) => number>> = {
  'products that all live to the end': (count) =>
    contractionSteps(
      `.reg .f32 %f<${4 * count}>;
${listOf(count, (index) => `mul.f32 %f${index}, %f${count + index}, %f${2 * count + index};`)}
${listOf(count, (index) => `add.f32 %f${3 * count + index}, %f${index}, 0f3f800000;`)}`,
    ),
  'sums of two products in a chain': (count) =>
    contractionSteps(
      `.reg .f32 %f<${2 * count + 4}>;
${listOf(count, (index) => `mul.f32 %f${index}, %f${2 * count + 2}, %f${2 * count + 3};`)}
${listOf(count - 1, (index) => `add.f32 %f${count + index}, %f${index}, %f${index + 1};`)}`,
    ),
  'ranges of registers beside single ones': (count) =>
    parserSteps(
      textOf(
        `${listOf(count, (index) => `.reg .b32 single${index};`)}\n${listOf(count, (index) => `.reg .b32 other${index}_<4>;`)}`,
      ),
    ),
}

for (const [name, stepsOf] of Object.entries(CASES)) {
  test(`twice as long takes twice the steps: ${name}`, () => {
    const [once, twice] = [stepsOf(400), stepsOf(800)]
    assert.ok(twice > 1.5 * once && twice < 2.5 * once, `${once} steps, and ${twice} of twice the length`)
  })
}

test('a range of registers and single ones that it has are refused in either order, and others are taken', () => {
  const isRefused = (body: string): boolean => {
    try {
      parsePtx(textOf(body))
      return false
    } catch {
      return true
    }
  }
  const rows: readonly (readonly [body: string, refused: boolean])[] = [
    ['.reg .b32 a12; .reg .b32 a<13>;', true],
    ['.reg .b32 a12; .reg .b32 a<12>;', false],
    ['.reg .b32 a12; .reg .b32 a1<3>;', true],
    ['.reg .b32 a12; .reg .b32 a1<2>;', false],
    ['.reg .b32 a01; .reg .b32 a<9>;', false],
    ['.reg .b32 a10; .reg .b32 a1<1>;', true],
    ['.reg .v2 .b32 a3; .reg .b32 a<4>;', true],
    ['.reg .b32 a<13>; .reg .b32 a12;', true],
    ['.reg .b32 a5, a9; .reg .b32 a<6>;', true],
  ]
  assert.deepEqual(
    rows.map(([body]) => isRefused(body)),
    rows.map(([, refused]) => refused),
  )
})
