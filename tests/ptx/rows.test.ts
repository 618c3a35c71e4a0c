/**
 * Threads of a row are checked together where their addresses grow evenly, and blocks of kernels that never stop run in a
 * row: none of it shows. Code with checks of shared memory looks at each access, and is what the other is compared with.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KernelFault, type KernelFinding, type Triple } from '../../src/ptx/faults.js'
import type { RecordedAccesses } from '../../src/ptx/recorded-accesses.js'
import { faultOf } from './faults.js'
import { Machine, randomNumbers, type TestLaunch } from './machine.js'

const HEADER = '.version 8.0\n.target sm_80\n.address_size 64\n'

/** A kernel (u64 a, u64 b, u32 n, u32 m): %r1 is the thread in its row, %r2 a number for each thread of the grid. */
const kernel = (
  body: string,
): string => `${HEADER}.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .u32 m)
{
.reg .b16 %h<4>; .reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .pred %p<8>;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r3, [n]; ld.param.u32 %r4, [m];
mov.u32 %r1, %tid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.y; mov.u32 %r7, %tid.z; mov.u32 %r8, %ctaid.x;
mov.u32 %r9, %ntid.y; mov.u32 %r10, %ntid.z; mov.u32 %r11, %ctaid.y; mov.u32 %r12, %nctaid.x;
mad.lo.s32 %r13, %r7, %r9, %r6; mad.lo.s32 %r14, %r13, %r5, %r1;
mad.lo.s32 %r15, %r11, %r12, %r8; mul.lo.s32 %r16, %r5, %r9; mul.lo.s32 %r17, %r16, %r10;
mad.lo.s32 %r2, %r15, %r17, %r14;
${body}
DONE: ret;
}
`

interface Outcome {
  readonly fault: readonly unknown[] | undefined
  readonly memory: readonly Uint32Array[]
  readonly statistics: unknown
  readonly accesses: unknown
  readonly findings: readonly unknown[]
}

function outcomeOf(
  text: string,
  options: TestLaunch,
  lengths: readonly number[],
  rest: readonly number[],
  shift = 0,
): Outcome {
  const machine = new Machine()
  const module = machine.load(text)
  const arrays = lengths.map((length, index) => Uint32Array.from({ length }, (_, at) => 1000 * index + at))
  const addresses = arrays.map((each) => machine.put(each))
  // Memory that no kernel used yet is looked at access by access.
  for (const [index, address] of addresses.entries()) machine.memory.use(address, 4 * (lengths[index] ?? 0))
  const findings: unknown[] = []
  const report = (finding: KernelFinding): void => {
    findings.push(finding)
  }
  const launch = machine.prepare(module, 'k', { ...options, report }, [
    ...addresses.map((each) => each + shift),
    ...rest,
  ])
  let fault: readonly unknown[] | undefined
  if (options.recorded) launch.accesses()
  try {
    while (launch.run(options.budget) === 'more') {}
  } catch (error) {
    if (!(error instanceof KernelFault)) throw error
    fault = [error.code, error.message, error.block, error.thread, error.address, error.line]
  }
  const memory = addresses.map((address, index) => machine.get(address, arrays[index] ?? new Uint32Array(0)))
  const accesses = options.recorded ? launch.accesses() : undefined
  return { fault, memory, statistics: fault === undefined ? launch.statistics : undefined, accesses, findings }
}

function compare(
  text: string,
  options: TestLaunch,
  lengths: readonly number[],
  rest: readonly number[],
  shift = 0,
): Outcome {
  const one = outcomeOf(text, options, lengths, rest, shift)
  assert.deepEqual(one, outcomeOf(text, { ...options, checked: true }, lengths, rest, shift), text)
  const recorded = outcomeOf(text, { ...options, recorded: true }, lengths, rest, shift)
  const both = outcomeOf(text, { ...options, recorded: true, checked: true }, lengths, rest, shift)
  assert.deepEqual(recorded, both, text)
  assert.deepEqual(recorded.memory, one.memory, text)
  return one
}

/** Reads a[index] and writes b[index], where the index is in %r20. */
const copyAt = (index: string, offset = 0): string => `${index}
mul.wide.s32 %rd3, %r20, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
ld.global.u32 %r21, [%rd4+${offset}]; add.s32 %r21, %r21, %r2; st.global.u32 [%rd5], %r21;`

test('the thread behind the end of a block is found within its row, after the stores of those before it', () => {
  const { fault, memory } = compare(
    kernel(copyAt('mov.u32 %r20, %r2;')),
    { grid: 2, block: [16, 4, 1] },
    [96, 77],
    [0, 0],
  )
  assert.deepEqual(fault?.[0], 'CUDA_ERROR_ILLEGAL_ADDRESS')
  assert.deepEqual(fault?.slice(2, 4), [
    [1, 0, 0],
    [77 - 64, 0, 0],
  ])
  assert.equal(memory[1]?.[76], 76 + 76)
})

test('a row of accesses that are not aligned is a fault of its first thread', () => {
  const { fault } = compare(kernel(copyAt('mov.u32 %r20, %r2;')), { block: 32 }, [64, 64], [0, 0], 2)
  assert.deepEqual(fault?.[0], 'CUDA_ERROR_MISALIGNED_ADDRESS')
  assert.deepEqual(fault?.[3], [0, 0, 0])
})

test('threads behind a guard access nothing, though the row reaches beyond the block', () => {
  const body = `setp.ge.s32 %p1, %r2, %r3; @%p1 bra DONE; ${copyAt('mov.u32 %r20, %r2;')}`
  const { fault, memory } = compare(kernel(body), { grid: 3, block: 32 }, [70, 70], [70, 0])
  assert.equal(fault, undefined)
  assert.equal(memory[1]?.[69], 69 + 69)
})

for (const [type, wrap] of [
  ['s32', 2 ** 31],
  ['u32', 2 ** 32],
] as const) {
  test(`an index of ${type} that wraps within a row leads to other memory`, () => {
    const low = 0x7000_0000_0000
    // Of 32 threads, 12 lie before the end of the numbers; the others start again at the least.
    const start = wrap - 12
    const least = type === 's32' ? -(2 ** 31) : 0
    for (const recorded of [false, true]) {
      const machine = new Machine()
      const module = machine.load(
        kernel(`add.s32 %r20, %r1, %r3; mul.wide.${type} %rd3, %r20, 4; add.s64 %rd4, %rd1, %rd3;
ld.global.u32 %r21, [%rd4]; mul.wide.u32 %rd5, %r1, 4; add.s64 %rd6, %rd2, %rd5; st.global.u32 [%rd6], %r21;`),
      )
      const upper = Uint32Array.from({ length: 64 }, (_, at) => 100 + at)
      const lower = Uint32Array.from({ length: 64 }, (_, at) => 500 + at)
      const [up, down] = [low + 4 * start, low + 4 * least]
      machine.memory.add(up, 256, { load: (into) => into.set(new Uint8Array(upper.buffer)) })
      machine.memory.add(down, 256, { load: (into) => into.set(new Uint8Array(lower.buffer)) })
      const out = machine.put(new Uint32Array(32))
      for (const [begin, bytes] of [
        [up, 256],
        [down, 256],
        [out, 128],
      ] as const)
        machine.memory.use(begin, bytes)
      machine.run(module, 'k', { block: 32, recorded }, [low, out, start | 0, 0])
      const expected = Array.from({ length: 32 }, (_, at) => (at < 12 ? 100 + at : 500 + at - 12))
      assert.deepEqual([...machine.get(out, new Uint32Array(32))], expected)
    }
  })
}

test('blocks that run in a row know where they are, and a fault names the right one', () => {
  const body = `mov.u32 %r30, %ctaid.x; mov.u32 %r31, %ctaid.y; mov.u32 %r32, %ctaid.z; mov.u32 %r33, %smid;
mov.u32 %r34, %nctaid.y; mad.lo.s32 %r35, %r32, %r34, %r31; mad.lo.s32 %r35, %r35, %r12, %r30;
mul.wide.u32 %rd3, %r35, 16; add.s64 %rd4, %rd1, %rd3; st.global.v4.u32 [%rd4], {%r30, %r31, %r32, %r33};`
  const grid: Triple = [5, 7, 11]
  const { fault, memory } = compare(kernel(body), { grid }, [5 * 7 * 11 * 4, 4], [0, 0])
  assert.equal(fault, undefined)
  const number = 3 + 5 * (2 + 7 * 9)
  assert.deepEqual([...(memory[0] ?? new Uint32Array(0)).subarray(4 * number, 4 * number + 4)], [3, 2, 9, number % 132])
  const cut = compare(kernel(body), { grid }, [4 * number, 4], [0, 0])
  assert.deepEqual(cut.fault?.[2], [3, 2, 9])
})

test('a launch of blocks in a row stops where its budget is used up, and where its limit is', () => {
  const machine = new Machine()
  const module = machine.load(kernel(copyAt('mov.u32 %r20, %r2;')))
  const [a, b] = [machine.put(new Uint32Array(3200)), machine.put(new Uint32Array(3200))]
  const options = { grid: 100, block: 32 }
  const whole = machine.run(module, 'k', options, [a, b, 0, 0]).statistics
  const findings: unknown[] = []
  const report = (finding: KernelFinding): void => {
    findings.push(finding)
  }
  const launch = machine.prepare(module, 'k', { ...options, report }, [a, b, 0, 0])
  // A block counts its instructions, and 2000 more.
  const ofBlock = whole.instructions / 100 + 2000
  assert.equal(launch.run(25 * ofBlock), 'more')
  assert.equal(launch.statistics.blocks, 25)
  while (launch.run(ofBlock) === 'more') {}
  assert.deepEqual(launch.statistics, whole)
  const instructionLimit = 10 * ofBlock
  const fresh = machine.put(new Uint32Array(3200))
  const limited = machine.prepare(module, 'k', { ...options, instructionLimit }, [a, fresh, 0, 0])
  assert.equal(faultOf(() => limited.run()).code, 'CUDA_ERROR_LAUNCH_TIMEOUT')
  const written = machine.get(fresh, new Uint32Array(3200))
  assert.deepEqual([written[319], written[320]], [319, 0])
})

/** An index with random strides and constants, computed in several steps, in %r20. */
function randomIndex(random: () => number): string {
  const below = (limit: number): number => Math.floor(random() * limit)
  let value = ['%r1', '%r2', '%r14', '%tid.x'][below(4)] ?? '%r1'
  const lines: string[] = []
  for (let step = below(4); step > 0; step--) {
    const target = `%r${24 + step}`
    const lineOf = [
      `add.s32 ${target}, ${value}, ${below(40) - 20};`,
      `shl.b32 ${target}, ${value}, ${below(3)};`,
      `mad.lo.s32 ${target}, ${value}, ${below(4)}, %r6;`,
      `sub.s32 ${target}, %r3, ${value};`,
      `mad.lo.s32 ${target}, %r6, %r4, ${value};`,
      `min.s32 ${target}, ${value}, %r3;`,
      `add.s32 ${target}, ${value}, %r8;`,
    ]
    lines.push(lineOf[below(lineOf.length)] ?? '')
    value = target
  }
  return `${lines.join('\n')}\nadd.s32 %r20, ${value}, 0;`
}

/** With %p1 to DONE: some that a whole row passes or not, and one whose sum wraps among the threads. */
const GUARDS = [
  '',
  'setp.ge.s32 %p1, %r2, %r3; @%p1 bra DONE;',
  'setp.eq.s32 %p1, %r1, %r4; @%p1 bra DONE;',
  'setp.lt.u32 %p1, %r3, %r2; @%p1 bra DONE;',
  'sub.s32 %r22, %r3, %r2; setp.le.s32 %p1, %r22, %r4; @%p1 bra DONE;',
  'add.s32 %r22, %r2, 2147483600; setp.lt.s32 %p1, %r22, %r3; @%p1 bra DONE;',
  `setp.lt.s32 %p2, %r1, 1; setp.ge.s32 %p3, %r2, %r3; or.pred %p4, %p2, %p3;
setp.gt.s32 %p5, %r6, 2; or.pred %p1, %p4, %p5; @%p1 bra DONE;`,
]

test('what a stencil reads and writes is recorded byte for byte, though rows of blocks are marked together', () => {
  const [width, height] = [70, 11]
  const body = `mad.lo.s32 %r20, %r8, %r5, %r1; mad.lo.s32 %r21, %r11, %r9, %r6;
setp.lt.s32 %p1, %r20, 1; setp.lt.s32 %p2, %r21, 1; or.pred %p3, %p1, %p2; add.s32 %r22, %r3, -1;
setp.ge.s32 %p4, %r20, %r22; or.pred %p5, %p3, %p4; add.s32 %r23, %r4, -1; setp.ge.s32 %p6, %r21, %r23;
or.pred %p7, %p5, %p6; @%p7 bra DONE;
mad.lo.s32 %r24, %r21, %r3, %r20; mul.wide.s32 %rd3, %r24, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
mul.wide.s32 %rd6, %r3, 4; add.s64 %rd7, %rd4, %rd6; sub.s64 %rd8, %rd4, %rd6;
ld.global.u32 %r25, [%rd4+-4]; ld.global.u32 %r26, [%rd4+4]; add.s32 %r25, %r25, %r26;
ld.global.u32 %r26, [%rd7]; add.s32 %r25, %r25, %r26; ld.global.u32 %r26, [%rd8]; add.s32 %r25, %r25, %r26;
st.global.u32 [%rd5], %r25;`
  const options = { grid: [5, 3, 1] as Triple, block: [16, 4, 1] as Triple, recorded: true }
  const size = width * height
  compare(kernel(body), options, [size, size], [width, height])
  const { accesses } = outcomeOf(kernel(body), options, [size, size], [width, height])
  const [from, to] = accesses as readonly RecordedAccesses[]
  const inner = Array.from({ length: height - 2 }, (_, row) => (row + 1) * width)
  const written = inner.map((row) => ({ from: 4 * (row + 1), to: 4 * (row + width - 1) }))
  // All but the corners; rows that are read to their ends join.
  assert.deepEqual(
    from?.reads.map((each) => ({ from: each.from - from.block, to: each.to - from.block })),
    [
      { from: 4, to: 4 * (width - 1) },
      { from: 4 * width, to: 4 * (size - width) },
      { from: 4 * (size - width + 1), to: 4 * (size - 1) },
    ],
  )
  assert.deepEqual(
    to?.writes.map((each) => ({ from: each.from - to.block, to: each.to - to.block })),
    written,
  )
})

test('of a row that a guard cuts at its ends each byte is recorded, and no other', () => {
  // Bytes are left out between the reads of fewer than four threads, as those are that are left of some rows behind the guard.
  const body = `mad.lo.s32 %r20, %r8, %r5, %r1; setp.lt.s32 %p1, %r20, 4; sub.s32 %r22, %r3, 2; setp.ge.s32 %p4, %r20, %r22;
or.pred %p5, %p1, %p4; @%p5 bra DONE; mul.wide.s32 %rd3, %r20, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
ld.global.u32 %r25, [%rd4]; ld.global.u32 %r26, [%rd4+16]; add.s32 %r25, %r25, %r26; st.global.u32 [%rd5], %r25;`
  for (const count of [5, 6, 8, 9, 11, 18, 23, 37])
    for (const block of [4, 5, 6, 7, 9, 10, 14, 18, 40]) {
      // The first rows find the memory, which only later ones look at as a whole.
      const options = { grid: [Math.ceil(count / block), 3, 1] as Triple, block }
      const lengths = [count + 64, count + 64]
      compare(kernel(body), options, lengths, [count, 0])
      const accesses = (['never', 'always'] as const).map(
        (lanes) => outcomeOf(kernel(body), { ...options, lanes, recorded: true }, lengths, [count, 0]).accesses,
      )
      assert.deepEqual(accesses[1], accesses[0])
    }
})

test('long ranges are recorded however many there are, and those of a freed block are forgotten', () => {
  // Each row of 64 threads reads and writes 256 bytes, and leaves out as many.
  const body = `mad.lo.s32 %r20, %r11, 128, %r1; setp.ge.s32 %p1, %r1, %r3; @%p1 bra DONE; ${copyAt('')}`
  const rows = 9000
  const { accesses } = outcomeOf(
    kernel(body),
    { grid: [1, rows, 1], block: 64, recorded: true },
    [128 * rows, 128 * rows],
    [64, 0],
  )
  const expected = Array.from({ length: rows }, (_, row) => ({ from: 512 * row, to: 512 * row + 256 }))
  const [from, to] = accesses as readonly RecordedAccesses[]
  const within = (ranges: RecordedAccesses['reads'] | undefined, begin = 0): unknown =>
    ranges?.map((each) => ({ from: each.from - begin, to: each.to - begin }))
  assert.deepEqual(within(from?.reads, from?.block), expected)
  assert.deepEqual(within(to?.writes, to?.block), expected)

  const machine = new Machine()
  const module = machine.load(kernel(body))
  const words = new Uint32Array(128)
  const run = (a: number, b: number) => machine.run(module, 'k', { block: 64, recorded: true }, [a, b, 64, 0])
  const [a, b] = [machine.put(words), machine.put(words)]
  // Only memory that is used already is looked at row by row.
  for (const each of [a, b]) machine.memory.use(each, 512)
  run(a, b).accesses()
  run(a, b)
  machine.memory.remove(b)
  const c = machine.put(words)
  machine.memory.use(c, 512)
  const ranges = [{ from: a, to: a + 256 }]
  assert.deepEqual(run(a, a).accesses(), [{ block: a, reads: ranges, writes: ranges, atomics: [] }])
  assert.equal(run(a, c).accesses().length, 2)
})

/** Writes the index of each thread, in %r20, where no other thread does. */
const WRITE_INDEX = 'mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd2, %rd3; st.global.u32 [%rd4], %r20;'

/** The indices of those threads that are not behind the guard. */
function indicesOf(
  text: string,
  shape: { readonly grid: Triple; readonly block: Triple },
  rest: readonly number[],
): readonly number[] {
  const none = -(2 ** 31)
  const threads = [...shape.grid, ...shape.block].reduce((product, each) => product * each)
  const machine = new Machine()
  const into = new Int32Array(threads).fill(none)
  const [a, b] = [machine.put(new Uint32Array(4)), machine.put(into)]
  machine.run(machine.load(text), 'k', { ...shape, lanes: 'never' }, [a, b, ...rest])
  return [...machine.get(b, into)].filter((each) => each !== none)
}

/** Whether no thread writes what another writes, or reads so far behind its index. */
function areApart(indices: readonly number[], read: number | undefined): boolean {
  const written = new Set(indices)
  if (written.size < indices.length) return false
  return read === undefined || read === 0 || !indices.some((each) => written.has(each + read))
}

test('random kernels over rows do the same with and without a check of each access', () => {
  const random = randomNumbers(77)
  const below = (limit: number): number => Math.floor(random() * limit)
  let [faults, apart] = [0, 0]
  for (let round = 0; round < 320; round++) {
    const guard = GUARDS[below(GUARDS.length)]
    const second = ['', 'ld.global.u32 %r22, [%rd4+8]; add.s32 %r21, %r21, %r22;', 'st.global.u32 [%rd4], %r21;'][
      below(3)
    ]
    const index = randomIndex(random)
    const offset = below(9) - 2
    const text = kernel(`${guard}\n${copyAt(index, 4 * offset)} ${second}`)
    const block: Triple = [1 + below(20), 1 + below(4), 1 + below(2)]
    const grid: Triple = [1 + below(3), 1 + below(3), 1]
    const shift = random() < 0.1 ? 2 : 0
    const lengths = [64 + below(800), 64 + below(800)]
    const rest = [below(300), below(20)]
    // Where threads write to one place their order shows, which lanes do not have.
    const { fault } = compare(text, { grid, block, lanes: 'never' }, lengths, rest, shift)
    if (fault !== undefined) faults++
    const shape = { grid, block }
    const indices = indicesOf(kernel(`${guard}\n${index} ${WRITE_INDEX}`), shape, rest)
    const writesBoth = second?.startsWith('st.') === true
    if (!areApart(indices, writesBoth ? offset : undefined)) continue
    apart++
    for (const recorded of [false, true]) {
      const [one, lanes] = (['never', 'always'] as const).map((each) =>
        outcomeOf(text, { ...shape, recorded, lanes: each }, lengths, rest, shift),
      )
      // Lanes have made what stands before a fault together, so what they wrote by then is not the same.
      assert.equal(lanes?.fault === undefined, one?.fault === undefined, text)
      if (fault === undefined) assert.deepEqual(lanes, one, text)
    }
  }
  assert.ok(apart > 32, `only in ${apart} of 320 threads write to places of their own`)
  assert.ok(faults > 32 && faults < 288, `${faults} of 320 ended with a fault`)
})
