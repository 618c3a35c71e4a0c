/**
 * Which host functions the CUDA driver runs while JavaScript blocks inside of one: those that the wait needs, and others only
 * where nothing happens any more. With the driver's own semaphores, on a fake GPU.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MOST_NESTED } from '../../../src/foundation/driver/deadlocks.js'
import { checkError } from '../../conformance/expect.js'
import { DEADLOCK_AFTER, FakeGpu } from './fake-gpu.js'

/** What a function throws. */
function thrownBy(act: () => void): unknown {
  try {
    act()
    return undefined
  } catch (error) {
    return error
  }
}

test('one that is due, and that no wait needs, runs when the one that blocks has returned', (t) => {
  const gpu = new FakeGpu(t)
  const [a, c, q] = [gpu.stream(), gpu.stream(), gpu.stream()]
  const order: string[] = []
  gpu.busy(q, 100)
  gpu.launchHostFunc(a, () => {
    gpu.synchronize(q)
    order.push('a')
  })
  gpu.launchHostFunc(c, () => {
    order.push('c')
    gpu.synchronize(a)
    order.push('c goes on')
  })
  gpu.drain()
  assert.deepEqual(order, ['a', 'c', 'c goes on'])
})

test('thousands that each wait for another stream do not wait one inside the other', (t) => {
  const gpu = new FakeGpu(t)
  let done = 0
  for (let left = 1500; left > 0; left -= 1) {
    const [stream, other] = [gpu.stream(), gpu.stream()]
    gpu.launchHostFunc(stream, () => {
      gpu.busy(other, 1)
      gpu.synchronize(other)
      done += 1
    })
  }
  gpu.drain()
  assert.equal(done, 1500)
  assert.equal(gpu.depth.most, 1)
})

test('what is waited for is run at once: the host functions before a stream or an event, also through other streams', (t) => {
  for (const how of ['stream', 'event'] as const) {
    const gpu = new FakeGpu(t)
    const [a, b, between, c, unrelated] = [gpu.stream(), gpu.stream(), gpu.stream(), gpu.stream(), gpu.stream()]
    const order: string[] = []
    gpu.launchHostFunc(a, () => {
      gpu.launchHostFunc(b, () => order.push('b'))
      gpu.launchHostFunc(b, () => order.push('b again'))
      gpu.launchHostFunc(unrelated, () => order.push('unrelated'))
      gpu.wait(between, b)
      gpu.wait(c, between)
      const event = gpu.record(c)
      gpu.launchHostFunc(c, () => order.push('c'))
      if (how === 'stream') gpu.synchronize(c)
      else gpu.synchronizeEvent(event)
      order.push('a')
      assert.equal(gpu.clock, 0)
    })
    gpu.drain()
    if (how === 'stream') assert.deepEqual(order, ['b', 'b again', 'c', 'a', 'unrelated'])
    else assert.deepEqual(order, ['b', 'b again', 'a', 'unrelated', 'c'])
  }
})

test('a wait for a device needs what its streams hold and come after, and nothing that is queued later', (t) => {
  const gpu = new FakeGpu(t)
  const [a, elsewhere, before, later, unrelated] = [
    gpu.stream(),
    gpu.stream(1),
    gpu.stream(2),
    gpu.stream(1),
    gpu.stream(),
  ]
  const order: string[] = []
  gpu.launchHostFunc(a, () => {
    gpu.launchHostFunc(unrelated, () => order.push('unrelated'))
    gpu.launchHostFunc(before, () => order.push('before'))
    gpu.wait(elsewhere, before)
    gpu.launchHostFunc(elsewhere, () => {
      order.push('elsewhere')
      gpu.launchHostFunc(later, () => order.push('later'))
    })
    gpu.busy(elsewhere, 10)
    gpu.synchronizeDevice(1)
    order.push('a')
  })
  gpu.drain()
  assert.deepEqual(order.slice(0, 3), ['before', 'elsewhere', 'a'])
  assert.deepEqual(order.slice(3).sort(), ['later', 'unrelated'])
})

test('a device that waits for the host function itself, on a stream of its own or of another device: ERR_DEADLOCK at once', (t) => {
  const gpu = new FakeGpu(t)
  const [a, elsewhere] = [gpu.stream(), gpu.stream(1)]
  const errors: unknown[] = []
  gpu.launchHostFunc(a, () => {
    gpu.wait(elsewhere, a)
    errors.push(thrownBy(() => gpu.synchronizeDevice(0)))
    errors.push(thrownBy(() => gpu.synchronizeDevice(1)))
    assert.equal(gpu.clock, 0)
  })
  gpu.drain()
  assert.equal(errors.length, 2)
  for (const error of errors) checkError(error, 'ERR_DEADLOCK', /comes after that host function/)
})

test('room in a queue needs what its stream is blocked by, and not what is ready elsewhere', (t) => {
  const gpu = new FakeGpu(t)
  const [a, full, unrelated] = [gpu.stream(), gpu.stream(), gpu.stream()]
  const order: string[] = []
  gpu.launchHostFunc(a, () => {
    gpu.launchHostFunc(unrelated, () => order.push('unrelated'))
    gpu.launchHostFunc(full, () => order.push('full'))
    gpu.reserve(full)
    order.push('a')
  })
  gpu.drain()
  assert.deepEqual(order, ['full', 'a', 'unrelated'])
})

test('when no more semaphores can be had, any host function may release one', (t) => {
  const gpu = new FakeGpu(t)
  const [a, stream] = [gpu.stream(), gpu.stream()]
  const others = Array.from({ length: 2047 }, () => gpu.stream())
  let ran = 0
  gpu.launchHostFunc(a, () => {
    for (const other of others) {
      gpu.launchHostFunc(other, () => {
        ran += 1
      })
    }
    gpu.reserve(stream)
    assert.equal(ran, 1)
    assert.equal(gpu.clock, 0)
  })
  gpu.drain()
  assert.equal(ran, 2047)
})

for (const [deadlockAfter, patience] of [
  [DEADLOCK_AFTER, 250],
  [100, 25],
] as const) {
  test(`where nothing happens for ${patience} of ${deadlockAfter} ms others run too: they may be what is missing`, (t) => {
    const gpu = new FakeGpu(t, deadlockAfter)
    const [a, o, c] = [gpu.stream(), gpu.stream(), gpu.stream()]
    let ranAt: number | undefined
    gpu.launchHostFunc(a, () => {
      gpu.launchHostFunc(c, () => {
        ranAt = gpu.clock
      })
      gpu.hold(o, () => ranAt !== undefined)
      gpu.synchronize(o)
    })
    gpu.drain()
    assert.equal(ranAt, patience)
  })
}

test('that a host function which is needed has run is progress', (t) => {
  const gpu = new FakeGpu(t)
  const [a, o, c] = [gpu.stream(), gpu.stream(), gpu.stream()]
  const order: string[] = []
  gpu.launchHostFunc(a, () => {
    gpu.launchHostFunc(c, () => order.push('c'))
    for (const name of ['first', 'second', 'third']) {
      gpu.busy(o, 200)
      gpu.launchHostFunc(o, () => order.push(name))
    }
    gpu.synchronize(o)
    order.push('a')
  })
  gpu.drain()
  assert.deepEqual(order, ['first', 'second', 'third', 'a', 'c'])
})

test('where they are of no help either, the wait is given up', (t) => {
  const gpu = new FakeGpu(t)
  const [a, o, c] = [gpu.stream(), gpu.stream(), gpu.stream()]
  const order: string[] = []
  let returned = false
  gpu.hold(o, () => returned)
  gpu.launchHostFunc(a, () => {
    gpu.launchHostFunc(c, () => order.push('c'))
    checkError(
      thrownBy(() => gpu.synchronize(o)),
      'ERR_DEADLOCK',
      /hardware queue/,
    )
    order.push('a')
    returned = true
  })
  gpu.drain()
  assert.deepEqual(order, ['c', 'a'])
  assert.ok(gpu.clock > DEADLOCK_AFTER)
})

test(`${MOST_NESTED} may wait one inside the other; one more would be too many for JavaScript's stack`, (t) => {
  for (const more of [0, 1]) {
    const gpu = new FakeGpu(t)
    const streams = Array.from({ length: MOST_NESTED + more }, () => gpu.stream())
    const errors: unknown[] = []
    let returned = 0
    for (const [index, stream] of streams.entries()) {
      gpu.launchHostFunc(stream, () => {
        const next = streams[index + 1]
        if (next !== undefined) errors.push(thrownBy(() => gpu.synchronize(next)))
        returned += 1
      })
    }
    gpu.drain()
    assert.equal(returned, streams.length)
    const thrown = errors.filter((error) => error !== undefined)
    assert.equal(thrown.length, more)
    if (more > 0) checkError(thrown[0], 'ERR_DEADLOCK', /stack/, /Return from the host function first/)
    assert.equal(gpu.depth.most, MOST_NESTED)
  }
})
