/** Text that is not what a compiler wrote never crashes or hangs: what goes wrong is an error with a code. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runs } from '../helpers/effort.js'
import { Machine, ptxOf, randomNumbers } from './machine.js'

const SOURCES = [
  'reductions.sm_75',
  'atomics.sm_90',
  'language.sm_75',
  'images.sm_75',
  'triton_softmax.sm_80',
  'numba_sum.sm_75',
  'science.sm_75',
]
const ROUNDS = runs({ quick: 25, normal: 25, nightly: 40 })

/** One change of a few kinds: of a line, a token, a number. */
function mutate(text: string, random: () => number): string {
  const lines = text.split('\n')
  const pick = (): number => Math.floor(random() * lines.length)
  const changes = 1 + Math.floor(random() * 3)
  for (let change = 0; change < changes; change++) {
    const at = pick()
    const line = lines[at] ?? ''
    switch (Math.floor(random() * 8)) {
      case 0:
        lines.splice(at, 1)
        break
      case 1:
        lines.splice(at, 0, lines[pick()] ?? '')
        break
      case 2:
        lines[at] = lines[pick()] ?? ''
        break
      case 3:
        lines[at] = line.replace(/\d+/, () => String(Math.floor(random() * 2 ** (random() * 40))))
        break
      case 4:
        lines[at] = line.replace(
          /\.[usbf]\d+/,
          () => ['.u8', '.s16', '.b32', '.f32', '.u64', '.f64', '.b128', '.pred'][Math.floor(random() * 8)] ?? '',
        )
        break
      case 5:
        lines[at] = line.replace(/%[a-z]+\d+/, () => (lines[pick()] ?? '').match(/%[a-z]+\d+/)?.[0] ?? '%tid.x')
        break
      case 6: {
        const from = Math.floor(random() * line.length)
        lines[at] = line.slice(0, from) + line.slice(from + 1 + Math.floor(random() * 4))
        break
      }
      default:
        lines[at] = line.replace(
          /\b(add|mul|setp|bra|ld|st|mov|cvt|bar|shfl|atom)\b/,
          () => ['add', 'exit', 'bra', 'st', 'ret', 'call', 'bar.sync', 'trap', 'shfl'][Math.floor(random() * 9)] ?? '',
        )
    }
  }
  return lines.join('\n')
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

for (const source of SOURCES) {
  test(`whatever is changed in ${source}.ptx, it runs or fails with a code`, () => {
    const random = randomNumbers([...source].reduce((hash, letter) => (hash * 33 + letter.charCodeAt(0)) | 0, 5))
    const original = ptxOf(source)
    let [ran, refused] = [0, 0]
    for (let round = 0; round < ROUNDS; round++) {
      const text = mutate(original, random)
      const machine = new Machine()
      const attempt = (run: () => void): void => {
        try {
          run()
          ran++
        } catch (error) {
          refused++
          if (codeOf(error) === undefined)
            throw Object.assign(new Error('An error without a code'), { cause: error, text })
          assert.match(String(codeOf(error)), /^(ERR_|CUDA_ERROR_)/)
        }
      }
      attempt(() => {
        const module = machine.load(text)
        const buffers = Array.from({ length: 20 }, () => machine.put(new Int32Array(512)))
        for (const kernel of module.kernels) {
          attempt(() => machine.run(module, kernel, { grid: 2, block: 64, instructionLimit: 300_000 }, buffers.slice()))
        }
      })
    }
    assert.ok(ran > 0 && refused > 0)
  })
}

for (const [what, text] of [
  ['nothing', ''],
  ['zeros', '\0\0\0'],
  ['a cubin', '\x7fELF\x02\x01\x01'],
  ['no version', '.target sm_75\n'],
  ['deep braces', `.version 8.0\n.target sm_75\n.address_size 64\n.global .u32 x = ${'{'.repeat(100_000)}`],
  ['deep parentheses', `.version 8.0\n.target sm_75\n.address_size 64\n.global .u32 x = ${'('.repeat(100_000)}`],
  ['an endless comment', '.version 8.0\n/* '],
  ['a huge variable', '.version 8.0\n.target sm_75\n.address_size 64\n.global .b8 x[99999999999];'],
  [
    'many registers',
    '.version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() { .reg .b32 %r<99999999>; ret; }',
  ],
  ['32-bit addresses', '.version 8.0\n.target sm_75\n.address_size 32\n'],
] as const) {
  test(`${what} is no module, or an empty one`, () => {
    try {
      const module = new Machine().load(text)
      for (const kernel of module.kernels) module.code(kernel)
    } catch (error) {
      assert.match(String(codeOf(error)), /^ERR_(COMPILATION|UNSUPPORTED)$/)
    }
  })
}
