/** Kernels, memory pools and graphs of other libraries, by their handles: what they do here, what is refused, and what remains their owner's. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type DeviceBuffer, Graph, Kernel, MemoryPool, Module, type Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { collectUntil, refused } from './expect.js'

/** Nothing is mapped there. */
const NOWHERE = 0x1800_0000_0000n
const SIGNATURE = ['inout u8*', 'u32', 'u32'] as const
/** Takes each of so many bytes times three, and adds a number. */
const BUMP = `.version 7.0
.target sm_70
.address_size 64
.visible .entry bump(.param .u64 bytes, .param .u32 count, .param .u32 added) {
  .reg .u64 %bytes, %offset;
  .reg .u32 %i, %count, %added, %byte;
  .reg .pred %beyond;
  ld.param.u64 %bytes, [bytes];
  ld.param.u32 %count, [count];
  ld.param.u32 %added, [added];
  mov.u32 %i, %tid.x;
  setp.ge.u32 %beyond, %i, %count;
  @%beyond bra done;
  cvt.u64.u32 %offset, %i;
  add.u64 %bytes, %bytes, %offset;
  ld.global.u8 %byte, [%bytes];
  mad.lo.u32 %byte, %byte, 3, %added;
  st.global.u8 [%bytes], %byte;
done:
  ret;
}
`
const ONE_BLOCK = { grid: 1, block: 4 } as const

onEveryBackend('kernels, pools and graphs of other libraries', (bench) => {
  const { device } = bench
  const bytesOf = async (stream: Stream, buffer: DeviceBuffer): Promise<readonly number[]> => [
    ...(await stream.download(buffer)),
  ]

  test('K11 a kernel by its handle runs, is captured, and has its changes of a graph, under the name in its module', async () => {
    using stream = bench.stream()
    using module = Module.load(BUMP, { device })
    const theirs = module.kernel('bump', SIGNATURE)
    using buffer = device.alloc(4)
    stream.fill(buffer, 0)
    const kernel = Kernel.from(theirs.handle, SIGNATURE, { device })
    assert.equal(kernel.name, 'bump')
    assert.equal(kernel.handle, theirs.handle)
    assert.equal(kernel.module.handle, module.handle)
    assert.ok(kernel.activeBlocks(128) >= 1)
    stream.launch(kernel, ONE_BLOCK, buffer, 4, 3)
    assert.deepEqual(await bytesOf(stream, buffer), [3, 3, 3, 3])
    using graph = stream.capture(() => stream.launch(kernel, ONE_BLOCK, buffer, 4, 10))
    const [node] = graph.nodesOf(kernel)
    assert.ok(node)
    using exec = graph.instantiate()
    stream.launch(exec)
    exec.update(node, ONE_BLOCK, buffer, 4, 100)
    stream.launch(exec)
    assert.deepEqual(await bytesOf(stream, buffer), [157, 157, 157, 157])
  })

  test('K11 to close the module of a wrapped kernel leaves the owner its own; what the owner has unloaded is refused', async () => {
    using stream = bench.stream()
    const module = Module.load(BUMP, { device })
    const theirs = module.kernel('bump', SIGNATURE)
    using buffer = device.alloc(4)
    stream.fill(buffer, 0)
    const { handle } = theirs
    const wrapped = Kernel.from(handle, SIGNATURE, { device })
    wrapped.module.close()
    refused(() => stream.launch(wrapped, ONE_BLOCK, buffer, 4, 1), 'ERR_CLOSED', /bump/)
    refused(() => wrapped.handle, 'ERR_CLOSED')
    stream.launch(theirs, ONE_BLOCK, buffer, 4, 2)
    assert.deepEqual(await bytesOf(stream, buffer), [2, 2, 2, 2])
    module.close()
    await device.finished()
  })

  test('K11 the owner of a wrapped kernel is kept reachable by it, and by its module', async () => {
    using module = Module.load(BUMP, { device })
    const { handle } = module.kernel('bump', SIGNATURE)
    const make = (): { kernel: Kernel | undefined; owner: WeakRef<object> } => {
      const owner = { keeps: 'the kernel loaded' }
      return { kernel: Kernel.from(handle, SIGNATURE, { device, owner }), owner: new WeakRef(owner) }
    }
    const made = make()
    await collectUntil(() => true)
    assert.ok(made.owner.deref())
    made.kernel = undefined
    await collectUntil(() => made.owner.deref() === undefined)
  })

  test('S4 a handle of no kernel, pool or graph is refused by name, and the process goes on', () => {
    const kinds = [
      ['kernel', (handle: bigint | number) => Kernel.from(handle, SIGNATURE, { device })],
      ['memory pool', (handle: bigint | number) => MemoryPool.from(handle, { device })],
      ['graph', (handle: bigint | number) => Graph.from(handle, { device })],
    ] as const
    for (const [kind, wrap] of kinds) {
      refused(() => wrap(NOWHERE), 'ERR_INVALID_HANDLE', new RegExp(`handle of a CUDA ${kind}`))
      refused(() => wrap(7), 'ERR_INVALID_HANDLE', new RegExp(`\\b7 is not the handle of a CUDA ${kind}.*id`))
      refused(() => wrap(-1), 'ERR_OUT_OF_RANGE', /handle/)
      refused(() => wrap('0x10' as never), 'ERR_INVALID_ARG_TYPE', /handle/)
    }
    using stream = bench.stream()
    refused(() => Kernel.from(stream.handle, SIGNATURE, { device }), 'ERR_INVALID_HANDLE', /kernel/)
  })

  test('K11 a signature that is not the kernel\u2019s own is refused, and what was wrapped is released', () => {
    using module = Module.load(BUMP, { device })
    const { handle } = module.kernel('bump', SIGNATURE)
    refused(() => Kernel.from(handle, ['inout u8*'], { device }), 'ERR_INVALID_ARG_VALUE', /bump/)
    refused(() => Kernel.from(handle, ['number'] as never, { device }), 'ERR_INVALID_ARG_VALUE')
    assert.equal(Kernel.from(handle, SIGNATURE, { device }).handle, handle)
  })

  test('M12 a pool by its handle gives memory and counts it, and remains its owner\u2019s', () => {
    using stream = bench.stream()
    using theirs = new MemoryPool({ device, releaseThreshold: 2 ** 20 })
    const pool = MemoryPool.from(theirs.handle, { device, owner: theirs })
    assert.equal(pool.handle, theirs.handle)
    assert.equal(pool.releaseThreshold, 2 ** 20)
    const buffer = device.alloc(1000, { stream, pool })
    assert.deepEqual([pool.used, theirs.used], [1000, 1000])
    pool.close()
    refused(() => pool.used, 'ERR_CLOSED')
    stream.fill(buffer, 1)
    buffer.close()
    stream.synchronize()
    assert.equal(theirs.used, 0)
    using later = device.alloc(500, { stream, pool: theirs })
    assert.equal(theirs.used, later.byteLength)
  })

  test('G21 a graph by its handle is read, instantiated, launched and put into a capture, and remains its owner\u2019s', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(4)
    using module = Module.load(BUMP, { device })
    const kernel = module.kernel('bump', SIGNATURE)
    using theirs = stream.capture(() => {
      stream.fill(buffer, 0)
      stream.launch(kernel, ONE_BLOCK, buffer, 4, 5)
    })
    const graph = Graph.from(theirs.handle, { device, owner: theirs })
    assert.equal(graph.handle, theirs.handle)
    assert.deepEqual(
      graph.nodes.map(({ kind }) => kind),
      ['fill', 'kernel'],
    )
    assert.match(graph.toDot(), /digraph/)
    using exec = graph.instantiate()
    using outer = stream.capture(() => {
      stream.launch(graph)
      stream.launch(kernel, ONE_BLOCK, buffer, 4, 1)
    })
    graph.close()
    assert.equal(theirs.nodeCount, 2)
    stream.launch(exec)
    assert.deepEqual(await bytesOf(stream, buffer), [5, 5, 5, 5])
    stream.launch(outer.instantiate())
    assert.deepEqual(await bytesOf(stream, buffer), [16, 16, 16, 16])
  })
})
