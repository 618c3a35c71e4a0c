/** Handles are checked by the memory behind them. The checks must not prevent what is to be done with a handle, even in a lost context. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HandleCheck, MemoryCheck, type Verdict } from '../../../src/cuda/handles/handle-check.js'
import type { EventHandle, StreamHandle } from '../../../src/foundation/driver/handle-types.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'

const skip = process.platform === 'linux' ? false : 'reads memory as Linux does'
const UNMAPPED = [8, 0x1000, 0x1000_0000_0000, 0x7fff_ffff_f000]
const ILLEGAL_ADDRESS = 700
const query = () => ILLEGAL_ADDRESS
const lost = (): never => {
  throw new Error('cuStreamCreateWithPriority failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)')
}

const noEvent = (): object => ({ verdict: 'wrong', context: undefined })

test('a stream or event can be destroyed when nothing can be learnt any more', { skip }, () => {
  const stream = 0x1000 as StreamHandle
  const event = 0x2000 as EventHandle
  const check = new HandleCheck(query, new MemoryCheck(), () => false, lost)
  check.streamDestroyed(stream, 5)
  check.eventDestroyed(event)
  assert.throws(() => check.checkStream(stream), { code: 'ERR_CLOSED' })
  assert.throws(() => check.checkEvent(event, []), { code: 'ERR_CLOSED' })
})

test('the layout of handles is learnt once, by whichever check is the first', { skip }, () => {
  const first: readonly ((check: HandleCheck) => void)[] = [
    (check) => check.checkStream(0x3000 as StreamHandle),
    (check) => check.checkEvent(0x3000 as EventHandle, []),
    (check) => check.streamDestroyed(0x3000 as StreamHandle, 5),
  ]
  for (const call of first) {
    let learnt = 0
    const learn = (): void => {
      learnt += 1
    }
    const check = new HandleCheck(query, new MemoryCheck(), () => false, learn)
    for (let again = 0; again < 2; again += 1) {
      try {
        call(check)
      } catch {
        // There is nothing at the address.
      }
      assert.equal(learnt, 1)
    }
  }
})

test('an address that is not mapped is refused, also when nothing could be learnt', { skip }, () => {
  const check = new HandleCheck(query, new MemoryCheck(), () => false, lost)
  assert.throws(() => check.checkStream(0x3000 as StreamHandle), { code: 'ERR_INVALID_HANDLE', message: /12288/ })
  assert.throws(() => check.checkEvent(0x3000 as EventHandle, []), { code: 'ERR_INVALID_HANDLE' })
})

test('an address that once was ours is theirs, once a stream of theirs was found there', () => {
  const stream = 0x1000 as StreamHandle
  const seen: { verdict: Verdict; id: number } = { verdict: 'alive', id: 5 }
  const memory = { stream: () => seen, event: noEvent } as unknown as MemoryCheck
  const check = new HandleCheck(query, memory, () => false, lost)
  check.streamDestroyed(stream, 5)
  assert.throws(() => check.checkStream(stream), { code: 'ERR_CLOSED' })
  seen.id = 6
  check.checkStream(stream)
  for (const verdict of ['wrong', 'unknown'] as const) {
    seen.verdict = verdict
    assert.throws(() => check.checkStream(stream), { code: 'ERR_INVALID_HANDLE' })
  }
})

test('an event with the address of a destroyed stream is no closed stream, unless it is closed or the library’s own', () => {
  const [stream, event] = [0x1000 as StreamHandle, 0x1000 as EventHandle]
  const seen: { verdict: Verdict; own: boolean } = { verdict: 'alive', own: false }
  const memory = {
    stream: () => ({ verdict: 'wrong', id: undefined }),
    event: () => ({ verdict: seen.verdict, context: 1 }),
    lookOfEvent: () => 7,
  } as unknown as MemoryCheck
  const check = new HandleCheck(query, memory, () => seen.own, lost)
  check.streamDestroyed(stream, 5)
  check.eventCreated(event)
  assert.throws(() => check.checkStream(stream), { code: 'ERR_INVALID_HANDLE' })
  seen.own = true
  assert.throws(() => check.checkStream(stream), { code: 'ERR_CLOSED' })
  seen.own = false
  seen.verdict = 'unknown'
  assert.throws(() => check.checkStream(stream), { code: 'ERR_CLOSED' })
  seen.verdict = 'alive'
  check.eventDestroyed(event)
  assert.throws(() => check.checkStream(stream), { code: 'ERR_CLOSED' })
})

test('a stream with the address of a destroyed event is no closed event', { skip }, () => {
  const [stream, event] = [0x1000 as StreamHandle, 0x1000 as EventHandle]
  const check = new HandleCheck(query, new MemoryCheck(), () => false, lost)
  check.eventDestroyed(event)
  assert.throws(() => check.checkEvent(event, []), { code: 'ERR_CLOSED' })
  check.streamCreated(stream)
  assert.throws(() => check.checkEvent(event, []), { code: 'ERR_INVALID_HANDLE' })
})

test('a stream that was destroyed in a capture, when the driver refuses its id, is recognised by its memory', () => {
  const stream = 0x1000 as StreamHandle
  const seen = { id: 5 }
  const memory = { stream: () => ({ verdict: 'alive', id: seen.id }), event: noEvent } as unknown as MemoryCheck
  const check = new HandleCheck(query, memory, () => false, lost)
  check.streamDestroyed(stream, undefined)
  assert.throws(() => check.checkStream(stream), { code: 'ERR_CLOSED' })
  seen.id = 6
  check.checkStream(stream)
})

test('reading the handle of a closed stream does not make another library’s stream at that address count as destroyed', () => {
  const stream = 0x1000 as StreamHandle
  const seen = { id: 5 }
  const memory = { stream: () => ({ verdict: 'alive', id: seen.id }), event: noEvent } as unknown as MemoryCheck
  const check = new HandleCheck(query, memory, () => false, lost)
  check.streamLeft(stream)
  check.readAfterEnd(stream)
  assert.throws(() => check.checkStream(stream), { code: 'ERR_CLOSED' }, 'ours, which is gone')
  seen.id = 6
  check.readAfterEnd(stream)
  check.checkStream(stream)
})

test('what looked alive once and does not now has been destroyed; what never did is the driver’s to judge', () => {
  const [stream, stranger] = [0x10_0000 as StreamHandle, 0x20_0000 as StreamHandle]
  const [event, strange] = [0x30_0000 as EventHandle, 0x40_0000 as EventHandle]
  let verdict: Verdict = 'alive'
  const memory = {
    stream: () => ({ verdict, id: 1 }),
    event: () => ({ verdict, context: 1 }),
  } as unknown as MemoryCheck
  const check = new HandleCheck(
    () => 0,
    memory,
    () => false,
    lost,
  )
  check.checkStream(stream)
  assert.equal(check.checkEvent(event, []), 1)
  verdict = 'unknown'
  assert.throws(() => check.checkStream(stream), { code: 'ERR_INVALID_HANDLE', message: /destroyed/ })
  assert.throws(() => check.checkEvent(event, []), { code: 'ERR_INVALID_HANDLE', message: /destroyed/ })
  check.checkStream(stranger)
  assert.equal(check.checkEvent(strange, []), undefined)
})

test('memory is recognised as that of a stream or event only if it has their layout; unmapped memory is an answer, too', {
  skip,
}, () => {
  const check = new MemoryCheck()
  const made = [7, 9].map((id) => {
    const [outer, inner] = [new NativeMemory(16), new NativeMemory(1024)]
    outer.uint64[0] = BigInt(inner.address)
    inner.uint64[10] = BigInt(outer.address)
    inner.uint64[3] = BigInt(id)
    return { handle: outer.address, id, inner }
  })
  const event = new NativeMemory(64)
  event.uint64[0] = 0x1230n
  check.learn(made, event.address, 0x1230)
  const [first] = made
  assert.ok(first)
  assert.deepEqual(check.stream(first.handle), { verdict: 'alive', id: 7 })
  assert.deepEqual(check.event(event.address, [0x1230]), { verdict: 'alive', context: 0x1230 })
  assert.equal(check.stream(event.address).verdict, 'wrong')
  first.inner.uint64[10] = 0n
  assert.equal(check.stream(first.handle).verdict, 'unknown')
  for (const address of UNMAPPED) assert.equal(check.stream(address).verdict, 'wrong')
  event.uint64[0] = 0n
  assert.equal(check.event(event.address, [0x1230]).verdict, 'wrong')
})
