/** A wait that is missing shows on the default simulator, every time; a program that has its waits is right in every order. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { type Event, Stream } from 'cuda-streams'
import { busy, latch, simulate } from 'cuda-streams/sim'
import { bugs } from '../../examples/ordering-bugs/bugs.js'
import type { Program } from '../../examples/ordering-bugs/scene.js'
import { root } from '../helpers/root.js'
import { commonest } from './missing-waits.js'

/** These depend on when a host function runs: nothing puts that off. */
const OF_HOST_FUNCTIONS: readonly string[] = [
  'pinned memory written by a host function, copied by another stream',
  'two host functions, one variable',
  'fill queued by a host function',
]
const SEEDS = Array.from({ length: 20 }, (_, index) => index + 1)
const PAGE = 'docs/internals/exploration.md'

async function resultOf(program: Program, seed?: number): Promise<string> {
  using simulation = simulate({ devices: 2, seed })
  return JSON.stringify(await program(simulation))
}

describe('a missing wait, on the simulator', () => {
  const found = new Map<string, string[]>()

  for (const { name, broken, fixed } of [...commonest, ...bugs]) {
    it(`shows without a seed, each time, and never where the wait is there: ${name}`, async () => {
      const right = await resultOf(fixed)
      let shown = 0
      for (const seed of SEEDS) {
        assert.equal(await resultOf(fixed, seed), right, `fixed, seed ${seed}`)
        if ((await resultOf(broken, seed)) !== right) shown += 1
      }
      const wrong = await resultOf(broken)
      if (OF_HOST_FUNCTIONS.includes(name)) assert.equal(wrong, right, 'it shows now: say so in the docs')
      else assert.notEqual(wrong, right)
      assert.equal(await resultOf(broken), wrong, 'the default simulator takes one order')
      const times = `${String(shown).padStart(2)} of ${SEEDS.length}${wrong === right ? ', and not without a seed' : ''}`
      found.set(times, [...(found.get(times) ?? []), name])
    })
  }

  it('is in the table of the guide as it was found here', async () => {
    const page = await readFile(join(root, PAGE), 'utf8')
    const rows = [...found]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([times, names]) => `| ${times.trim()} | ${names.join('; ')} |`)
    const table = page.split('\n').filter((line) => /^\| \d+ of \d+/.test(line))
    assert.deepEqual(table, rows, `${PAGE} has to have:\n${rows.join('\n')}`)
  })
})

describe('effects that are put off', () => {
  it('are all there after the launch of a graph with many of them', async () => {
    const [device] = simulate().devices
    assert.ok(device)
    const stream = new Stream({ device })
    const [buffer, pinned] = [device.alloc(500), device.allocPinned(500)]
    const exec = stream
      .capture(() => {
        for (let nth = 0; nth < 500; nth += 1) stream.fill(buffer.subarray(nth, nth + 1), nth % 251)
        stream.copy(pinned, buffer)
      })
      .instantiate()
    for (let launch = 0; launch < 3; launch += 1) {
      stream.fill(buffer, 255)
      exec.launch(stream)
      stream.synchronize()
      assert.deepEqual(
        [...pinned.bytes],
        Array.from({ length: 500 }, (_, nth) => nth % 251),
      )
    }
  })

  it('are never there of work that a query calls unfinished, or of work behind it', async () => {
    const [device] = simulate().devices
    assert.ok(device)
    const [early, late] = [new Stream({ device }), new Stream({ device })]
    const [shared, pinned] = [device.alloc(1), device.allocPinned(1)]
    late.fill(shared, 1).copy(pinned, shared)
    busy(early, 1e6)
    const before = early.record()
    // Queued later, and ordered by nothing: it comes before the fill with 1.
    early.fill(shared, 2)
    late.synchronize()
    const isDone = before.query()
    early.synchronize()
    late.copy(pinned, shared).synchronize()
    assert.deepEqual([...pinned.bytes], [1], 'the later fill came first')
    assert.ok(isDone, 'the event was recorded before the fill that came first')
  })

  it('are never done before a host function that they come after, whatever else is waited for', async () => {
    const [device] = simulate().devices
    assert.ok(device)
    const [stream, other] = [new Stream({ device }), new Stream({ device })]
    const [first, second] = [device.alloc(4), device.alloc(4)]
    for (const looks of [
      (event: Event) => event.finished(),
      async (event: Event) => event.synchronize(),
      async (event: Event) => void (event.query() || event.synchronize()),
      (event: Event) => other.wait(event).finished(),
      async (event: Event) => void (await other.wait(event).download(first)),
      (event: Event) => new Promise<void>((resolve) => void other.wait(event).launchHostFunc(resolve)),
    ]) {
      const pinned = device.allocPinned(4)
      stream.fill(first, 1)
      const filled = stream.record()
      const gate = latch(stream)
      stream.launchHostFunc(() => pinned.bytes.fill(9))
      stream.copy(second, pinned)
      gate.open()
      await looks(filled)
      assert.deepEqual([...(await stream.download(second))], [9, 9, 9, 9])
    }
  })
})
