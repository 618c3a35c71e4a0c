/** Kernels that do not wait for their copies, or for the blocks of their cluster, and what the launch says of them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  beginText,
  CLUSTER_SYNC,
  fill,
  type HopperCase,
  initBars,
  kernelText,
  pattern,
  waitFor,
  zeros,
} from './hopper-case.js'
import { play } from './hopper-machine.js'

const LOAD = 'cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes'
const STORE = 'cp.async.bulk.global.shared::cta.bulk_group'
const EXPECT = '@%first mbarrier.arrive.expect_tx.shared::cta.b64 %d0, [%bars],'
const OTHER = 'xor.b32 %r1, %rank, 1;\nmapa.shared::cluster.u32 %r2, %smem, %r1;'

function program(body: readonly string[], rest: Partial<HopperCase> = {}): HopperCase {
  return {
    ...{ name: 'program', grid: [1, 1, 1], block: [32, 1, 1] },
    buffers: [pattern(1024), zeros(1024)],
    args: [{ buffer: 0 }, { buffer: 1 }],
    ptx: kernelText({ tile: 1024, bars: 1, body: body.join('\n') }),
    ...rest,
  }
}

const kindsOf = (each: HopperCase): readonly string[] => [
  ...new Set(play(each, { checked: true }).findings.map(({ kind }) => kind)),
]
const PAIR = { grid: [2, 1, 1], cluster: [2, 1, 1] } as const

test('shared memory that is read before the phase of the mbarrier is a finding, with both lines', () => {
  beginText()
  const start = [initBars([1]), `${EXPECT} 512;`, `@%first ${LOAD} [%smem], [%in], 512, [%bars];`]
  const { findings } = play(program([...start, '@%first ld.shared.u32 %r1, [%smem];']), { checked: true })
  assert.match(
    findings[0]?.message ?? '',
    /reads byte 0 of shared memory, to which the copy by 'cp\.async\.bulk.*wait for the phase/,
  )
  assert.deepEqual(
    findings.map(({ kind }) => kind),
    ['unfinished-copy'],
  )
  assert.deepEqual(kindsOf(program([...start, waitFor(), 'ld.shared.u32 %r1, [%smem];'])), [])
  // Another part of shared memory is free.
  assert.deepEqual(kindsOf(program([...start, '@%first st.shared.u32 [%smem+512], 1;', waitFor()])), [])
})

test('the source of a store that is written before wait_group.read is a finding, and an end before it is none', () => {
  beginText()
  const start = [fill(512), `@%first ${STORE} [%out], [%smem], 512;`, '@%first cp.async.bulk.commit_group;']
  const write = '@%first st.shared.u32 [%smem+4], 1;'
  const wait = '@%first cp.async.bulk.wait_group.read 0;'
  assert.deepEqual(kindsOf(program([...start, write, wait])), ['unfinished-copy'])
  assert.deepEqual(kindsOf(program([...start, wait, write])), [])
  // An H200 keeps the shared memory of a block that has ended until its stores have read it, and DeepGEMM relies on that.
  assert.deepEqual(kindsOf(program(start)), [])
  assert.deepEqual(kindsOf(program([...start, '@%first cp.async.bulk.wait_group.read 1;', write, wait])), [
    'unfinished-copy',
  ])
})

test('a copy of what a thread wrote without fence.proxy.async is a finding', () => {
  beginText()
  const rest = [
    `@%first ${STORE} [%out], [%smem], 64;`,
    '@%first cp.async.bulk.commit_group;',
    '@%first cp.async.bulk.wait_group 0;',
  ]
  const write = '@%first st.shared.u32 [%smem], 7;'
  assert.deepEqual(kindsOf(program([fill(512), write, 'bar.sync 0;', ...rest])), ['missing-proxy-fence'])
  assert.deepEqual(kindsOf(program([fill(512), write, 'fence.proxy.async;', 'bar.sync 0;', ...rest])), [])
})

test('bytes that a bulk copy has overwritten are its own, and a fence of global memory alone is no fence of shared memory', () => {
  beginText()
  const start = [fill(512), initBars([1]), '@%first st.shared.u32 [%smem], 7;', `${EXPECT} 64;`]
  const rest = [
    waitFor(),
    `@%first ${STORE} [%out], [%smem], 64;`,
    '@%first cp.async.bulk.commit_group;',
    '@%first cp.async.bulk.wait_group 0;',
  ]
  assert.deepEqual(kindsOf(program([...start, `@%first ${LOAD} [%smem], [%in], 64, [%bars];`, ...rest])), [])
  const other = `@%first ${LOAD} [%smem+512], [%in], 64, [%bars];`
  assert.deepEqual(kindsOf(program([...start, other, ...rest])), ['missing-proxy-fence'])
  assert.deepEqual(kindsOf(program([...start, other, 'fence.proxy.async.global;', ...rest])), ['missing-proxy-fence'])
  assert.deepEqual(kindsOf(program([...start, other, 'fence.proxy.async.shared::cta;', ...rest])), [])
})

/** Copies 16 bytes for each thread to its own place in a stage of 512 bytes. */
const copyAsync = (stage: number): string =>
  `shl.b32 %r4, %me, 4; cvt.u64.u32 %d1, %r4; add.u64 %d2, %in, %d1; add.u32 %r5, %smem, %r4;
cp.async.cg.shared.global [%r5+${512 * stage}], [%d2], 16;`
const readOwn = (stage: number): string => `ld.shared.u32 %r6, [%r5+${512 * stage}];`
/** Reads what the lane 31 - %me has copied. */
const readOther = (stage: number): string =>
  `xor.b32 %r7, %r4, 496; add.u32 %r7, %smem, %r7; ld.shared.u32 %r6, [%r7+${512 * stage}];`
const COMMIT = 'cp.async.commit_group;'

test('cp.async: what a thread reads or writes before the wait is a finding, with both lines', () => {
  beginText()
  const { findings } = play(program([copyAsync(0), COMMIT, readOwn(0)]), { checked: true })
  assert.match(
    findings[0]?.message ?? '',
    /Thread 0 reads byte 0 of shared memory, to which the copy by 'cp\.async\.cg.* line \d+ .*let thread 0 wait for it by cp\.async\.wait_group or/,
  )
  const kinds: readonly (readonly [name: string, body: readonly string[], kinds: readonly string[]])[] = [
    ['a read', [copyAsync(0), COMMIT, readOwn(0)], ['unfinished-copy']],
    ['a write', [copyAsync(0), COMMIT, 'st.shared.u32 [%r5+8], 0;'], ['unfinished-copy']],
    ['a group that is not closed', [copyAsync(0), 'cp.async.wait_group 0;', readOwn(0)], ['unfinished-copy']],
    ['a wait for all', [copyAsync(0), 'cp.async.wait_all;', readOwn(0)], []],
    ['a wait for the group', [copyAsync(0), COMMIT, 'cp.async.wait_group 0;', readOwn(0)], []],
    [
      'a wait for older groups alone',
      [copyAsync(0), COMMIT, 'cp.async.wait_group 1;', readOwn(0)],
      ['unfinished-copy'],
    ],
    ['another place', [copyAsync(0), COMMIT, 'st.shared.u32 [%r5+512], 0;', readOwn(1)], []],
    ['the next copy to the place', [copyAsync(0), COMMIT, copyAsync(0), COMMIT, 'cp.async.wait_all;', readOwn(0)], []],
    ['an empty group', [copyAsync(0), COMMIT, COMMIT, 'cp.async.wait_group 1;', readOwn(0)], []],
  ]
  for (const [name, body, expected] of kinds) assert.deepEqual(kindsOf(program(body)), expected, name)
})

test('cp.async: a barrier is no wait, and the thread that copied has to wait before it', () => {
  beginText()
  const start = [copyAsync(0), COMMIT]
  assert.deepEqual(kindsOf(program([...start, 'bar.sync 0;', readOther(0)])), ['unfinished-copy'])
  assert.deepEqual(kindsOf(program([...start, 'cp.async.wait_group 0;', 'bar.sync 0;', readOther(0)])), [])
  const { findings } = play(program([...start, 'bar.sync 0;', readOther(0)]), { checked: true })
  assert.match(findings[0]?.message ?? '', /let thread 31 wait .* first, and then meet thread 0 at a barrier/)
})

test('cp.async: two stages in turn, each waited for while the next is on its way, are no finding', () => {
  beginText()
  const turns = (left: number): string[] => {
    const parts = [copyAsync(0), COMMIT]
    for (let turn = 0; turn < 6; turn++) {
      parts.push(copyAsync((turn + 1) % 2), COMMIT, `cp.async.wait_group ${left};`, 'bar.sync 0;')
      parts.push(readOther(turn % 2), 'bar.sync 0;')
    }
    return parts
  }
  assert.deepEqual(kindsOf(program(turns(1))), [])
  assert.deepEqual(kindsOf(program(turns(2))), ['unfinished-copy'])
})

test('cp.async: an mbarrier counts the copies of the threads that arrive by them, and its wait is theirs', () => {
  beginText()
  const arrive = (what: string): string => `cp.async.mbarrier.arrive${what}.shared::cta.b64 [%bars];`
  const plain = 'mbarrier.arrive.shared::cta.b64 %d0, [%bars];'
  const bars = initBars([32])
  assert.deepEqual(kindsOf(program([bars, copyAsync(0), arrive('.noinc'), waitFor(), readOther(0)])), [])
  assert.deepEqual(kindsOf(program([bars, copyAsync(0), arrive(''), plain, waitFor(), readOther(0)])), [])
  // An arrival of the thread alone does not wait for its copies.
  assert.deepEqual(kindsOf(program([bars, copyAsync(0), plain, waitFor(), readOther(0)])), ['unfinished-copy'])
  // Copies behind the arrival are not counted.
  assert.deepEqual(
    kindsOf(program([bars, copyAsync(0), arrive('.noinc'), copyAsync(1), waitFor(), readOther(0), readOther(1)])),
    ['unfinished-copy'],
  )
})

test('blocks of a cluster race unless they meet', () => {
  beginText()
  const body = (between: string): HopperCase =>
    program(
      [
        fill(512),
        CLUSTER_SYNC,
        OTHER,
        '@%first st.shared::cluster.u32 [%r2], 1;',
        between,
        'ld.shared.u32 %r3, [%smem];',
        CLUSTER_SYNC,
      ],
      PAIR,
    )
  assert.deepEqual(kindsOf(body('bar.sync 0;')), ['shared-memory-race'])
  assert.deepEqual(kindsOf(body(CLUSTER_SYNC)), [])
})

test('the shared memory of a block that has ended is a finding, and a fault where it is read', () => {
  beginText()
  const body = (access: string): HopperCase =>
    program([fill(512), CLUSTER_SYNC, OTHER, 'setp.eq.u32 %p1, %rank, 1;', '@%p1 exit;', access], PAIR)
  // The block of rank 1 is the last to meet, and ends in the same turn.
  const read = play(body('ld.shared::cluster.u32 %r3, [%r2];'), { checked: true })
  assert.deepEqual([read.findings[0]?.kind, read.fault?.number], ['block-that-ended', 719])
  const written = play(body('st.shared::cluster.u32 [%r2], 1;'), { checked: true })
  assert.deepEqual([written.findings[0]?.kind, written.fault], ['block-that-ended', undefined])
})

test('an mbarrier that never gets its bytes ends the launch, and the message says how many it lacks', () => {
  beginText()
  const lacking = play(
    program([initBars([1]), `${EXPECT} 512;`, `@%first ${LOAD} [%smem], [%in], 256, [%bars];`, waitFor()]),
  )
  assert.equal(lacking.fault?.number, 702)
  assert.match(lacking.fault?.message ?? '', /the mbarrier at byte 1024 of shared memory, which lacks 256 bytes/)
  const nobody = play(program([initBars([3]), `${EXPECT} 0;`, waitFor()]))
  assert.match(nobody.fault?.message ?? '', /lacks 2 arrivals/)
  const surplus = play(
    program([initBars([1]), `${EXPECT} 64;`, `@%first ${LOAD} [%smem], [%in], 256, [%bars];`, waitFor()]),
  )
  assert.match(surplus.fault?.message ?? '', /lacks an expect_tx for 192 bytes that have come/)
})

test('a cluster that never meets ends the launch, with the block and the line', () => {
  beginText()
  const body = [
    'setp.eq.u32 %p1, %rank, 0;',
    '@%p1 bra WAITS;',
    initBars([1]),
    waitFor(),
    'WAITS: barrier.cluster.arrive;\nbarrier.cluster.wait;',
  ]
  const { fault } = play(program(body, PAIR))
  assert.equal(fault?.number, 702)
  assert.match(
    fault?.message ?? '',
    /32 threads of block \(0,0,0\) wait for their cluster, by 'barrier\.cluster\.wait'/,
  )
  assert.match(fault?.message ?? '', /block \(1,0,0\) waits for the mbarrier .* lacks 1 arrival/)
})

test('an access of own shared memory by an address of another block is refused as on an H200', () => {
  beginText()
  const { fault } = play(program([fill(512), CLUSTER_SYNC, OTHER, 'ld.shared.u32 %r3, [%r2];', CLUSTER_SYNC], PAIR))
  assert.equal(fault?.number, 715)
  assert.match(fault?.message ?? '', /write \.shared::cluster/)
})
