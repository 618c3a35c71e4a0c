/** Exploration finds each injected bug, names the wait that is missing, and calls the fixed program clean. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { explore, replay } from 'cuda-streams/sim'
import { bugs } from '../../../examples/ordering-bugs/bugs.js'

/** What the report has to say of each: the two steps that have no order. */
const RACES: Readonly<Record<string, readonly [string, string]>> = {
  'missing wait': ['fill on stream 1', 'kernel scale on stream 2'],
  'wrong event': ['fill on stream 1', 'kernel scale on stream 3'],
  'wait before the record': ['fill on stream 1', 'kernel scale on stream 2'],
  're-recorded event': ['fill on stream 1', 'kernel add on stream 3'],
  'record before the work': ['copy on stream 1', 'kernel scale on stream 2'],
  'one of two consumers waits': ['fill on stream 1', 'kernel scale on stream 3'],
  'one of two producers is waited for': ['fill on stream 2', 'kernel add on stream 3'],
  'wait the wrong way round': ['fill on stream 1', 'kernel scale on stream 2'],
  'null stream and a non-blocking stream': ['fill on stream 1', 'kernel scale on the null stream'],
  'two writers': ['fill on stream 1', 'fill on stream 2'],
  'refilled while it is read': ['kernel scale on stream 2', 'fill (no. 2) on stream 1'],
  'ping-pong, off by one': ['kernel add (no. 2) on stream 2', 'fill (no. 4) on stream 1'],
  'freed before it is used': ['kernel scale on stream 2', 'free on stream 1'],
  'copy across devices': ['fill on stream 1', 'copy on stream 2'],
  'download on the wrong stream': ['kernel scale on stream 2', 'copy (no. 2) on stream 1'],
  'pinned memory written too early': ['copy on stream 1', 'the program at'],
  'pinned memory read too early': ['copy on stream 2', 'the program at'],
  'host function too early': ['copy on stream 1', 'host function on stream 2'],
  'query of the wrong stream': ['copy on stream 2', 'the program at'],
  'event of the frame before': ['copy (no. 2) on stream 1', 'the program at'],
  'two host functions, one variable': ['host function on stream 1', 'host function on stream 2'],
  'fill queued by a host function': ['fill on stream 2', 'on stream 3'],
  'wait lost in a capture': ['fill on stream 1', 'kernel scale on stream 1'],
  'graph launched again too early': ['copy on stream 3', 'kernel scale on stream 2'],
  'external event recorded too early': ['kernel scale on stream 1', 'copy on stream 2'],
  'input of a graph refilled': ['kernel scale on stream 2', 'fill (no. 2) on stream 1'],
}
const DEVICES = 2

describe('an injected bug', () => {
  it('has a race in the table, each of them', () => {
    assert.ok(bugs.length >= 20)
    assert.deepEqual(bugs.map(({ name }) => name).sort(), Object.keys(RACES).sort())
  })

  for (const { name, broken, fixed } of bugs) {
    it(`is found: ${name}`, async () => {
      const { verdict, disagreement, message } = await explore(broken, { devices: DEVICES })
      assert.equal(verdict, 'disagree', message)
      assert.ok(disagreement)
      const { first, second, missing } = disagreement
      assert.notDeepEqual(first.outcome, second.outcome)
      const [earlier = '', later = ''] = RACES[name] ?? []
      assert.ok(missing.startsWith(earlier) && missing.split(' have no order')[0]?.includes(later), missing)
      assert.match(
        missing,
        /Missing: .*(`\w+(\.null)?\.wait\(\w+(\.null)?\)`|`await \w+\.finished\(\)`|inside the graph)/,
      )
      for (const { schedule, outcome, listing } of [first, second]) {
        assert.ok(message.includes(`replay(program, '${schedule}')`), message)
        const again = await replay(broken, schedule)
        assert.deepEqual(again.outcome, outcome)
        assert.equal(again.schedule, schedule)
        assert.deepEqual(withoutMarks(again.listing), withoutMarks(listing))
      }
    })

    it(`is fixed: ${name}`, async () => {
      const { verdict, complete, message } = await explore(fixed, { devices: DEVICES })
      assert.equal(verdict, 'agree', message)
      assert.ok(complete, message)
    })
  }
})

/** A listing without what marks where two orders part. */
function withoutMarks(listing: string): readonly string[] {
  return listing.split('\n').map((line) => line.slice(2))
}
