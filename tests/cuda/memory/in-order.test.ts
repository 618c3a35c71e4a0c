/** Memory in the order of a stream: what one call of the native layer makes of it, on functions that write down their calls. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { ownedHandles } from '../../../src/cuda/libcuda/owned-handles.js'
import { SIGNATURES } from '../../../src/cuda/libcuda/signatures.js'
import { own } from '../../../src/foundation/native/c-functions.js'
import { layer } from '../../../src/foundation/native/layer.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'
import { ownerOfThread } from '../../../src/foundation/native/owned-handles.js'
import { SharedLibrary } from '../../../src/foundation/native/shared-library.js'
import { cLibrary } from '../../helpers/c-library.js'
import { root } from '../../helpers/root.js'
import { scratchFolder } from '../../helpers/scratch.js'

const skip = process.platform === 'linux' ? false : 'the native layer is for Linux'
const [CONTEXT, OTHER_CONTEXT, STREAM, OTHER_STREAM, POOL, EVENT] = [1, 2, 1001, 1002, 7, 5] as const
const [OUT_OF_MEMORY, SMALL, POINTER] = [2, 64, 0x1000] as const

function openFake() {
  const source = join(root, 'tests', 'cuda', 'memory', 'in-order.c')
  const text = readFileSync(source, 'utf8')
  const others = Object.keys(SIGNATURES).filter((name) => !text.includes(`int ${name}(`))
  const rest = join(scratchFolder('in-order'), 'others.c')
  writeFileSync(rest, others.map((name) => `int ${name}(void) { return 0; }\n`).join(''))
  const compiled = cLibrary('in-order.so', [source, rest], ['-O2', '-Wl,-z,nodelete'])
  if (typeof compiled === 'string') throw new Error(compiled)
  const library = SharedLibrary.open(compiled.file)
  const { kinds } = ownedHandles(library)
  const { fakeState } = library.functions({ fakeState: 'Word context, Word searching, Word full, Word refusing' })
  const { fakeLog } = library.addresses({ fakeLog: 'void' })
  const into = new NativeMemory(8)
  const kind = kinds.asyncMemory.number
  const { allocateInOrder, freeInOrder, waitForStream, countOwned } = own()
  const owner = ownerOfThread()
  return {
    /** The state of the thread, of the pool and of the driver: `full` is 1 where memory is found by a search alone, and 2 where there is none. */
    set: ({ context = CONTEXT as number, searches = 1, full = 0, refuses = 0 }) =>
      fakeState(context, searches, full, refuses),
    allocate: (pool = 0, searching: number = POOL) =>
      allocateInOrder(owner, kind, CONTEXT, STREAM, SMALL, pool, searching, into.address),
    free: (stream: number = STREAM) => freeInOrder(owner, kind, CONTEXT, stream, POINTER),
    wait: () => waitForStream(STREAM, OTHER_STREAM, EVENT),
    pointer: () => into.pointerAt(0),
    owned: () => countOwned(1),
    calls: () => layer().text(fakeLog()),
  }
}

describe('memory in the order of a stream', { skip }, () => {
  const fake = skip === false ? openFake() : undefined

  it('is allocated by one call of the driver, within the context, and so that no capture is invalidated', () => {
    assert.ok(fake)
    fake.set({})
    const before = fake.owned()
    assert.equal(fake.allocate(), 0)
    assert.equal(fake.pointer(), POINTER)
    assert.equal(fake.calls(), `mode 2;allocate ${SMALL};mode 0;`)
    assert.equal(fake.owned(), before + 1)
    fake.set({})
    assert.equal(fake.free(), 0)
    assert.equal(fake.calls(), `mode 2;free 1000 on ${STREAM} in ${CONTEXT}, mode 2;mode 0;`)
    assert.equal(fake.owned(), before)
  })

  it('leaves the context of the thread as it was, and the new one where there was none', () => {
    assert.ok(fake)
    fake.set({ context: OTHER_CONTEXT })
    assert.equal(fake.allocate(), 0)
    assert.equal(fake.calls(), `context ${CONTEXT};mode 2;allocate ${SMALL};mode 0;context ${OTHER_CONTEXT};`)
    fake.set({ context: 0 })
    assert.equal(fake.free(), 0)
    assert.equal(fake.calls(), `context ${CONTEXT};mode 2;free 1000 on ${STREAM} in ${CONTEXT}, mode 2;mode 0;`)
  })

  it('is not allocated where the context cannot be current', () => {
    assert.ok(fake)
    fake.set({ context: OTHER_CONTEXT, refuses: 1 })
    assert.equal(fake.allocate(), 201)
    assert.equal(fake.calls(), `context ${CONTEXT};`)
  })

  it('remains known to the thread where the driver refuses the free', () => {
    assert.ok(fake)
    const before = fake.owned()
    fake.set({})
    fake.allocate()
    fake.set({ refuses: 2 })
    assert.equal(fake.free(), 1)
    assert.equal(fake.owned(), before + 1)
    fake.set({})
    fake.free()
    assert.equal(fake.owned(), before)
  })

  it('comes from no search of what other streams have freed, and leaves the pool as it was', () => {
    assert.ok(fake)
    // Until a second stream frees memory there is nothing to search.
    fake.set({})
    fake.allocate()
    fake.free(OTHER_STREAM)
    for (const pool of [0, POOL]) {
      fake.set({})
      assert.equal(fake.allocate(pool), 0)
      const allocated = `${pool === 0 ? '' : `from ${POOL}: `}allocate ${SMALL};`
      assert.equal(fake.calls(), `mode 2;pool ${POOL} does not;${allocated}pool ${POOL} searches;mode 0;`)
    }
    fake.set({ searches: 0 })
    assert.equal(fake.allocate(), 0)
    assert.equal(fake.calls(), `mode 2;allocate ${SMALL};mode 0;`)
    fake.set({})
    assert.equal(fake.allocate(0, 0), 0)
    assert.equal(fake.calls(), `mode 2;allocate ${SMALL};mode 0;`)
    fake.free()
  })

  it('comes from a search before the driver has no memory for it', () => {
    assert.ok(fake)
    const searched = `mode 2;pool ${POOL} does not;allocate ${SMALL};pool ${POOL} searches;allocate ${SMALL};mode 0;`
    fake.set({ full: 1 })
    assert.equal(fake.allocate(), 0)
    assert.equal(fake.calls(), searched)
    fake.free()
    const before = fake.owned()
    fake.set({ full: 2 })
    assert.equal(fake.allocate(), OUT_OF_MEMORY)
    assert.equal(fake.calls(), searched)
    assert.equal(fake.owned(), before)
  })
})

describe('a wait for a stream', { skip }, () => {
  it('is a record there and a wait here, and says which of them was refused', () => {
    const fake = openFake()
    fake.set({})
    assert.equal(fake.wait(), 0)
    assert.equal(fake.calls(), `record ${EVENT} on ${OTHER_STREAM};${STREAM} waits for ${EVENT};`)
    fake.set({ refuses: 3 })
    assert.equal(fake.wait(), -901)
    assert.equal(fake.calls(), `record ${EVENT} on ${OTHER_STREAM};`)
    fake.set({ refuses: 4 })
    assert.equal(fake.wait(), 905)
  })
})
