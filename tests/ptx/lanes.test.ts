/** Lanes of a warp that are not together, as an H100 was seen to treat them: shuffles from lanes that are not there, and who meets first. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { controlFlowOf } from '../../src/ptx/control-flow.js'
import type { KernelFinding } from '../../src/ptx/faults.js'
import { parsePtx } from '../../src/ptx/parser.js'
import { programOrder } from '../../src/ptx/program-order.js'
import { Machine } from './machine.js'

/** A kernel (u64 out): %r1 is the thread; what it leaves in %r2 and %r3 goes to out[t] and out[32 + t]. */
const kernel = (body: string, target = 'sm_70', functions = ''): string => `.version 8.0
.target ${target}
.address_size 64
${functions}
.visible .entry k(.param .u64 out)
{
.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
.shared .align 4 .b8 flag[4];
mov.u32 %r1, %tid.x; mov.u32 %r2, 7; mov.u32 %r3, 7; add.u32 %r4, %r1, 1000;
${body}
ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
st.global.u32 [%rd1], %r2; st.global.u32 [%rd1+128], %r3;
ret;
}
`

interface Played {
  readonly first: readonly number[]
  readonly second: readonly number[]
  readonly findings: readonly KernelFinding[]
}

function play(text: string, block = 32): Played {
  const machine = new Machine()
  const module = machine.load(text)
  const out = machine.put(new Uint32Array(64).fill(7))
  const findings: KernelFinding[] = []
  machine.run(module, 'k', { block, checked: true, report: (found) => findings.push(found) }, [out])
  const all = [...machine.get(out, new Uint32Array(64))]
  return { first: all.slice(0, 32), second: all.slice(32), findings }
}

const lanes = (from: number, to: number): readonly number[] => Array.from({ length: to - from }, (_, i) => from + i)
const values = (from: number, to: number): readonly number[] => lanes(from, to).map((lane) => 1000 + lane)

describe('a shuffle from a lane that is not there gives 0, and is reported', () => {
  const inBranch = (shuffle: string): string => `setp.ge.u32 %p1, %r1, 8; @%p1 bra JOIN; ${shuffle} JOIN: bar.sync 0;`
  const afterOthersEnded = (shuffle: string): string => `setp.ge.u32 %p1, %r1, 8; @%p1 ret; ${shuffle}`
  const shuffles = [
    ['down', 'shfl.sync.down.b32 %r2, %r4, 16, 31, 0xff;'],
    ['xor', 'shfl.sync.bfly.b32 %r2, %r4, 16, 31, 0xff;'],
    ['idx', 'shfl.sync.idx.b32 %r2, %r4, 20, 31, 0xff;'],
  ] as const
  for (const [name, shuffle] of shuffles) {
    for (const [where, body] of [
      ['waits elsewhere', inBranch(shuffle)],
      ['has ended', afterOthersEnded(shuffle)],
    ] as const) {
      it(`${name}, of a lane that ${where}`, () => {
        const { first, findings } = play(kernel(body))
        assert.deepEqual(first.slice(0, 8), new Array(8).fill(0))
        assert.deepEqual(
          findings.map(({ kind }) => kind),
          ['shuffle-from-absent-lane'],
        )
      })
    }
  }

  it('up, of lanes below the branch', () => {
    const body =
      'setp.lt.u32 %p1, %r1, 24; @%p1 bra JOIN; shfl.sync.up.b32 %r2, %r4, 4, 0, 0xff000000; JOIN: bar.sync 0;'
    assert.deepEqual(play(kernel(body)).first.slice(24), [0, 0, 0, 0, ...values(24, 28)])
  })

  it('partly: lanes that are there give their values', () => {
    const { first } = play(kernel(inBranch('shfl.sync.down.b32 %r2, %r4, 4, 31, 0xff;')))
    assert.deepEqual(first.slice(0, 8), [1004, 1005, 1006, 1007, 0, 0, 0, 0])
  })

  it('lanes beyond the end of a block of 20 threads', () => {
    const { first, findings } = play(kernel('shfl.sync.down.b32 %r2, %r4, 8, 31, -1;'), 20)
    assert.deepEqual(first.slice(0, 20), [...values(8, 20), ...new Array(8).fill(0)])
    assert.equal(findings[0]?.kind, 'shuffle-from-absent-lane')
  })

  it('beyond the end of its segment a lane has its own value, as before', () => {
    const { first, findings } = play(kernel('shfl.sync.down.b32 %r2, %r4, 8, 31, -1;'))
    assert.deepEqual(first, [...values(8, 32), ...values(24, 32)])
    assert.deepEqual(findings, [])
  })

  it('without a mask', () => {
    const { first } = play(kernel(afterOthersEnded('shfl.down.b32 %r2, %r4, 16, 31;'), 'sm_60'))
    assert.deepEqual(first.slice(0, 8), new Array(8).fill(0))
  })

  it('so that a sum over the eight lanes of a mask, by steps from 16 on, is that of eight lanes', () => {
    const steps = [16, 8, 4, 2, 1].map((by) => `shfl.sync.down.b32 %r5, %r2, ${by}, 31, 0xff; add.u32 %r2, %r2, %r5;`)
    const { first } = play(kernel(`add.u32 %r2, %r1, 1; ${afterOthersEnded(steps.join('\n'))}`))
    assert.equal(first[0], 36)
  })
})

describe('the lanes that are behind meet first, so that lanes come together behind branches', () => {
  const ALL = new Array(32).fill(0xffffffff)
  const whole = (body: string, options: { readonly target?: string; readonly functions?: string } = {}): Played => {
    const played = play(kernel(body, options.target, options.functions))
    assert.deepEqual(played.second, ALL)
    return played
  }
  const half = (condition: string, within: string): string =>
    `setp.${condition}.u32 %p1, %r1, 16; @%p1 bra JOIN; ${within} JOIN: activemask.b32 %r3;`

  it('the upper half within a branch', () => {
    const { first } = whole(half('lt', 'activemask.b32 %r2;'))
    assert.deepEqual(first, [...new Array(16).fill(7), ...new Array(16).fill(0xffff0000)])
  })

  it('the lower half within a branch', () => {
    const { first } = whole(half('ge', 'activemask.b32 %r2;'))
    assert.deepEqual(first, [...new Array(16).fill(0xffff), ...new Array(16).fill(7)])
  })

  it('both halves of an if with an else', () => {
    const { first } = whole(`and.b32 %r5, %r1, 1; setp.eq.u32 %p1, %r5, 1; @%p1 bra ODD;
      activemask.b32 %r2; bra JOIN; ODD: activemask.b32 %r2; JOIN: activemask.b32 %r3;`)
    assert.deepEqual(
      first,
      lanes(0, 32).map((lane) => (lane % 2 === 0 ? 0x55555555 : 0xaaaaaaaa)),
    )
  })

  const rounds = (within: string): string => `and.b32 %r5, %r1, 3; mov.u32 %r6, 0; mov.u32 %r2, 0;
      NEXT: setp.lt.u32 %p1, %r6, %r5; @%p1 bra BODY; bra BEHIND;
      BEHIND: activemask.b32 %r3; bra END;
      BODY: ${within} add.u32 %r6, %r6, 1; bra NEXT; END:`

  it('a loop of uneven length, wherever its body stands in the text', () => {
    const { first } = whole(rounds('activemask.b32 %r7; mad.lo.u32 %r2, %r2, 5, %r7;'))
    assert.deepEqual(first.slice(0, 4), [0, 4008636142, 2004318066, 3722304962])
  })

  it('an uneven loop within another', () => {
    const { first } = whole(`mov.u32 %r8, 0; mov.u32 %r2, 0;
      OUTER: and.b32 %r5, %r1, 3; mov.u32 %r6, 0;
      INNER: setp.ge.u32 %p1, %r6, %r5; @%p1 bra AFTER; activemask.b32 %r7; add.u32 %r6, %r6, 1; bra INNER;
      AFTER: activemask.b32 %r7; add.u32 %r2, %r2, %r7; add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 3; @%p1 bra OUTER;
      activemask.b32 %r3;`)
    assert.deepEqual(first, new Array(32).fill(-3 >>> 0))
  })

  it('votes without a mask', () => {
    whole(
      `setp.eq.u32 %p2, 1, 1; setp.lt.u32 %p1, %r1, 16; @%p1 bra JOIN; vote.ballot.b32 %r2, %p2;
       JOIN: vote.ballot.b32 %r3, %p2;`,
      { target: 'sm_60' },
    )
  })

  it('in a function that only some lanes call', () => {
    const functions = `.func (.param .b32 result) asks() {
      .reg .b32 %r<3>; activemask.b32 %r1; st.param.b32 [result], %r1; ret; }`
    const called = '{ .param .b32 got; call (got), asks, (); ld.param.b32 %r2, [got]; }'
    const { first } = whole(half('lt', called), { functions })
    assert.deepEqual(first.slice(16), new Array(16).fill(0xffff0000))
  })

  it('lanes that are long on their way in a loop that reads memory', () => {
    whole(`and.b32 %r5, %r1, 1; mul.lo.u32 %r5, %r5, 300; mov.u32 %r6, 0;
      NEXT: ld.volatile.shared.u32 %r7, [flag]; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r5; @%p1 bra NEXT;
      activemask.b32 %r3;`)
  })

  it('lanes that wait for those in front of them do not wait forever', () => {
    const { second } = play(
      kernel(`st.volatile.shared.u32 [flag], 0; bar.warp.sync -1; setp.ge.u32 %p1, %r1, 16; @%p1 bra JOIN;
      NEXT: ld.volatile.shared.u32 %r7, [flag]; setp.eq.u32 %p2, %r7, 0; @%p2 bra NEXT; bra END;
      JOIN: activemask.b32 %r3; st.volatile.shared.u32 [flag], 1; END:`),
    )
    assert.deepEqual(second.slice(16), new Array(16).fill(0xffff0000))
  })
})

it('a block stands before all that it leads to, and a loop before what follows it', () => {
  const text = kernel(`NEXT: setp.lt.u32 %p1, %r6, %r5; @%p1 bra BODY; bra BEHIND;
      BEHIND: mov.u32 %r3, 3; bra END; BODY: mov.u32 %r3, 4; bra NEXT; END: mov.u32 %r3, 5;`)
  const fn = parsePtx(text).functions.get('k')
  assert.ok(fn)
  const flow = controlFlowOf(fn, () => false)
  const places = programOrder(flow)
  assert.deepEqual(
    [...places].sort((a, b) => a - b),
    lanes(0, places.length),
  )
  const placeOfConstant = (value: bigint): number => {
    const block = flow.blocks.findIndex(({ instructions }) =>
      instructions.some(({ operands: { a, d } }) => {
        const isResult = d?.kind === 'register' && d.register.name === '%r3'
        return isResult && a?.kind === 'integer' && a.value === value
      }),
    )
    return places[block] ?? -1
  }
  assert.ok(placeOfConstant(4n) < placeOfConstant(3n))
  assert.ok(placeOfConstant(3n) < placeOfConstant(5n))
})
