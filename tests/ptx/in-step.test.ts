/** Lanes of a warp go in step where a kernel relies on it, as an H100's were seen to do in each of these forms. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { KernelFinding } from '../../src/ptx/faults.js'
import type { InStep } from '../../src/ptx/in-step.js'
import { Machine } from './machine.js'

const VOLATILE = 'volatile.shared.u32'
const PLAIN = 'shared.u32'

/**
 * A kernel (u64 out): %r1 is the thread, and %r2 the address of its word s[t] of shared memory, which has t + 1, or 0 for 32 threads beyond the last.
 * What the body leaves in s[t] goes to out[t].
 */
const kernel = (body: string, functions = ''): string => `.version 8.0
.target sm_70
.address_size 64
${functions}
.visible .entry k(.param .u64 out)
{
.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
.shared .align 8 .b8 s[1024];
mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3;
ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
add.u32 %r4, %r1, 1; mov.u32 %r5, 0; mov.u32 %r6, %ntid.x; shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %r2;
setp.lt.u32 %p7, %r1, 32; @%p7 st.shared.u32 [%r6], %r5; st.shared.u32 [%r2], %r4;
bar.sync 0;
${body}
bar.sync 0;
ld.shared.u32 %r4, [%r2]; st.global.u32 [%rd1], %r4;
ret;
}
`

function play(text: string, { block = 32, inStep = 'volatile' as InStep, checked = false } = {}) {
  const machine = new Machine()
  const module = machine.load(text)
  const out = machine.put(new Uint32Array(block))
  const findings: KernelFinding[] = []
  const report = (found: KernelFinding): void => void findings.push(found)
  machine.run(module, 'k', { block, inStep, checked, ...(checked ? { report } : {}) }, [out])
  return { all: [...machine.get(out, new Uint32Array(block))], findings }
}

const lanes = (count: number): readonly number[] => Array.from({ length: count }, (_, lane) => lane)
const stopsOf = (text: string, inStep: InStep = 'volatile'): readonly string[] =>
  new Machine()
    .load(text)
    .code('k', { inStep })
    .program.stops.flatMap(({ at }) => (at?.form.opcode === 'step' ? [at.instruction.opcode] : []))

/** v[t] += v[t + distance], as compilers write it. */
const addFrom = (distance: number, type: string): string =>
  `ld.${type} %r7, [%r2+${4 * distance}]; ld.${type} %r8, [%r2]; add.u32 %r8, %r8, %r7; st.${type} [%r2], %r8;`

/** The sum over a warp, as the textbooks have it. */
const reduction = (type: string): string => [16, 8, 4, 2, 1].map((distance) => addFrom(distance, type)).join('\n')

/** An inclusive scan in one buffer: if (t >= d) v[t] += v[t - d]. */
const scan = (type: string): string =>
  [1, 2, 4, 8, 16]
    .map(
      (distance) => `setp.ge.u32 %p1, %r1, ${distance}; @!%p1 bra BELOW${distance};
        ${addFrom(-distance, type)}
        BELOW${distance}:`,
    )
    .join('\n')

/** Sorts the words of a warp, in descending order: each pair is compared by its lower lane. */
const bitonic = (type: string): string =>
  [2, 4, 8, 16, 32]
    .flatMap((size) => lanes(Math.log2(size)).map((step) => [size, size >> (step + 1)] as const))
    .map(
      ([
        size,
        distance,
      ]) => `xor.b32 %r9, %r1, ${distance}; setp.le.u32 %p1, %r9, %r1; @%p1 bra UPPER${size}_${distance};
        shl.b32 %r9, %r9, 2; mov.u32 %r10, s; add.u32 %r9, %r9, %r10;
        ld.${type} %r7, [%r2]; ld.${type} %r8, [%r9];
        and.b32 %r11, %r1, ${size}; setp.eq.u32 %p2, %r11, 0; setp.lt.u32 %p3, %r7, %r8; xor.pred %p2, %p2, %p3;
        @%p2 bra UPPER${size}_${distance};
        st.${type} [%r2], %r8; st.${type} [%r9], %r7;
        UPPER${size}_${distance}:`,
    )
    .join('\n')

/** The form that the two kinds of kernels have in common, and the words that an H100 leaves. */
const textbook: readonly (readonly [
  what: string,
  body: (type: string) => string,
  expected: readonly number[] | number,
])[] = [
  ['a reduction', reduction, 528],
  ['a scan in one buffer', scan, lanes(32).map((lane) => ((lane + 1) * (lane + 2)) / 2)],
  ['a bitonic sort', bitonic, lanes(32).map((lane) => 32 - lane)],
]

describe('lanes go in step at volatile shared memory, and with `inStep: shared` at all of it', () => {
  for (const [what, body, expected] of textbook) {
    for (const [type, inStep] of [
      [VOLATILE, 'volatile'],
      [VOLATILE, 'shared'],
      [PLAIN, 'shared'],
    ] as const) {
      for (const block of [32, 128]) {
        it(`${what}, by st.${type} (${inStep}), ${block} threads`, () => {
          const text = kernel(block === 32 ? body(type) : `@!%p7 bra END; ${body(type)} END:`)
          const { all } = play(text, { block, inStep })
          if (typeof expected === 'number') assert.equal(all[0], expected)
          else assert.deepEqual(all.slice(0, 32), expected)
        })
      }
    }
  }

  it('a reduction by generic addresses, in global memory and in a function that is called', () => {
    const body = `cvta.shared.u64 %rd3, 0; cvt.u64.u32 %rd4, %r2; add.s64 %rd3, %rd3, %rd4;
      { .param .u64 at; st.param.u64 [at], %rd3; call.uni sum, (at); }
      st.global.u32 [%rd1], %r4; bar.sync 0; st.global.u32 [%rd1], %r4;
      { .param .u64 at; st.param.u64 [at], %rd1; call.uni sum, (at); }
      bar.sync 0; ld.shared.u32 %r7, [%r2]; ld.global.u32 %r8, [%rd1]; shl.b32 %r8, %r8, 16; or.b32 %r7, %r7, %r8;
      st.shared.u32 [%r2], %r7;`
    const sum = `.func sum(.param .u64 at) { .reg .b32 %r<9>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [at];
      ${[8, 4, 2, 1].map((distance) => addFrom(distance, 'volatile.u32').replaceAll('%r2', '%rd1')).join('\n')} ret; }`
    const machine = new Machine()
    const out = machine.put(new Uint32Array(64))
    machine.run(machine.load(kernel(body, sum)), 'k', { block: 32 }, [out])
    // The sum of the first sixteen.
    assert.equal(machine.get(out, new Uint32Array(1))[0], 136 * 65537)
  })
})

describe('lanes behind branches and loops go in step, and the group that is behind goes first', () => {
  const word = (from: string): string => `mov.u32 %r10, s; shl.b32 %r9, ${from}, 2; add.u32 %r9, %r9, %r10;`
  const other = (distance: number): string => `xor.b32 %r9, %r1, ${distance}; ${word('%r9')}`
  const store = (from: string): string => `st.${VOLATILE} [%r2], ${from};`
  /** Leaves %r12 in the thread's own word when all have done the rest. */
  const leave = 'bar.sync 0; st.shared.u32 [%r2], %r12;'

  it('both sides of a branch store, and all load behind it', () => {
    const { all } = play(
      kernel(`setp.lt.u32 %p1, %r1, 16; @%p1 bra LOW; add.u32 %r7, %r1, 100; ${store('%r7')} bra JOIN;
        LOW: ${store('%r1')}
        JOIN: ${other(16)} ld.${VOLATILE} %r12, [%r9]; ${leave}`),
    )
    assert.deepEqual(
      all,
      lanes(32).map((lane) => (lane < 16 ? lane + 116 : lane - 16)),
    )
  })

  it('one side of a branch stores and loads, and all load behind it', () => {
    const { all } = play(
      kernel(`setp.lt.u32 %p1, %r1, 16; @%p1 bra JOIN; mov.u32 %r7, 500; ${store('%r7')} ld.${VOLATILE} %r7, [%r2+-4];
        JOIN: ${other(16)} ld.${VOLATILE} %r12, [%r9]; ${leave}`),
    )
    assert.deepEqual(
      all,
      lanes(32).map((lane) => (lane < 16 ? 500 : lane - 15)),
    )
  })

  it('lanes leave a loop at different times and load what those within still store', () => {
    const { all } = play(
      kernel(`mov.u32 %r7, 0;
        NEXT: ${store('%r7')} ld.${VOLATILE} %r8, [%r2]; add.u32 %r7, %r7, 1; setp.le.u32 %p1, %r7, %r1; @%p1 bra NEXT;
        ${other(1)} ld.${VOLATILE} %r12, [%r9]; ${leave}`),
    )
    assert.deepEqual(
      all,
      lanes(32).map((lane) => lane ^ 1),
    )
  })

  it('each round of an uneven loop hands a value to the next lane', () => {
    const { all } = play(
      kernel(`mov.u32 %r12, 0; mov.u32 %r7, 0; shr.u32 %r11, %r1, 2;
        add.u32 %r9, %r1, 1; and.b32 %r9, %r9, 31; ${word('%r9')}
        NEXT: ld.${VOLATILE} %r8, [%r2]; add.u32 %r8, %r8, 1; ${store('%r8')}
        ld.${VOLATILE} %r8, [%r9]; shl.b32 %r12, %r12, 1; add.u32 %r12, %r12, %r8;
        add.u32 %r7, %r7, 1; setp.le.u32 %p1, %r7, %r11; @%p1 bra NEXT; ${leave}`),
    )
    const own = lanes(32).map((lane) => lane + 1)
    const sums = new Array<number>(32).fill(0)
    for (let round = 0; round < 8; round++) {
      const active = lanes(32).filter((lane) => round <= lane >> 2)
      for (const lane of active) own[lane] = (own[lane] ?? 0) + 1
      for (const lane of active) sums[lane] = 2 * (sums[lane] ?? 0) + (own[(lane + 1) & 31] ?? 0)
    }
    assert.deepEqual(all, sums)
  })
})

describe('only kernels that rely on it stop', () => {
  it('none that has barriers between what it writes and reads, or has no volatile access', () => {
    const ordered = (type: string): string =>
      `st.${type} [%r2], %r1; bar.sync 0; ld.${type} %r7, [%r2+4]; bar.warp.sync -1; st.${type} [%r2], %r7;`
    assert.deepEqual(stopsOf(kernel(ordered(VOLATILE))), [])
    assert.deepEqual(stopsOf(kernel(ordered(PLAIN)), 'shared'), [])
    assert.deepEqual(stopsOf(kernel(reduction(PLAIN))), [])
  })

  it('those that wait for a flag in a loop, once before it', () => {
    const waiting = `st.volatile.global.u32 [%rd1], %r1; SPIN: ld.volatile.global.u32 %r7, [%rd1]; setp.ne.u32 %p1, %r7, %r1;
      @%p1 bra SPIN;`
    const { program } = new Machine().load(kernel(waiting)).code('k')
    const [step, ...others] = program.stops.filter(({ at }) => at?.form.opcode === 'step')
    assert.ok(step)
    assert.deepEqual(others, [])
    assert.ok(
      program.stops.some(({ kind }) => kind === 'turn'),
      'the loop itself goes on without stops',
    )
  })
})

describe('lanes that go in step do not wait for lanes that wait for them', () => {
  it('a lane that holds a lock goes on at once, whatever volatile accesses it makes', () => {
    const rounds = 20
    const text = kernel(`mov.u32 %r7, 0;
      NEXT: atom.global.cas.b32 %r8, [%rd1], 0, 1; setp.ne.u32 %p1, %r8, 0; @%p1 bra NEXT;
      ld.volatile.global.u32 %r9, [%rd1+4]; add.u32 %r9, %r9, 1; st.volatile.global.u32 [%rd1+4], %r9;
      membar.gl; atom.global.exch.b32 %r8, [%rd1], 0;
      add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, ${rounds}; @%p1 bra NEXT;
      mov.u32 %r4, 0; st.shared.u32 [%r2], %r4;`).replace('add.s64 %rd1, %rd1, %rd2;', '')
    const machine = new Machine()
    const module = machine.load(text.replace('st.global.u32 [%rd1], %r4;', ''))
    assert.ok(module.code('k').program.stops.some(({ at }) => at?.form.opcode === 'step'))
    const out = machine.put(new Uint32Array(2))
    const { effort } = machine.run(module, 'k', { grid: 8, block: 64 }, [out])
    assert.deepEqual(machine.get(out, new Uint32Array(2)), Uint32Array.of(0, 8 * 64 * rounds))
    assert.ok(effort.instructions < 5e7, `${effort.instructions} instructions`)
  })
})

describe('what relies on going in step is still a race', () => {
  it('whose report says so, and what is missing', () => {
    const { all, findings } = play(kernel(reduction(VOLATILE)), { checked: true })
    assert.equal(all[0], 528)
    assert.ok(findings.length > 0)
    for (const { kind, message } of findings) {
      assert.equal(kind, 'shared-memory-race')
      assert.match(message, /lanes of one warp rely on going in step, which CUDA does not promise: add __syncwarp\(\)/)
    }
  })

  it('and none with __syncwarp()', () => {
    const body = [16, 8, 4, 2, 1]
      .map((distance) => `${addFrom(distance, PLAIN).replace('st.', 'bar.warp.sync -1; st.')} bar.warp.sync -1;`)
      .join('\n')
    const { all, findings } = play(kernel(body), { checked: true })
    assert.equal(all[0], 528)
    assert.deepEqual(findings, [])
  })

  it('between warps there is no right result, and the report says that', () => {
    const { findings } = play(kernel(addFrom(-32, PLAIN).replace('ld.', '@!%p7 ld.')), { block: 64, checked: true })
    assert.match(findings[0]?.message ?? '', /which of their warps comes first is open.*add __syncthreads\(\)/)
  })

  it('between lanes at one instruction, which of them comes last is open', () => {
    const { findings } = play(kernel('st.shared.u32 [s], %r1;'), { checked: true })
    assert.match(findings[0]?.message ?? '', /lanes of one warp, and which of them comes last is open/)
  })
})

describe('locks of which the data are volatile', () => {
  const lock = (order: string): string => `.version 8.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 lock, .param .u64 sum, .param .u32 rounds)
{
.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [lock]; ld.param.u64 %rd2, [sum]; ld.param.u32 %r1, [rounds];
mov.u32 %r2, 0;
AGAIN:
mov.u32 %r3, 1; mov.u32 %r4, 0;
atom.global.cas.b32 %r5, [%rd1], %r4, %r3;
setp.ne.s32 %p1, %r5, 0;
@%p1 bra TAKEN;
ld.${order}global.u32 %r6, [%rd2];
add.s32 %r6, %r6, 1;
st.${order}global.u32 [%rd2], %r6;
membar.gl;
atom.global.exch.b32 %r7, [%rd1], 0;
TAKEN:
@%p1 bra AGAIN;
add.s32 %r2, %r2, 1;
setp.lt.s32 %p2, %r2, %r1;
@%p2 bra AGAIN;
ret;
}
`
  const runOf = (order: string): { readonly sum: number | undefined; readonly instructions: number } => {
    const machine = new Machine()
    const [held, sum] = [machine.put(new Int32Array(1)), machine.put(new Int32Array(1))]
    const launch = machine.run(machine.load(lock(order)), 'k', { grid: 3, block: 40 }, [held, sum, 5])
    return { sum: machine.get(sum, new Int32Array(1))[0], instructions: launch.statistics.instructions }
  }

  it('are right, and lanes that spin while the holder stands at a volatile access try once, not many times', () => {
    const [volatile, plain] = [runOf('volatile.'), runOf('')]
    assert.deepEqual([volatile.sum, plain.sum], [600, 600])
    const times = volatile.instructions / plain.instructions
    assert.ok(times < 4, `${volatile.instructions} instructions, ${times.toFixed(1)} times those of plain accesses`)
  })
})
