/** Streams made ahead, by a driver that is pretended. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StreamReserve, type StreamReserveParts } from '../../../../src/driver/cuda/handles/stream-reserve.js'
import { KEPT_STREAMS } from '../../../../src/driver/cuda/host-functions/thread-slots.js'
import { alone, Right, type Threads } from '../../../../src/driver/cuda/host-functions/thread-table.js'
import { refused } from '../../../conformance/expect.js'

const DEVICE = 0
/** That are left for host functions. */
const LEFT = 16

function pretend(threads: Threads = alone()) {
  const calls: string[] = []
  let [last, rests, isPending] = [0, 0, false]
  const library = {
    cuStreamCreateWithPriority() {
      last += 1
      calls.push(`create ${last}`)
      return 0
    },
    cuStreamDestroy_v2(stream: number) {
      calls.push(`destroy ${stream}`)
      return 0
    },
  }
  const parts = {
    library,
    memory: { address: 0, pointerAt: () => last },
    contexts: { primaries: [[DEVICE, 1]], primary: () => 1, within: (_context: number, fn: () => unknown) => fn() },
    threads,
    exclusivelyNow: <R>(call: () => R) => (isPending ? undefined : { made: call() }),
    rest: () => {
      rests += 1
    },
  }
  const reserve = new StreamReserve(parts as unknown as StreamReserveParts)
  return {
    reserve,
    threads,
    calls,
    rests: () => rests,
    pend(pending = true) {
      isPending = pending
      calls.length = 0
    },
  }
}

test('streams are made ahead, but not while host functions are pending, in this thread or another', () => {
  const { reserve, threads, calls, pend } = pretend()
  pend()
  reserve.fillWhereNeeded()
  assert.deepEqual(calls, [])
  pend(false)
  reserve.fillWhereNeeded()
  assert.equal(threads.kept.count(DEVICE), KEPT_STREAMS)
})

test('a stream that is wanted meanwhile is made in the place of a kept one', () => {
  const { reserve, threads, calls, pend } = pretend()
  reserve.fillWhereNeeded()
  pend()
  assert.deepEqual(
    reserve.inPlaces(DEVICE, 2, false, () => calls.push('call')),
    { made: 3 },
  )
  assert.deepEqual(
    calls.map((call) => call.split(' ')[0]),
    ['destroy', 'destroy', 'call'],
  )
  assert.equal(threads.kept.count(DEVICE), KEPT_STREAMS - 2)
})

test('the last places are for those inside of a host function, who cannot wait', () => {
  const { reserve, pend } = pretend()
  reserve.fillWhereNeeded()
  pend()
  const make = (inside: boolean): unknown => reserve.inPlaces(DEVICE, 1, inside, () => 'made')
  for (let left = KEPT_STREAMS - LEFT; left > 0; left -= 1) assert.deepEqual(make(false), { made: 'made' })
  assert.equal(make(false), undefined)
  for (let left = LEFT; left > 0; left -= 1) assert.deepEqual(make(true), { made: 'made' })
  assert.equal(make(true), undefined)
})

test('a stream lent to the library comes back, and where none can be made it is an error', () => {
  const { reserve, pend } = pretend()
  reserve.fillWhereNeeded()
  pend()
  const lent = Array.from({ length: KEPT_STREAMS }, () => reserve.lend(DEVICE))
  refused(() => reserve.lend(DEVICE), 'ERR_UNSUPPORTED', /let some host functions run first/)
  const [first = 0] = lent
  reserve.giveBack(DEVICE, first)
  assert.equal(reserve.lend(DEVICE), first)
})

test('while one thread makes a stream in a place that it has made, no other thread takes the place', () => {
  let busy = 3
  const taken: boolean[] = []
  const threads: Threads = {
    ...alone(),
    makingStreams: new Right(
      () => {
        busy -= 1
        return busy === 0
      },
      () => void taken.push(false),
    ),
  }
  const { reserve, rests } = pretend(threads)
  assert.equal(
    reserve.making(() => taken.push(true)),
    1,
  )
  assert.deepEqual(taken, [true, false])
  assert.equal(rests(), 2)
})
