/**
 * The pairs of the table and the stories: exploration says that each bug is one and that its fixed version is none; the sanitizer
 * finds the one in a single run, says nothing of the other, and following its advice, or letting it fix it, makes the program
 * right. What is not so is listed here, with the reason. To explore takes time: here it is done for one pair of so
 * many, and for all by `node dist/tests/tools/sanitizer/pairs/count.js`.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ofTheDay } from '../../../helpers/of-the-day.js'
import { withoutPromiseHooks } from '../../../helpers/run-time.js'
import { type PairedProgram, pairs } from './pairs.js'
import { explored, fixedByAdvice, reportsOf } from './run.js'
import { stories } from './stories.js'

/** What its name begins with, or all of it, and why. */
type Exceptions = Readonly<Record<string, string>>

/** One run is judged by what JavaScript has waited for, and the wait that is none of the two has let the other end too. */
const UNRELATED = 'the host function has run by the time that the promise settles'

const MISSED: Exceptions = {
  'host function writes, kernel in, pinned: a promise of another stream': UNRELATED,
  'host function reads, kernel out, pinned: a promise of another stream': UNRELATED,
}
const NOT_BY_ADVICE: Exceptions = {
  'a kept view is written': 'where JavaScript writes is not seen',
  'an array that is registered is written': 'the same',
  'a graph whose branches': 'the line belongs into the middle of a step',
}
const NOT_FIXED: Exceptions = {
  ...NOT_BY_ADVICE,
  'host function writes, ': 'what a host function touches is known when it has run',
  'host function reads, ': 'the same',
  'two host functions': 'the same',
  'a host function queues work': 'what is to come later is queued by then',
}
const FOLLOWED = 8

const isIn = (exceptions: Exceptions, name: string): boolean =>
  Object.keys(exceptions).some((one) => name.startsWith(one))

function check({ name, devices, bug, fixed }: PairedProgram, isFollowed: boolean): void {
  it(name, async () => {
    const alarms = await reportsOf(fixed, devices)
    assert.deepEqual(
      alarms.map(({ message }) => message),
      [],
    )
    const found = await reportsOf(bug, devices)
    assert.equal(found.length === 0, isIn(MISSED, name), 'it is found')
    if (!withoutPromiseHooks) {
      assert.ok(
        (await reportsOf(bug, devices, true)).length > 0,
        'it is found where waits order only what comes of them',
      )
      assert.deepEqual(await reportsOf(fixed, devices, true), [], 'and its fixed version is not')
    }
    if (!isFollowed) return
    assert.equal((await explored(bug, devices)).verdict, 'disagree', 'the bug is one')
    const right = await explored(fixed, devices)
    assert.deepEqual([right.verdict, right.complete], ['agree', true], `its fixed version is none: ${right.message}`)
    if (found.length === 0 || isIn(NOT_FIXED, name)) return
    assert.equal((await explored(bug, devices, true)).verdict, 'agree', `it can be fixed: ${found[0]?.message}`)
  })
  if (!isFollowed || isIn({ ...NOT_BY_ADVICE, ...MISSED }, name)) return
  it(`${name}: the advice`, async () => {
    const advised = await fixedByAdvice(bug, devices)
    assert.ok(advised, 'can be followed')
    assert.equal((await explored(advised, devices)).verdict, 'agree', 'helps')
  })
}

/** In so many days each pair has its turn. */
const DAYS = 3

describe('pairs of the table', () => {
  const all = pairs()
  it('are two hundred at least', () => assert.ok(all.length >= 200))
  for (const [index, pair] of ofTheDay([...all.entries()], DAYS)) check(pair, index % FOLLOWED === 0)
})

describe('stories', () => {
  for (const pair of stories) check(pair, true)
})
