/** How one device is let into another's memory, on a fake driver: what is opened once, and what is said where it cannot be. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineKernel } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { driverOf } from '../../../src/core/device.js'
import { PeerAccess } from '../../../src/cuda/memory/peer-access.js'
import { CudaError } from '../../../src/foundation/base/errors.js'
import type { Pointer } from '../../../src/foundation/driver/handle-types.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'
import { mustOf } from '../fake-parts.js'

const IN_POOL = 0x1000 as Pointer
const IN_OTHER_POOL = 0x3000 as Pointer
const PLAIN = 0x2000 as Pointer

function fakeParts(results: { readonly canReach?: boolean; readonly enable?: number; readonly pool?: number } = {}) {
  const memory = new NativeMemory(64)
  const calls: string[] = []
  const library = {
    cuDeviceCanAccessPeer: () => {
      memory.int32[0] = Number(results.canReach ?? true)
      return 0
    },
    cuPointerGetAttribute: (_out: number, _attribute: number, pointer: number) => {
      memory.uint64[0] = pointer === PLAIN ? 0n : BigInt(pointer)
      return 0
    },
    cuCtxEnablePeerAccess: (context: number) => {
      calls.push(`context ${context}`)
      return results.enable ?? 0
    },
    cuMemPoolSetAccess: (pool: number, description: number) => {
      const { uint32 } = new NativeMemory(16, description)
      calls.push(`pool ${pool} for ${uint32.join()}`)
      return results.pool ?? 0
    },
  }
  const contexts = {
    cudaDevice: (device: number) => device,
    primary: (device: number) => 100 + device,
    within: <R>(_context: number, calls: () => R): R => calls(),
  }
  const relaxed = { run: <R>(fn: () => R): R => fn() }
  const accesses = new Map([IN_POOL, IN_OTHER_POOL].map((pool) => [pool as number, new Set<number>()]))
  const pools = { accesses: (pool: number) => accesses.get(pool) }
  const parts = {
    library,
    must: mustOf(library),
    memory,
    contexts,
    relaxed,
    pools,
  } as unknown as ConstructorParameters<typeof PeerAccess>[0]
  return { peers: new PeerAccess(parts), calls }
}

test('a context and a pool are opened once for each device that uses their memory', () => {
  const { peers, calls } = fakeParts()
  for (const pointer of [IN_POOL, IN_POOL, PLAIN, IN_OTHER_POOL, IN_OTHER_POOL]) {
    assert.equal(peers.enable(pointer, 0, 1), true)
  }
  const [location, readAndWrite] = [1, 3]
  assert.deepEqual(calls, [
    'context 100',
    `pool ${IN_POOL} for ${[location, 1, readAndWrite, 0]}`,
    `pool ${IN_OTHER_POOL} for ${[location, 1, readAndWrite, 0]}`,
  ])
  assert.equal(peers.enable(IN_POOL, 0, 2), true)
  assert.deepEqual(calls.slice(3), ['context 100', `pool ${IN_POOL} for ${[location, 2, readAndWrite, 0]}`])
})

test('a pool that other code may destroy, and make again with the same handle, is opened at each use', () => {
  const { peers, calls } = fakeParts()
  for (let use = 0; use < 2; use += 1) assert.equal(peers.enable(0x5000 as Pointer, 0, 1), true)
  assert.equal(calls.filter((call) => call.startsWith('pool')).length, 2)
})

test('devices that cannot reach each other are recognised, and nothing is opened', () => {
  const { peers, calls } = fakeParts({ canReach: false })
  assert.equal(peers.enable(IN_POOL, 0, 1), false)
  assert.deepEqual(calls, [])
})

test('a context that other code has opened before is open; another refusal is the driver’s', () => {
  assert.equal(fakeParts({ enable: 704 }).peers.enable(PLAIN, 0, 1), true)
  assert.throws(() => fakeParts({ enable: 711 }).peers.enable(PLAIN, 0, 1), CudaError)
  assert.throws(() => fakeParts({ pool: 1 }).peers.enable(IN_POOL, 0, 1), CudaError)
})

const ONE = { grid: 1, block: 1 }
const bump = defineKernel({
  name: 'bump',
  source: 'extern "C" __global__ void bump(unsigned char* bytes) { *bytes = 1; }',
  signature: ['inout u8*'],
  simulateGrid: (_grid, bytes) => bytes.fill(1, 0, 1),
})

test('memory that a stream’s device cannot reach is refused, but for copies between devices, which CUDA brings over', async () => {
  const [near, far] = simulate({ devices: 2 }).devices
  assert.ok(near && far)
  const betweens: unknown[] = []
  const front = driverOf(near)
  const { unwrap } = front.wrap((next) => ({
    memory: { enablePeerAccess: () => false },
    work: {
      queue(work) {
        if (work.kind === 'copy') betweens.push(work.route)
        next.work.queue(work)
      },
    },
  }))
  using stream = near.createStream()
  using here = near.alloc(64)
  using there = far.alloc(64)
  using pinned = near.allocPinned(64)
  stream.fill(here, 1).copy(there, here).copy(here, there).copy(pinned, here)
  assert.deepEqual(betweens, [{ to: 1, from: 0 }, { to: 0, from: 1 }, undefined])
  using graph = stream.capture(() => void stream.launch(bump, ONE, here))
  const [kernel] = graph.nodesOf(bump)
  assert.ok(kernel)
  using exec = graph.instantiate()
  for (const call of [
    () => stream.launch(bump, ONE, there),
    () => exec.update(kernel, ONE, there),
    () => stream.fill(there, 1),
    () => stream.copy(pinned, there),
    () => stream.copy(there, pinned),
  ]) {
    assert.throws(call, { code: 'ERR_UNSUPPORTED', message: /cannot access/ })
  }
  await stream.finished()
  unwrap()
})
