/** What the page's file holds is what was recorded, to the nanosecond, and takes little room. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { deflateSync } from 'node:zlib'
import { Stream } from 'cuda-streams'
import { busy, simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
import fc from 'fast-check'
import { decodePage, emptyColumns, encodePage, type PageData } from '../../../src/tools/timeline/page-format.js'
import { programs, runProgram } from '../../properties/ordered-play.js'
import { dataOfPage } from './page-data.js'

const again = (data: PageData): PageData => decodePage(Buffer.concat(encodePage(data)))

describe("the page's data", () => {
  it('is read as it was written, for every program', async () => {
    const seeds = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2 ** 31 - 1 }))
    await fc.assert(
      fc.asyncProperty(programs(['nonBlocking', 'blocking', 'null']), seeds, async (program, seed) => {
        await runProgram(program, seed, async (simulation, run) => {
          const data = dataOfPage((await Timeline.record(run, { simulation, callSites: true })).toHtml())
          assert.deepEqual(again(data), data)
        })
      }),
      { seed: 20_251_122, numRuns: 50 },
    )
  })

  it('has the times of the operations, to the nanosecond', async () => {
    const simulation = simulate()
    const [device] = simulation.devices
    const stream = new Stream({ device })
    const timeline = await Timeline.record(
      () => {
        for (let i = 0; i < 100; i += 1) busy(stream, 1000 + i / 7)
      },
      { simulation },
    )
    const { start, end, kind } = dataOfPage(timeline.toHtml())
    for (const { id, ...operation } of timeline.operations) {
      assert.equal(start[id], Math.round(operation.start ?? Number.NaN))
      assert.equal(end[id], Math.round(operation.end ?? Number.NaN))
    }
    assert.equal(kind.length, 100)
  })

  /** Also what no program does: rows that point forward, times that go back. */
  it('holds any values that its columns can hold, over more than one block', () => {
    const length = 70_000
    const rows = emptyColumns(length)
    let state = 1
    const random = (): number => {
      state = (state * 48_271) % 2_147_483_647
      return state / 2_147_483_647
    }
    const fillers: Readonly<Record<string, (row: number) => number>> = {
      Uint8Array: (row) => row % 7,
      Uint32Array: () => Math.floor(random() * 2 ** 32),
      Int32Array: () => Math.floor((random() - 0.5) * 2 ** 32),
      Float64Array: (row) => (row % 11 === 0 ? Number.NaN : Math.floor((random() - 0.2) * 2 ** 50)),
    }
    for (const [name, column] of Object.entries(rows)) {
      const filler = name === 'track' ? (row: number) => row % 3 : fillers[column.constructor.name]
      assert.ok(filler)
      for (let row = 0; row < length; row += 1) column[row] = filler(row)
    }
    const track = { name: '', device: 0, id: '1', priority: 0, nonBlocking: true, nodeLevels: 0 }
    const data: PageData = {
      title: '',
      driver: 'sim',
      clock: 'virtual',
      duration: 1,
      dropped: 0,
      uncertainty: 0,
      kinds: [],
      devices: [],
      tracks: [track, track, track],
      names: ['"</script>'],
      sites: [],
      streams: [],
      overlaps: [],
      verdict: '',
      predicted: undefined,
      stalls: [],
      profiles: [],
      length,
      ...rows,
    }
    const found = again(data)
    for (const name of Object.keys(rows)) {
      const [read, written] = [found, data].map((one) => Object.entries(one).find(([key]) => key === name)?.[1])
      assert.ok(Buffer.from(read.buffer).equals(Buffer.from(written.buffer)), name)
    }
    assert.deepEqual(found.names, data.names)
  })

  it('takes a tenth of the 96 bytes an operation that it took in columns, also where no time can be guessed', async () => {
    const simulation = simulate()
    const [device] = simulation.devices
    const [a, b] = [new Stream({ device }), new Stream({ device })]
    const timeline = await Timeline.record(
      () => {
        for (let i = 0; i < 10_000; i += 1) {
          busy(a, 2000 + Math.random() * 8000)
          b.wait(a)
          busy(b, 4000 + Math.random() * 9000)
        }
      },
      { simulation },
    )
    const data = dataOfPage(timeline.toHtml())
    // On a GPU the host's clock is noise too.
    for (let row = 0; row < data.length; row += 1) {
      data.returned[row] = (data.called[row] ?? 0) + 1000 + Math.round(Math.random() * 3000)
      data.called[row + 1] = (data.returned[row] ?? 0) + 200 + Math.round(Math.random() * 2000)
    }
    const bytes = deflateSync(Buffer.concat(encodePage(data))).toString('base64').length
    assert.ok(bytes / data.length < 9.6, `${(bytes / data.length).toFixed(2)} bytes an operation`)
  })
})
