/** `wgmma`, `mma` and `wmma` have the bits of a GPU; what a GPU or its assembler refuses of `wgmma` is a fault or an error here. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Module } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import type { KernelFinding } from '../../../src/ptx/faults.js'
import { sumsOfFloats } from '../../../src/ptx/tensor-sums.js'
import { ofTheDay, playedToday } from '../../helpers/of-the-day.js'
import { faultOf } from '../faults.js'
import { randomNumbers } from '../machine.js'
import { allLaunches, type RecordedLaunch } from './cases.js'
import { answered, answerOf, device, played } from './recording.js'
import { warpLaunches } from './warp-cases.js'

const launches = allLaunches()
const ofWarps = warpLaunches()

/** The tables of launches, and the days within which each row of a table is played. */
const TABLES: readonly (readonly [name: string, rows: readonly RecordedLaunch[], days: number])[] = [
  ['wgmma, each shape and type', launches.filter(({ key }) => key.startsWith('shape')), 8],
  ['wgmma, each layout, exchange of units and offset', launches.filter(({ key }) => /^[ab] /.test(key)), 2],
  ['wgmma, sums that are hard to add', launches.filter(({ key }) => !/^(?:shape|[ab] |sparse|matmul)/.test(key)), 2],
  ['wgmma, sparse matrices', launches.filter(({ key }) => key.startsWith('sparse')), 2],
  ['whole kernels of warpgroups', launches.filter(({ key }) => key.startsWith('matmul')), 1],
  ['mma, sums that are hard to add', ofWarps.filter(({ key }) => !key.includes('wmma')), 4],
  ['wmma, sums that are hard to add', ofWarps.filter(({ key }) => key.includes('wmma')), 1],
]

describe(`products of matrices have the bits that an ${device} gave`, () => {
  for (const [name, all, days] of TABLES) {
    const rows = ofTheDay(all, days)
    test(`${name}: ${playedToday(rows.length, all.length)}`, () => {
      for (const each of rows) {
        assert.deepEqual(answered(played(each)), answerOf(each.key), `${each.key} has other bits than on the ${device}`)
      }
    })
  }
})

const first = launches.find(({ key }) => key.includes('near wgmma.m64n24k16.f32.f16.f16'))
if (first === undefined) throw new Error('There is no such launch')
const MULTIPLY = /wgmma\.mma_async.*;/.exec(first.text)?.[0] ?? ''

/** The launch with something else in place of its instruction. */
const instead = (text: string): RecordedLaunch => ({ ...first, text: first.text.replace(MULTIPLY, text) })
/** The launch whose warps from the one with this thread on go elsewhere. */
const without = (thread: number, elsewhere: string): RecordedLaunch =>
  instead(`setp.ge.u32 %l, %t, ${thread}; @%l bra away; ${MULTIPLY}\nbra back;\naway: ${elsewhere}\nback:`)

test('sums of four columns at once have the bits of sums one by one, which a shape of other columns has', () => {
  const random = randomNumbers(3)
  const [rows, k] = [16, 32]
  // Some factors and sums are zeros, denormal, infinite or NaN, and exponents lie far apart.
  const hard = [0, -0, 2 ** -24, -(2 ** -20), Number.POSITIVE_INFINITY, Number.NaN]
  const numbers = (count: number, least: number, greatest: number): Float64Array =>
    Float64Array.from({ length: count }, () => {
      const pick = Math.floor(400 * random())
      const exponent = least + Math.floor((greatest - least) * random())
      return hard[pick] ?? Math.round((2 * random() - 1) * 1024) * 2 ** (exponent - 10)
    })
  for (const [type, fraction] of [
    ['f32', 25],
    ['f16', 25],
    ['f32', 13],
  ] as const) {
    const [a, b] = [numbers(rows * k, -14, 6), numbers(8 * k, -14, 6)]
    const sums = Float32Array.from(numbers(rows * 8, -14, 10))
    const types = { aType: 'f16', bType: 'f16', type, fraction }
    const whole = sumsOfFloats({ ...types, columns: 8, k, a, b, sums })
    const part = sumsOfFloats({
      ...{ ...types, columns: 6, k, a, b: b.subarray(0, 6 * k) },
      sums: sums.filter((_, at) => at % 8 < 6),
    })
    assert.deepEqual(
      part,
      whole.filter((_, at) => at % 8 < 6),
      `${type} ${fraction}`,
    )
    assert.ok(part.some(Number.isFinite) && !part.every(Number.isFinite))
  }
})

describe('warps that multiply together', () => {
  test('copies of the instruction for two warps each are one product', () => {
    assert.deepEqual(answered(played(without(64, MULTIPLY))), answerOf(first.key))
  })
  test('a schedule that orders warps changes no bit', () => {
    const random = randomNumbers(1)
    const choose = (count: number): number => Math.floor(random() * count)
    assert.deepEqual(answered(played(first, { choose })), answerOf(first.key))
  })
  test('a launch in parts has the same bits', () => {
    assert.deepEqual(answered(played(first, { budget: 500 })), answerOf(first.key))
  })
  for (const [what, launch] of [
    ['a warp has ended', without(96, 'exit;')],
    ['the block has three warps', { ...first, block: 96 }],
  ] as const) {
    test(`${what}: an illegal instruction, as on the ${device}`, () => {
      const fault = faultOf(() => played(launch))
      assert.equal(fault.number, 715)
      assert.match(
        fault.message,
        /Four warps multiply matrices together, and (?:warp 3 has ended|the block has no warp 3)/,
      )
    })
  }
  test('a warp that waits for the others before it multiplies: an endless wait', () => {
    const fault = faultOf(() => played(without(96, `bar.sync 1, 128; ${MULTIPLY}`.replace('bra back;', ''))))
    assert.equal(fault.number, 702)
    assert.match(fault.message, /The block waits forever: 96 threads .* at 'wgmma/)
  })
  test('lanes that have ended are found', () => {
    const found: KernelFinding[] = []
    played(instead(`setp.eq.u32 %l, %t, 5; @%l exit; ${MULTIPLY}`), { report: (finding) => found.push(finding) })
    assert.deepEqual(
      found.map(({ kind }) => kind),
      ['diverging-barrier'],
    )
  })
})

describe('a descriptor', () => {
  test('of shared memory that the block does not have: an illegal address, with the bytes of the block', () => {
    const [image, bytes, a, sums, out, , scale, places] = first.parameters
    const words = { words: ['100008000ff0', '8000400200'] }
    const fault = faultOf(() =>
      played({
        ...first,
        parameters: [image, bytes, a, sums, out, words, scale, places].filter((each) => each !== undefined),
      }),
    )
    assert.equal(fault.number, 700)
    assert.match(fault.message, /A load reads 16 bytes at .*: byte 65280 of shared memory, of which the block has/)
  })
})

test('stores of other warps race with a product that no barrier stands before', () => {
  const found = (text: string): readonly KernelFinding[] => {
    const all: KernelFinding[] = []
    played({ ...first, text }, { checked: true, report: (finding) => all.push(finding) })
    return all
  }
  const races = found(first.text.replace('bar.sync 0;', ''))
  assert.deepEqual([...new Set(races.map(({ kind }) => kind))], ['shared-memory-race'])
  assert.match(races[0]?.message ?? '', /by 'wgmma\.mma_async/)
  assert.deepEqual(found(first.text), [])
})

test('matrices that threads have stored, and no fence.proxy.async stands behind, are a finding', () => {
  const found = (text: string): readonly (readonly [kind: string, message: string])[] => {
    const all: KernelFinding[] = []
    played({ ...first, text }, { checked: true, report: (finding) => all.push(finding) })
    return all.map(({ kind, message }) => [kind, message])
  }
  const without = found(first.text.replace('fence.proxy.async;', ''))
  assert.deepEqual([...new Set(without.map(([kind]) => kind))], ['missing-proxy-fence'])
  assert.match(
    without[0]?.[1] ?? '',
    /wgmma reads byte \d+ of shared memory, which a thread has written without fence\.proxy\.async behind it.*'wgmma\.mma_async/,
  )
  // A fence behind the barrier is one, too, as compilers write it, and one of global memory is not.
  assert.deepEqual(found(first.text.replace('fence.proxy.async; bar.sync 0;', 'bar.sync 0; fence.proxy.async;')), [])
  assert.deepEqual(
    [...new Set(found(first.text.replace('proxy.async;', 'proxy.async.global;')).map(([kind]) => kind))],
    ['missing-proxy-fence'],
  )
  // Compilers put no fence behind cp.async.
  const copies = first.text
    .replace('ld.global.v4.b32 {%q0, %q1, %q2, %q3}, [%w];', '')
    .replace('st.shared.v4.b32 [%u], {%q0, %q1, %q2, %q3};', 'cp.async.cg.shared.global [%u], [%w], 16;')
    .replace('fence.proxy.async; bar.sync 0;', 'cp.async.wait_all; bar.sync 0;')
  assert.match(copies, /cp\.async\.cg/)
  assert.deepEqual(found(copies), [])
  assert.deepEqual(
    [...new Set(found(copies.replace('cp.async.wait_all;', '')).map(([kind]) => kind))],
    ['unfinished-copy'],
  )
})

describe('registers of a product', () => {
  const WAIT = 'wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;'
  const found = (text: string): readonly (readonly [kind: string, message: string])[] => {
    const all: KernelFinding[] = []
    played({ ...first, text }, { report: (finding) => all.push(finding) })
    return all.map(({ kind, message }) => [kind, message])
  }
  const messageOf = (text: string): string => {
    const [one, ...others] = found(text)
    assert.deepEqual([one?.[0], others], ['unfinished-product', []])
    return one?.[1] ?? ''
  }
  test('that are left alone until wait_group are no finding', () => assert.deepEqual(found(first.text), []))
  test('that are read before wait_group', () => {
    const early = /'%d0' of a product is read by 'st\.global\.f32' .*, and no wgmma\.wait_group stands between/
    assert.match(messageOf(first.text.replace(WAIT, '')), early)
    assert.match(messageOf(first.text.replace('wait_group.sync.aligned 0', 'wait_group.sync.aligned 1')), early)
  })
  test('of the group before are read while the next one is under way', () => {
    const second = MULTIPLY.replace(/\{[^}]*\}/, (list) => list.replaceAll('%d', '%f'))
    const two = `wgmma.commit_group.sync.aligned; ${second} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;`
    const text = first.text.replace(WAIT, two).replace('.reg .f32 %d<12>;', '.reg .f32 %d<12>, %f<12>;')
    assert.deepEqual(found(text), [])
  })
  test('that are changed without a fence', () => {
    assert.match(
      messageOf(first.text.replace('wgmma.fence.sync.aligned;', '')),
      /'%d0' of a product is changed by 'ld\.global\.f32' .*, and no wgmma\.fence stands between/,
    )
  })
  test('that are moved alone are not touched', () => {
    const moved = `mov.f32 %f0, %d0; mov.f32 %d0, %f0; ${WAIT}`
    assert.deepEqual(
      found(first.text.replace(WAIT, moved).replace('.reg .f32 %d<12>;', '.reg .f32 %d<12>, %f<1>;')),
      [],
    )
  })
})

describe('what ptxas refuses of wgmma is refused', () => {
  const load = (line: string, head = '.version 8.4\n.target sm_90a'): void => {
    using simulation = simulate()
    const [device] = simulation.devices
    const text = `${head}
.address_size 64
.visible .entry k() { .reg .b64 %d<4>; .reg .b32 %r<9>; .reg .u32 %u<9>; .reg .f32 %f<99>; .reg .pred %p<3>; ${line} ret; }`
    Module.load(text, { device }).close()
  }
  const product = (operands: string, shape = 'm64n8k16.f32.f16.f16'): string =>
    `wgmma.mma_async.sync.aligned.${shape} ${operands};`
  const sums = '{%f0,%f1,%f2,%f3}'
  test('a right one is taken', () => {
    load(product(`${sums}, %d0, %d1, %p0, 1, -1, 0, 1`))
    load(product(`${sums}, {%r0,%r1,%r2,%r3}, %d1, !%p0, 1, 1, 1`))
    load(product(`${sums}, %d0, %d1, 1, 1, 1, 0, 0`))
  })
  for (const [operands, why] of [
    ['{%f0,%f1,%f2}, %d0, %d1, %p0, 1, 1, 0, 0', /the fragment has 4 registers, not 3/],
    ['{%u0,%u1,%u2,%u3}, %d0, %d1, %p0, 1, 1, 0, 0', /'%u0' of .u32 is in no such fragment/],
    [`${sums}, {%f4,%f5,%f6,%f7}, %d1, %p0, 1, 1, 0`, /'%f4' of .f32 is in no such fragment/],
    [`${sums}, %d0, %r0, %p0, 1, 1, 0, 0`, /a descriptor is a register of 64 bits/],
    [`${sums}, %d0, %d1, %r0, 1, 1, 0, 0`, /is .b32, and the operand .pred/],
    [`${sums}, %d0, %d1, %p0, 2, 1, 0, 0`, /a sign is the constant 1 or -1/],
    [`${sums}, %d0, %d1, %p0, 1, 1, 0, 2`, /a transposition is the constant 0 or 1/],
  ] as const) {
    test(operands, () => assert.throws(() => load(product(operands)), { number: 218, message: why }))
  }
  test('a target other than sm_90a', () => {
    const right = product(`${sums}, %d0, %d1, %p0, 1, 1, 0, 0`)
    assert.throws(() => load(right, '.version 8.4\n.target sm_90'), /is for .target sm_90a alone/)
    assert.throws(() => load(right, '.version 7.8\n.target sm_90a'), /came with PTX 8.0/)
  })
  test('a number of groups that is no constant', () => {
    load('wgmma.wait_group.sync.aligned 3;')
    assert.throws(() => load('wgmma.wait_group.sync.aligned %r0;'), /the number of groups is a constant/)
    assert.throws(() => load('wgmma.wait_group.sync.aligned -1;'), /the number of groups is a constant/)
  })
})
