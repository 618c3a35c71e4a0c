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

test('the source of a store that is written before wait_group.read is a finding, and so is an end before it', () => {
  beginText()
  const start = [fill(512), `@%first ${STORE} [%out], [%smem], 512;`, '@%first cp.async.bulk.commit_group;']
  const write = '@%first st.shared.u32 [%smem+4], 1;'
  const wait = '@%first cp.async.bulk.wait_group.read 0;'
  assert.deepEqual(kindsOf(program([...start, write, wait])), ['unfinished-copy'])
  assert.deepEqual(kindsOf(program([...start, wait, write])), [])
  assert.deepEqual(kindsOf(program(start)), ['unfinished-copy'])
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
