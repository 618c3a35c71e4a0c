/** Spare streams, on a fake driver. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SpareStreams, type SpareStreamsParts } from '../../../src/cuda/handles/spare-streams.js'
import { Lock, type ProcessRegistry, SPARE_STREAMS } from '../../../src/cuda/host-functions/process-registry.js'
import { refused } from '../../conformance/expect.js'
import { mustOf, NO_KINDS, registryWith } from '../fake-parts.js'

const DEVICE = 0
/** That are left for host functions. */
const LEFT = 16

function fakeParts(registry: ProcessRegistry = registryWith()) {
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
    must: mustOf(library),
    kinds: NO_KINDS,
    memory: { address: 0, pointerAt: () => last },
    contexts: { primaries: [[DEVICE, 1]], primary: () => 1, within: (_context: number, fn: () => unknown) => fn() },
    registry,
    exclusivelyNow: <R>(call: () => R) => (isPending ? undefined : { made: call() }),
    spinWait: () => {
      rests += 1
    },
  }
  const spares = new SpareStreams(parts as unknown as SpareStreamsParts)
  return {
    spares,
    registry,
    calls,
    rests: () => rests,
    pend(pending = true) {
      isPending = pending
      calls.length = 0
    },
  }
}

test('streams are made ahead, but not while host functions are pending, in this thread or another', () => {
  const { spares, registry, calls, pend } = fakeParts()
  pend()
  spares.fillWhereNeeded()
  assert.deepEqual(calls, [])
  pend(false)
  spares.fillWhereNeeded()
  assert.equal(registry.spareStreams.count(DEVICE), SPARE_STREAMS)
})

test('a stream that is wanted meanwhile is made in the place of a kept one', () => {
  const { spares, registry, calls, pend } = fakeParts()
  spares.fillWhereNeeded()
  pend()
  assert.deepEqual(
    spares.inPlaces(DEVICE, 2, false, () => calls.push('call')),
    { made: 3 },
  )
  assert.deepEqual(
    calls.map((call) => call.split(' ')[0]),
    ['destroy', 'destroy', 'call'],
  )
  assert.equal(registry.spareStreams.count(DEVICE), SPARE_STREAMS - 2)
})

test('the last places are for those inside of a host function, who cannot wait', () => {
  const { spares, pend } = fakeParts()
  spares.fillWhereNeeded()
  pend()
  const make = (inside: boolean): unknown => spares.inPlaces(DEVICE, 1, inside, () => 'made')
  for (let left = SPARE_STREAMS - LEFT; left > 0; left -= 1) assert.deepEqual(make(false), { made: 'made' })
  assert.equal(make(false), undefined)
  for (let left = LEFT; left > 0; left -= 1) assert.deepEqual(make(true), { made: 'made' })
  assert.equal(make(true), undefined)
})

test('a stream lent to the library comes back, and where none can be made it is an error', () => {
  const { spares, pend } = fakeParts()
  spares.fillWhereNeeded()
  pend()
  const lent = Array.from({ length: SPARE_STREAMS }, () => spares.lend(DEVICE))
  refused(() => spares.lend(DEVICE), 'ERR_UNSUPPORTED', /Let pending host functions run/)
  const [first = 0] = lent
  spares.giveBack(DEVICE, first)
  assert.equal(spares.lend(DEVICE), first)
})

test('while one thread makes a stream in a place that it has made, no other thread takes the place', () => {
  let busy = 3
  const taken: boolean[] = []
  const registry = registryWith({
    makingStreams: new Lock(
      () => {
        busy -= 1
        return busy === 0
      },
      () => void taken.push(false),
    ),
  })
  const { spares, rests } = fakeParts(registry)
  assert.equal(
    spares.making(() => taken.push(true)),
    1,
  )
  assert.deepEqual(taken, [true, false])
  assert.equal(rests(), 2)
})
