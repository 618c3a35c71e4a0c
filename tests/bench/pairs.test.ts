/** Ours and C in one process: what disturbs both is not in their ratio, and what one of them takes more is. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Pairs, playPairs } from '../../bench/pairs.js'
import { summaryOf } from '../../bench/statistics.js'

interface Played {
  readonly side: 'ours' | 'c'
  readonly calls: number
  readonly ns: number
}

/** The machine becomes slower all the time: the last slices take twenty times as long as the first. */
async function play(
  perCall: { readonly ours: number; readonly c: number },
  mostCalls: number,
): Promise<Pairs & { readonly bursts: readonly Played[] }> {
  const bursts: Played[] = []
  const side = (name: 'ours' | 'c') => (calls: number) => {
    const ns = calls * perCall[name] * 1.002 ** bursts.length
    bursts.push({ side: name, calls, ns })
    return ns
  }
  const options = { mostCalls, warmUpMs: 0, pairs: 400, limitMs: Number.POSITIVE_INFINITY }
  return { ...(await playPairs(side('ours'), side('c'), options)), bursts }
}

describe('a row that C plays in the same process', () => {
  it('shows a tenth that ours takes longer, though the machine changes by more', async () => {
    const [same, slower] = [await play({ ours: 300, c: 200 }, 1000), await play({ ours: 330, c: 200 }, 1000)]
    const [before, after] = [summaryOf(same.ratios), summaryOf(slower.ratios)]
    assert.equal(same.ratios.length, 400)
    assert.ok(Math.abs((before?.median ?? 0) - 1.5) < 0.01, `${before?.median}`)
    assert.ok(Math.abs((after?.median ?? 0) - 1.65) < 0.01, `${after?.median}`)
    assert.ok((before?.high ?? 0) < (after?.low ?? 0))
    assert.ok(same.ours > 1.5 * 300)
  })

  it('has slices that take equally long on both sides, who take turns in going first', async () => {
    const { bursts } = await play({ ours: 1000, c: 100 }, 1000)
    const slices = bursts.slice(2)
    assert.deepEqual(
      slices.slice(0, 8).map(({ side, calls }) => `${side} ${calls}`),
      ['ours 100', 'c 999', 'c 999', 'ours 100', 'ours 100', 'c 999', 'c 999', 'ours 100'],
    )
  })

  it('has no more calls between two waits than a hardware queue takes, and more bursts in a slice instead', async () => {
    const { bursts } = await play({ ours: 20_000, c: 10_000 }, 2)
    assert.equal(Math.max(...bursts.map(({ calls }) => calls)), 2)
    const slices = bursts.slice(2, 12).map(({ side }) => side)
    assert.deepEqual(slices, [...Array(3).fill('ours'), ...Array(5).fill('c'), 'c', 'c'])
  })
})
