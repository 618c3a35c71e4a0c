/**
 * Law: the recordings of ranks come to one axis by the ends of their collectives, whatever their clocks say, and the rank that the others wait for is named
 * with what it did. The recordings are written here, of runs whose true times are known.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { StreamHandle } from '../../../src/foundation/driver/handle-types.js'
import { Random } from '../../../src/simulator/machine/random.js'
import { Journal } from '../../../src/tools/recording/journal.js'
import { VERSION } from '../../../src/tools/recording/lines.js'
import { type Ranks, readRanks, reportOf } from '../../../src/tools/recording/ranks.js'
import { root } from '../../helpers/root.js'

const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-ranks-'))
after(() => rmSync(folder, { recursive: true }))
const command = join(root, 'dist', 'src', 'tools', 'cli', 'main.js')

const MILLISECOND = 1e6
const EPOCH = 1_700_000_000_000_000_000

interface Run {
  readonly name: string
  readonly ranks: number
  readonly steps: number
  /** The nanoseconds of a rank's own kernel in a step, and of the host before it. */
  readonly work: (rank: number, step: number) => number
  readonly host?: (rank: number, step: number) => number
  /** What a rank's clock is late by, and how much faster it goes. */
  readonly clock?: (rank: number) => { readonly late: number; readonly drift: number }
  /** The groups of ranks that have a communicator each; by default one with all. */
  readonly groups?: readonly (readonly number[])[]
  readonly ranked?: boolean
}

interface Written {
  readonly files: readonly string[]
  /** The true times at which each rank began its work, since the first rank did. */
  readonly began: readonly number[]
}

/** Writes the recordings of a run: in each step a rank computes on a stream, and reduces with the others of each of its groups. */
function written(run: Run): Written {
  const groups = run.groups ?? [Array.from({ length: run.ranks }, (_, rank) => rank)]
  const random = new Random(run.ranks + run.steps)
  const operations: { name: string; stream: number; start: number; end: number }[][] = []
  const now = Array.from({ length: run.ranks }, (_, rank) => {
    operations.push([])
    return 1000 * MILLISECOND * (rank % 3)
  })
  const began = [...now]
  for (let step = 0; step < run.steps; step += 1) {
    for (let rank = 0; rank < run.ranks; rank += 1) {
      const start = (now[rank] ?? 0) + (run.host?.(rank, step) ?? 0)
      const end = start + run.work(rank, step)
      operations[rank]?.push({ name: step % 2 === 0 ? 'forward' : 'backward', stream: 1, start, end })
      now[rank] = end
    }
    for (const [group, members] of groups.entries()) {
      // Without work between them, collectives of two groups would end together as one does.
      const starts = members.map((rank) => (now[rank] ?? 0) + 2000 + (group < 2 ? 0 : 200_000 * random.next()))
      const end = Math.max(...starts) + 300_000
      for (const [index, rank] of members.entries()) {
        const ends = end + 3000 * random.next()
        const name = 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)'
        operations[rank]?.push({ name, stream: 2 + group, start: starts[index] ?? 0, end: ends })
        now[rank] = ends
      }
    }
  }
  const files = operations.map((own, rank) => {
    const { late, drift } = run.clock?.(rank) ?? { late: 0, drift: 0 }
    const first = own[0]?.start ?? 0
    const clockOf = (time: number): number => (time - first) * (1 + drift)
    const file = join(folder, `${run.name}-${1000 + 7 * ((rank * 5) % 11)}.rec`)
    const header = {
      recording: VERSION,
      driver: 'cuda',
      clock: 'host',
      stacks: 'all',
      epoch: EPOCH + first + late,
      devices: [{ name: 'GPU', multiprocessors: 132, threads: 2048 }],
      ...(run.ranked === false ? {} : { rank }),
    } as const
    const journal = new Journal(file, header, () => 0)
    const times: [number, number, number][] = []
    for (const { name, stream, start, end } of own) {
      const called = clockOf(start) - 1000
      const work = {
        kind: 'library',
        calls: [{ name, stream: stream as StreamHandle, memory: [] }],
        operation: {
          kind: 'kernel',
          name,
          byteLength: undefined,
          engine: undefined,
          grid: undefined,
          block: undefined,
          host: false,
          possible: false,
        },
      } as const
      const call = journal.call({ call: 'queue', work }, called, called + 500)
      times.push([call, clockOf(start), clockOf(end)])
    }
    journal.times(times)
    journal.close()
    return file
  })
  return { files, began }
}

const even = (): number => 5 * MILLISECOND
const noise = (rank: number, step: number): number => 5 * MILLISECOND + ((rank * 7919 + step * 104_729) % 100_000)

/** The greatest distance of the ends of a collective on the axis. */
const apart = ({ meetings }: Ranks): number =>
  Math.max(
    ...meetings.map(({ members }) => {
      const ends = members.map(({ collective }) => collective.end)
      return Math.max(...ends) - Math.min(...ends)
    }),
  )

const why = (files: readonly string[]): string => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, 'why', ...files], { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
  return stdout
}

describe('the recordings of ranks', () => {
  const clocks: Readonly<Record<string, NonNullable<Run['clock']>>> = {
    'one clock': () => ({ late: 0, drift: 0 }),
    'clocks that are apart': (rank) => ({ late: rank * 40 * MILLISECOND, drift: 0 }),
    'clocks that drift': (rank) => ({ late: rank * -7 * MILLISECOND, drift: rank * 2e-5 }),
  }
  for (const [name, clock] of Object.entries(clocks))
    it(`come to one axis with ${name}`, async () => {
      const { files } = written({ name: name.replaceAll(' ', '-'), ranks: 4, steps: 60, work: noise, clock })
      const all = await readRanks(files)
      assert.equal(all.meetings.length, 59)
      assert.ok(apart(all) < 12_000, `${apart(all)} ns apart`)
      assert.deepEqual(
        all.ranks.map((rank) => rank.name),
        ['rank 0', 'rank 1', 'rank 2', 'rank 3'],
      )
    })

  it('of groups that share no rank come to one axis by those between', async () => {
    const groups = [
      [0, 1],
      [2, 3],
      [0, 2],
      [1, 3],
    ]
    const clock = (rank: number) => ({ late: rank * 90 * MILLISECOND, drift: 0 })
    const { files } = written({ name: 'groups', ranks: 4, steps: 40, work: noise, clock, groups })
    const all = await readRanks(files)
    assert.ok(apart(all) < 12_000, `${apart(all)} ns apart`)
    // Each meeting has the two ranks of its group, and no other.
    for (const { members } of all.meetings) {
      const ranks = members.map(({ rank }) => rank)
      assert.ok(
        groups.some((group) => group.join() === ranks.join()),
        ranks.join(),
      )
    }
    assert.equal(all.meetings.length, 4 * 39)
  })

  it('name the rank whose GPU is slower, with the kernel', async () => {
    const work = (rank: number, step: number): number =>
      noise(rank, step) + (rank === 2 && step % 2 === 1 ? 3 * MILLISECOND : 0)
    const { files } = written({ name: 'slow', ranks: 4, steps: 60, work })
    const report = reportOf(await readRanks(files))
    assert.equal(report.straggler, 2)
    const awaited = report.ranks[2]?.awaited ?? 0
    assert.ok(awaited > 85 * MILLISECOND && awaited < 95 * MILLISECOND, `${awaited}`)
    const text = why(files)
    assert.match(
      text,
      /^rank 2 is the straggler: \d+ times of 59 it was the last to begin, and others waited 8\d\.\d ms|9\d\.\d ms/m,
    )
    assert.match(text, /kernel 'backward' \(.*\) took \d+ ms, elsewhere \d+ ms/)
    assert.doesNotMatch(text, /kernel 'forward'/)
  })

  it('name the rank whose host comes late', async () => {
    const host = (rank: number): number => (rank === 1 ? 2 * MILLISECOND : 0)
    const { files } = written({ name: 'host', ranks: 3, steps: 60, work: noise, host })
    assert.match(
      why(files),
      /^rank 1 is the straggler: .*\n {2}Between collectives its GPU was idle for 11\d ms longer than the others': its host comes late\. cuda-streams why .*\.rec says where\.$/m,
    )
  })

  it('name no straggler where all are alike, or take turns', async () => {
    const turns = (rank: number, step: number): number => even() + (step % 3 === rank ? MILLISECOND : 0)
    for (const [name, work] of [
      ['alike', noise],
      ['turns', turns],
    ] as const) {
      const { files } = written({ name, ranks: 3, steps: 60, work })
      assert.match(why(files), /^No rank is a straggler: /m)
    }
  })

  it('do not count that a process began later', async () => {
    const { files, began } = written({ name: 'late', ranks: 3, steps: 30, work: noise })
    assert.ok(Math.max(...began) > 1000 * MILLISECOND)
    assert.equal(reportOf(await readRanks(files)).straggler, undefined)
  })

  it('have the names of their files where no launcher has numbered them', async () => {
    const { files } = written({ name: 'unnamed', ranks: 2, steps: 20, work: noise, ranked: false })
    const { ranks } = await readRanks(files)
    assert.deepEqual(
      ranks.map(({ name }) => name),
      ['unnamed-1000', 'unnamed-1035'],
    )
  })

  it('are drawn on one page, one picture and one trace, each rank with its streams', () => {
    const { files } = written({
      name: 'drawn',
      ranks: 2,
      steps: 20,
      work: noise,
      clock: (rank) => ({ late: rank * 1e9, drift: 0 }),
    })
    for (const extension of ['html', 'svg', 'txt', 'json']) {
      const out = join(folder, `drawn.${extension}`)
      const { status, stderr } = spawnSync(process.execPath, [command, 'timeline', ...files, '--out', out], {
        encoding: 'utf8',
      })
      assert.equal(status, 0, stderr)
      if (extension !== 'html')
        for (const rank of ['rank 0', 'rank 1']) assert.ok(readFileSync(out, 'utf8').includes(rank), out)
    }
    const { traceEvents } = JSON.parse(readFileSync(join(folder, 'drawn.json'), 'utf8'))
    const ends = traceEvents.flatMap(
      ({ ph, cat, name, ts, dur }: { ph: string; cat: string; name: string; ts: number; dur: number }) =>
        ph === 'X' && cat === 'kernel' && name.startsWith('nccl') ? [ts + dur] : [],
    )
    const sorted: number[] = [...ends].sort((a: number, b: number) => a - b)
    assert.equal(sorted.length, 40)
    for (let at = 0; at < sorted.length; at += 2) {
      const distance = (sorted[at + 1] ?? 0) - (sorted[at] ?? 0)
      assert.ok(distance < 12, `${distance} µs`)
    }
  })

  it('without a collective in common are refused, with the way out', () => {
    const { files } = written({ name: 'one', ranks: 2, steps: 1, work: noise })
    const refused = spawnSync(process.execPath, [command, 'why', ...files], { encoding: 'utf8' })
    assert.equal(refused.status, 1)
    assert.match(
      refused.stderr,
      /has no collective in common with rank 0: give the recordings of one run, or each alone/,
    )
  })
})
