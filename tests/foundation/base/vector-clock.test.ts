/** Vector clocks are trees: they have the times of plain arrays, and share what is equal. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import {
  Component,
  Components,
  clockThrough,
  common,
  forEachTime,
  isBefore,
  merged,
  NO_TIMES,
  timeIn,
  type VectorClock,
  withTime,
} from '../../../src/foundation/base/vector-clock.js'

/** Around the places where trees become higher, and some in between. */
const component = fc.oneof(fc.nat(70), fc.integer({ min: 1000, max: 1060 }), fc.integer({ min: 32_700, max: 33_000 }))
type Times = ReadonlyMap<number, number>
const times: fc.Arbitrary<Times> = fc
  .array(fc.tuple(component, fc.integer({ min: 1, max: 9 })), { maxLength: 12 })
  .map((entries) => new Map(entries))

const treeOf = (plain: Times): VectorClock =>
  [...plain].reduce((clock, [each, time]) => withTime(clock, each, time), NO_TIMES)

function plainOf(clock: VectorClock): Times {
  const plain = new Map<number, number>()
  forEachTime(clock, (each, time) => plain.set(each, time))
  return plain
}

const sorted = (plain: Times): readonly (readonly [number, number])[] =>
  [...plain].filter(([, time]) => time > 0).sort(([a], [b]) => a - b)

/** For each component that either has. */
function combined(one: Times, other: Times, combine: (a: number, b: number) => number): Times {
  const keys = [...new Set([...one.keys(), ...other.keys()])]
  return new Map(keys.map((key) => [key, combine(one.get(key) ?? 0, other.get(key) ?? 0)]))
}

it('a clock has the times that it was given', () => {
  fc.assert(
    fc.property(times, component, (plain, other) => {
      const clock = treeOf(plain)
      assert.deepEqual(sorted(plainOf(clock)), sorted(plain))
      for (const each of [...plain.keys(), other]) assert.equal(timeIn(clock, each), plain.get(each) ?? 0)
    }),
  )
})

it('two clocks have together the later times, and in common the earlier ones', () => {
  fc.assert(
    fc.property(times, times, (one, other) => {
      const [a, b] = [treeOf(one), treeOf(other)]
      assert.deepEqual(sorted(plainOf(merged(a, b))), sorted(combined(one, other, Math.max)))
      assert.deepEqual(sorted(plainOf(common(a, b))), sorted(combined(one, other, Math.min)))
    }),
  )
})

it('a component joins events and clocks as one with a plain clock does, and its time changes where that changes something', () => {
  fc.assert(
    fc.property(times, times, component, fc.nat(12), component, (own, given, number, time, joined) => {
      const one = new Component({ component: number, time: 10, clock: treeOf(own), begins: [] })
      const known = new Map(own).set(number, 10)
      const isNews = [...given].some(([each, at]) => at > (known.get(each) ?? 0))
      assert.equal(one.joinClock(treeOf(given)), isNews)
      assert.equal(one.time, isNews ? 11 : 10)
      if (joined === number) return
      const event = { component: joined, time: time + 1, clock: treeOf(given) }
      const isEventNews = event.time > timeIn(one.clock, joined)
      const before = one.time
      one.join(event)
      assert.ok(isBefore(event, one))
      assert.equal(one.time, isEventNews ? before + 1 : before)
      for (const [each, at] of given) assert.ok(isBefore({ component: each, time: at }, one))
    }),
  )
})

it('a clock that has all of another is the result where the two are merged', () => {
  const clock = treeOf(new Map(Array.from({ length: 3000 }, (_, each) => [each, 5])))
  const later = withTime(clock, 1500, 6)
  assert.equal(merged(clock, later), later)
  assert.equal(merged(later, clock), later)
  assert.equal(merged(later, treeOf(new Map([[3, 4]]))), later)
})

/** How many numbers and references some clocks have together, those that they share counted once. */
function sizeOf(clocks: readonly VectorClock[]): number {
  const seen = new Set<VectorClock>()
  const add = (clock: VectorClock): number => {
    if (seen.has(clock)) return 0
    seen.add(clock)
    return clock.times.length + clock.parts.length + clock.parts.reduce((sum, part) => sum + add(part), 0)
  }
  return clocks.reduce((sum, clock) => sum + add(clock), 0)
}

it('many components that a part of JavaScript waits for one after the other have clocks of a linear size', () => {
  const after = (count: number): number => {
    const components = new Components(false)
    const clocks = Array.from({ length: count }, () => {
      const one = new Component(components.begin())
      one.join(components.host.next())
      components.host.join(one.next())
      return one.clock
    })
    return sizeOf(clocks)
  }
  const [few, many] = [after(2000), after(8000)]
  assert.ok(many < 5 * few, `${few} numbers for 2000 components, ${many} for 8000`)
})

it('the number of a component is used again when nothing refers to its events any more, or all are known to be done', () => {
  const components = new Components(false)
  const referred: Component[] = []
  components.addReferences = (references) => {
    for (const each of referred) references.add(each)
  }
  const endless = new Component(components.begin()).advance()
  referred.push(endless)
  components.end(endless)
  const kept = new Component(components.begin()).advance()
  for (let nth = 0; nth < 1000; nth += 1) {
    const one = new Component(components.begin()).advance()
    assert.ok(one.component !== endless.component, 'an event of it may still be compared')
    assert.ok(one.component !== kept.component, 'it has not ended')
    components.end(one)
  }
  assert.ok(components.numbers < 100, `${components.numbers} numbers`)
  components.host.join(endless.epoch())
  const numbers = Array.from({ length: 100 }, () => new Component(components.begin()))
  const again = numbers.find((one) => one.component === endless.component)
  assert.ok(again !== undefined && again.time > endless.time, 'its times go on')
  assert.ok(isBefore(endless, again))
})

it('an event of a component whose number another has is joined in full', () => {
  const components = new Components(false)
  const source = new Component(components.begin()).advance()
  const first = new Component(components.begin())
  first.join(source.epoch())
  const event = first.next()
  components.end(first)
  const ended = Array.from({ length: 20 }, () => new Component(components.begin()).advance())
  for (const one of ended) components.end(one)
  const others = Array.from({ length: 40 }, () => new Component(components.begin()))
  const second = others.find((one) => one.component === first.component)
  assert.ok(second !== undefined, 'the number is used again')
  const waiting = new Component(components.begin())
  waiting.join(second.next())
  assert.equal(isBefore(source, waiting), false)
  waiting.join(event)
  assert.ok(isBefore(source, waiting))
  assert.deepEqual(plainOf(clockThrough(event)).get(source.component), source.time)
})
