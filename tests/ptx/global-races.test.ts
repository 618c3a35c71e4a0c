/** Races in global memory within one launch: two warps or two blocks access a byte, one of them writes, and nothing orders them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { KernelFinding } from '../../src/ptx/faults.js'
import { Machine } from './machine.js'

/**
 * A kernel (u64 words): %r1 is the thread and %r2 the block, %r3 the place of the thread in the grid; %rd1 is where the words
 * begin, %rd2 that of the thread, %rd3 that of the block. %p1 says whether it is the first thread of its block, %p2 whether the
 * block is the first one.
 */
const kernel = (body: string): string => `.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 words)
{
.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [words]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r3, %r2, %r4, %r1;
mul.wide.u32 %rd2, %r3, 4; add.s64 %rd2, %rd2, %rd1; mul.wide.u32 %rd3, %r2, 4; add.s64 %rd3, %rd3, %rd1;
setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 0;
${body}
ret;
}
`

interface Shape {
  readonly grid: number
  readonly block: number
}

function races(body: string, { grid, block }: Shape, mayWrite = (): boolean => true): readonly KernelFinding[] {
  const machine = new Machine()
  const findings: KernelFinding[] = []
  const words = machine.put(new Uint32Array(4096))
  const report = (found: KernelFinding): void => void findings.push(found)
  const options = { grid, block, checked: true, recorded: true, report, mayWrite }
  machine.run(machine.load(kernel(body)), 'k', options, [words])
  return findings
}

const ONE_WARP_EACH = { grid: 4, block: 32 }
const ONE_BLOCK = { grid: 1, block: 128 }
const SEVERAL = { grid: 3, block: 64 }

const FENCE = 'membar.gl;'
const TICKET = 'atom.global.add.u32 %r6, [%rd1+8192], 1;'

const WRONG: readonly (readonly [name: string, body: string, shape: Shape])[] = [
  ['all blocks add to one word, without an atomic', add('[%rd1]'), ONE_WARP_EACH],
  ['the warps of a block do', add('[%rd1]'), ONE_BLOCK],
  ['all write one word, each its own number', 'st.global.u32 [%rd1], %r3;', SEVERAL],
  ['words move by one place within their memory', 'ld.global.u32 %r5, [%rd2+4]; st.global.u32 [%rd2], %r5;', ONE_BLOCK],
  ['and beyond the end of a block', 'ld.global.u32 %r5, [%rd2+128]; st.global.u32 [%rd2], %r5;', ONE_WARP_EACH],
  [
    'a word that other blocks have written is read behind a barrier of the own block',
    '@%p1 st.global.u32 [%rd3], 5; bar.sync 0; ld.global.u32 %r5, [%rd1];',
    SEVERAL,
  ],
  ['a counter is reset while others count', `@%p2 st.global.u32 [%rd1], 9; red.global.add.u32 [%rd1], 1;`, SEVERAL],
  ['a sum is read while others add to it', `red.global.add.u32 [%rd1], 1; ld.global.u32 %r5, [%rd1];`, SEVERAL],
  [
    'a word of four bytes, of which another block writes one byte',
    '@%p2 st.global.u8 [%rd1+2], 5; @!%p2 ld.global.u32 %r5, [%rd1];',
    ONE_WARP_EACH,
  ],
  [
    'four words at once',
    '@%p2 st.global.v4.u32 [%rd1], {%r4, %r4, %r4, %r4}; @!%p2 ld.global.u32 %r5, [%rd1+12];',
    SEVERAL,
  ],
  ['the last block adds up what others wrote, and no fence stands before the ticket', lastBlock(''), ONE_WARP_EACH],
  [
    'a flag is waited for, and the data were written behind the fence',
    `@!%p2 bra READER; ${FENCE} st.global.u32 [%rd1], %r4; st.volatile.global.u32 [%rd1+64], 1; bra END;
     READER: ${waitFor('[%rd1+64]')} ld.global.u32 %r5, [%rd1]; END:`,
    ONE_WARP_EACH,
  ],
]

function add(place: string): string {
  return `ld.global.u32 %r5, ${place}; add.u32 %r5, %r5, 1; st.global.u32 ${place}, %r5;`
}

function waitFor(place: string): string {
  return `WAIT: ld.volatile.global.u32 %r7, ${place}; setp.eq.u32 %p4, %r7, 0; @%p4 bra WAIT;`
}

/** Each block leaves a word and takes a ticket; who has the last one reads them all. */
function lastBlock(fence: string): string {
  return `@!%p1 bra END; st.global.u32 [%rd3], %r3; ${fence} ${TICKET}
    mov.u32 %r7, %nctaid.x; sub.u32 %r7, %r7, 1; setp.ne.u32 %p3, %r6, %r7; @%p3 bra END;
    ld.global.u32 %r8, [%rd1]; ld.global.u32 %r9, [%rd1+4]; END:`
}

const RIGHT: readonly (readonly [name: string, body: string, shape: Shape])[] = [
  ['each thread its own word', add('[%rd2]'), SEVERAL],
  ['each thread its own byte', 'cvt.u64.u32 %rd4, %r3; add.s64 %rd4, %rd4, %rd1; st.global.u8 [%rd4], %r3;', SEVERAL],
  ['reads of all', 'ld.global.u32 %r5, [%rd1]; ld.global.u32 %r6, [%rd1];', SEVERAL],
  ['atomics of all', 'red.global.add.u32 [%rd1], 1; atom.global.max.u32 %r5, [%rd1], %r3;', SEVERAL],
  ['all write the same value', 'st.global.u32 [%rd1], 1; st.global.u32 [%rd1], 1;', SEVERAL],
  [
    'lanes of one warp, which go in step',
    'ld.global.u32 %r5, [%rd2+4]; st.global.u32 [%rd2], %r5;',
    { grid: 1, block: 32 },
  ],
  [
    'words of the own block, behind a barrier',
    'st.global.u32 [%rd2], %r3; bar.sync 0; xor.b32 %r5, %r1, 63; mul.wide.u32 %rd4, %r5, 4; add.s64 %rd4, %rd4, %rd1; @%p2 ld.global.u32 %r6, [%rd4];',
    SEVERAL,
  ],
  ['the last block adds up what others wrote before a fence and a ticket', lastBlock(FENCE), ONE_WARP_EACH],
  ['the same by a fence of PTX', lastBlock('fence.acq_rel.gpu;'), ONE_WARP_EACH],
  [
    'the same with a ticket that releases',
    lastBlock('').replace('atom.global.add', 'atom.acq_rel.gpu.global.add'),
    ONE_WARP_EACH,
  ],
  [
    'the same with a barrier before the fence of one thread, for what all have written',
    `st.global.u32 [%rd2], %r3; bar.sync 0; @!%p1 bra END; ${FENCE} ${TICKET}
     setp.ne.u32 %p3, %r6, 2; @%p3 bra END; ld.global.u32 %r8, [%rd1]; ld.global.u32 %r9, [%rd1+300]; END:`,
    SEVERAL,
  ],
  [
    'a flag behind a fence',
    `@!%p2 bra READER; st.global.u32 [%rd1], %r4; ${FENCE} st.volatile.global.u32 [%rd1+64], 1; bra END;
     READER: ${waitFor('[%rd1+64]')} ld.global.u32 %r5, [%rd1]; END:`,
    ONE_WARP_EACH,
  ],
  [
    'a flag that is released and acquired',
    `@!%p2 bra READER; st.global.u32 [%rd1], %r4; st.release.gpu.global.u32 [%rd1+64], 1; bra END;
     READER: ${waitFor('[%rd1+64]').replace('ld.volatile', 'ld.acquire.gpu')} ld.global.u32 %r5, [%rd1]; END:`,
    ONE_WARP_EACH,
  ],
  [
    'a lock',
    `@!%p1 bra END; LOCK: atom.global.cas.b32 %r5, [%rd1+64], 0, 1; setp.ne.u32 %p3, %r5, 0; @%p3 bra LOCK; ${FENCE}
     ${add('[%rd1]')} ${FENCE} atom.global.exch.b32 %r5, [%rd1+64], 0; END:`,
    SEVERAL,
  ],
  [
    'a load that looks whether an atomic is worth it',
    'ld.global.u32 %r5, [%rd1]; setp.lt.u32 %p3, %r5, %r3; @%p3 red.global.max.u32 [%rd1], %r3;',
    SEVERAL,
  ],
]

describe('accesses of two blocks or two warps to the same bytes, which nothing orders, race', () => {
  for (const [name, body, shape] of WRONG) {
    it(name, () => {
      const [found, ...others] = races(body, shape)
      assert.equal(found?.kind, 'global-memory-race')
      assert.match(found.message, /of global memory at 0x[0-9a-f]+.*nothing orders them/)
      for (const { kind } of others) assert.equal(kind, 'global-memory-race')
    })
  }
})

describe('what barriers, fences, atomics and flags order does not race', () => {
  for (const [name, body, shape] of RIGHT) it(name, () => assert.deepEqual(races(body, shape), []))
})

it('a finding names both sides, and the instruction of the first', () => {
  const [found] = races('@%p1 st.global.u32 [%rd1+8], %r2;', { grid: 2, block: 32 })
  assert.ok(found)
  assert.match(
    found.message,
    /^Warp 0 of block \(0,0,0\) and warp 0 of another block access 4 bytes .*, 8 bytes behind the start of its block, and nothing orders them, first by 'st\.global\.u32' at line 10 of the PTX\. In block \(1,0,0\)/,
  )
})

it('memory that a launch does not write, as its caller says, is left out', () => {
  assert.deepEqual(
    races(add('[%rd1]'), SEVERAL, () => false),
    [],
  )
})
