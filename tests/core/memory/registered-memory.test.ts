/** Memory of JavaScript that was registered: it behaves as pinned memory does, stays where it is, and is kept while in use. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { PinnedBuffer } from 'cuda-streams'
import { collectUntil, refused, refusedByDriver } from '../../conformance/expect.js'
import { onEveryBackend } from '../../helpers/suite.js'

const LENGTH = 8192

interface WebAssembly {
  readonly Memory: new (options: object) => { readonly buffer: ArrayBuffer; grow(pages: number): void }
}

onEveryBackend('registered memory', (bench) => {
  const { device } = bench
  const stream = bench.stream()
  after(() => stream.close())

  async function until(act: () => unknown): Promise<void> {
    const end = performance.now() + 5000
    for (;;) {
      try {
        return void act()
      } catch (error) {
        if (performance.now() > end) throw error
        await sleep(5)
      }
    }
  }

  const kinds = {
    'a SharedArrayBuffer': () => new SharedArrayBuffer(LENGTH),
    'an ArrayBuffer': () => new ArrayBuffer(LENGTH),
    'a part of an ArrayBuffer': () => new Uint8Array(new ArrayBuffer(2 * LENGTH), 1000, LENGTH),
    'a part of a SharedArrayBuffer': () => new Float64Array(new SharedArrayBuffer(2 * LENGTH), 800, LENGTH / 8),
    'a DataView': () => new DataView(new ArrayBuffer(LENGTH + 3), 3),
    'a Buffer': () => Buffer.alloc(LENGTH),
  } as const
  for (const [kind, make] of Object.entries(kinds)) {
    it(`copies to and from ${kind}, filled and sliced like pinned memory`, async () => {
      const array = make()
      const own = ArrayBuffer.isView(array)
        ? new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
        : new Uint8Array(array)
      own.set(Array.from({ length: LENGTH }, (_, index) => index % 251))
      using buffer = device.alloc(LENGTH, { stream })
      const pinned = PinnedBuffer.from(array, { device })
      assert.equal(pinned.byteLength, LENGTH)
      assert.equal(pinned.bytes.buffer, own.buffer, 'the memory itself')
      assert.equal(pinned.bytes.byteOffset, own.byteOffset)
      stream.copy(buffer, pinned)
      await stream.fill(pinned.subarray(8, 16), 7).finished()
      assert.deepEqual([...own.subarray(6, 18)], [6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 16, 17])
      stream.copy(pinned.subarray(100, 200), buffer.subarray(0, 100))
      await stream.finished()
      assert.deepEqual([...own.subarray(98, 103)], [98, 99, 0, 1, 2])
      using other = device.allocPinned(LENGTH)
      await stream.copy(other, pinned).finished()
      assert.deepEqual(other.bytes, new Uint8Array(own), 'within the host')
      await stream.upload(pinned.subarray(0, 2), Uint8Array.of(5, 6))
      await stream.finished()
      assert.deepEqual([own[0], own[1]], [5, 6])
      pinned.close()
      assert.equal(own.length, LENGTH, 'the array stays')
      refused(() => pinned.bytes, 'ERR_CLOSED')
      refused(() => stream.copy(buffer, pinned), 'ERR_CLOSED')
      await until(() => PinnedBuffer.from(array, { device }).close())
    })
  }

  it('is locked until all work with it is done, also where the program has lost it', async () => {
    const shared = new SharedArrayBuffer(LENGTH)
    const bytes = new Uint8Array(shared)
    using buffer = device.alloc(LENGTH, { stream })
    stream.fill(buffer, 9)
    using latch = bench.latch(stream)
    const pinned = PinnedBuffer.from(shared, { device })
    stream.copy(pinned, buffer)
    pinned.close()
    refusedByDriver(() => PinnedBuffer.from(shared, { device }), 712)
    refusedByDriver(() => PinnedBuffer.from(new Uint8Array(shared, 100, 8), { device }), 712)
    latch.open()
    await stream.finished()
    assert.equal(bytes[LENGTH - 1], 9)
    await until(() => PinnedBuffer.from(shared, { device }).close())
  })

  it('is unlocked where the program has lost the buffer, and keeps the array until then', async () => {
    let lost: WeakRef<object> | undefined
    let array: WeakRef<object> | undefined
    ;(() => {
      const bytes = new Uint8Array(LENGTH)
      array = new WeakRef(bytes.buffer)
      lost = new WeakRef(PinnedBuffer.from(bytes, { device }))
    })()
    assert.equal(await collectUntil(() => lost?.deref() === undefined), true)
    await until(() => assert.equal(device.allocPinned(64).close(), undefined))
    assert.equal(await collectUntil(() => array?.deref() === undefined), true)
  })

  it('cannot be transferred to another thread or array while a GPU may use it', () => {
    const array = new ArrayBuffer(LENGTH)
    using pinned = PinnedBuffer.from(array, { device })
    for (const transfer of [
      () => structuredClone(array, { transfer: [array] }),
      () => new MessageChannel().port1.postMessage(array, [array]),
      () => (Reflect.get(array, 'transfer') as (() => void) | undefined)?.call(array),
      () => (Reflect.get(array, 'transferToFixedLength') as (() => void) | undefined)?.call(array),
    ]) {
      try {
        transfer()
      } catch {
        // Refused, or copied.
      }
      assert.equal(array.byteLength, LENGTH)
    }
    assert.equal(pinned.bytes.length, LENGTH)
  })

  it('refuses what cannot be registered, in words', () => {
    for (const wrong of [undefined, null, 7, 'x', {}, [1]])
      refused(() => PinnedBuffer.from(wrong as never), 'ERR_INVALID_ARG_TYPE', /array must be a typed array/)
    refused(() => PinnedBuffer.from(new ArrayBuffer(8), { device: 99 }), 'ERR_OUT_OF_RANGE')
    const gone = new Uint8Array(8)
    structuredClone(gone.buffer, { transfer: [gone.buffer] })
    refused(() => PinnedBuffer.from(gone.buffer, { device }), 'ERR_INVALID_ARG_VALUE', /detached/)
    refused(() => PinnedBuffer.from(gone, { device }), 'ERR_INVALID_ARG_VALUE', /detached/)
    refused(() => PinnedBuffer.from(Object.freeze(new ArrayBuffer(8)), { device }), 'ERR_UNSUPPORTED', /Shared/)
    const resizable = Reflect.construct(ArrayBuffer, [8, { maxByteLength: 16 }]) as ArrayBuffer
    if (Reflect.get(resizable, 'resizable') === true)
      refused(() => PinnedBuffer.from(resizable, { device }), 'ERR_UNSUPPORTED', /resizable/)
  })

  it('is no memory that is page-locked already, and what is refused stays as it was', () => {
    const pinned = device.allocPinned(64)
    const { bytes } = pinned
    refusedByDriver(() => PinnedBuffer.from(bytes, { device }), 1)
    refusedByDriver(() => PinnedBuffer.from(bytes.subarray(60), { device }), 1)
    pinned.close()
    assert.equal(bytes.length, 0, 'its close empties its views still')

    const again = new Uint8Array(64)
    using registered = PinnedBuffer.from(again, { device })
    refusedByDriver(() => PinnedBuffer.from(again, { device }), 712)
    refusedByDriver(() => PinnedBuffer.from(again.subarray(60), { device }), 712)
    registered.close()

    const array = new ArrayBuffer(64)
    refused(() => PinnedBuffer.from(array, { device: 99 }), 'ERR_OUT_OF_RANGE')
    structuredClone(array, { transfer: [array] })
    assert.equal(array.byteLength, 0, 'it can be transferred still')
  })

  it('memory of WebAssembly, which goes where it grows, is refused, but where it is shared', async () => {
    const { Memory } = Reflect.get(globalThis, 'WebAssembly') as WebAssembly
    const memory = new Memory({ initial: 1, maximum: 2 })
    if (Reflect.has(ArrayBuffer.prototype, 'transfer')) {
      refused(() => PinnedBuffer.from(memory.buffer, { device }), 'ERR_UNSUPPORTED', /WebAssembly.*shared: true/)
    }
    const shared = new Memory({ initial: 1, maximum: 2, shared: true })
    const bytes = new Uint8Array(shared.buffer)
    using pinned = PinnedBuffer.from(bytes, { device })
    shared.grow(1)
    await stream.fill(pinned, 3).finished()
    assert.equal(bytes[65_535], 3)
    const pooled = Buffer.from('Node has marked the ArrayBuffer of small ones')
    using marked = PinnedBuffer.from(pooled, { device })
    await stream.fill(marked, 3).finished()
    assert.deepEqual([...new Set(pooled)], [3])
  })

  it('may be registered and closed while a stream captures, and while one stands', () => {
    using buffer = device.alloc(64, { stream })
    using latch = bench.latch(stream)
    for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
      using other = bench.stream()
      other.beginCapture(mode)
      const pinned = PinnedBuffer.from(new SharedArrayBuffer(64), { device })
      other.copy(buffer, pinned)
      using graph = other.endCapture()
      assert.equal(graph.nodeCount, 1)
      pinned.close()
    }
    latch.open()
    stream.synchronize()
  })
})
