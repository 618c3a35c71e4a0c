/** K9: programmatic dependent launch and the other attributes of a launch. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineKernel, type LaunchConfigOptions, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { refused, stillWorks } from './expect.js'

/** Adds one to each number once the kernel before has written them; begins early where it may. */
const increment = defineKernel({
  name: 'increment',
  source: `extern "C" __global__ void increment(unsigned *numbers) {
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    numbers[blockIdx.x * blockDim.x + threadIdx.x] += 1;
  }`,
  signature: ['inout u32*'],
  simulate({ globalX }, numbers) {
    numbers[globalX] = (numbers[globalX] ?? 0) + 1
  },
})

/** Each block tells of how many blocks its cluster is. */
const clusterSize = defineKernel({
  name: 'clusterSize',
  source: `extern "C" __global__ void clusterSize(unsigned *blocks) {
    unsigned size;
    asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
    blocks[blockIdx.x] = size;
  }`,
  signature: ['out u32*'],
  simulate({ globalX }, blocks) {
    blocks[globalX] = 2
  },
})

const ATTRIBUTES: readonly LaunchConfigOptions[] = [
  { programmatic: true },
  { programmatic: false },
  { priority: -2 },
  { priority: 100 },
  { sharedMemoryCarveout: 0 },
  { sharedMemoryCarveout: 100 },
  { memorySyncDomain: 'remote' },
  { memorySyncDomain: 'default' },
  { clusterScheduling: 'spread' },
  { clusterScheduling: 'loadBalancing' },
  { cluster: 2, preferredCluster: 4 },
  { cluster: 2, preferredCluster: 2 },
  {
    programmatic: true,
    priority: -1,
    sharedMemoryCarveout: 50,
    memorySyncDomain: 'remote',
    clusterScheduling: 'spread',
  },
]
const SHAPE = { grid: 8, block: 64 }
const BYTES = 8 * 64 * 4

onEveryBackend('the attributes of a launch', (bench) => {
  const { device } = bench

  test('K9 it computes the same with each of them', async () => {
    await increment.prepare(device)
    using stream = bench.stream()
    using numbers = device.alloc(BYTES, { stream })
    stream.fill(numbers, 0)
    for (const attributes of ATTRIBUTES) stream.launch(increment, { ...SHAPE, ...attributes }, numbers)
    const got = await stream.download(numbers, Uint32Array)
    assert.deepEqual(got, new Uint32Array(BYTES / 4).fill(ATTRIBUTES.length))
  })

  test('K9 clusters are of the preferred size or of the one that they are made of', async (t) => {
    await clusterSize.prepare(device)
    using stream = bench.stream()
    using blocks = device.alloc(4 * 8, { stream })
    for (const preferredCluster of [undefined, 4, 8] as const) {
      stream.fill(blocks, 0).launch(clusterSize, { grid: 8, block: 1, cluster: 2, preferredCluster }, blocks)
      const got = [...(await stream.download(blocks, Uint32Array))]
      t.diagnostic(`preferred ${preferredCluster}: clusters of ${got}`)
      const allowed = [2, preferredCluster]
      assert.deepEqual(
        got.filter((size) => !allowed.includes(size)),
        [],
      )
    }
  })

  test('K9 a long chain of kernels that begin early is in order, captured too', async () => {
    await increment.prepare(device)
    using stream = bench.stream()
    using numbers = device.alloc(BYTES, { stream })
    stream.fill(numbers, 0)
    const launch = (): void => {
      for (let nth = 0; nth < 50; nth += 1) stream.launch(increment, { ...SHAPE, programmatic: true }, numbers)
    }
    launch()
    using exec = stream.capture(launch).instantiate()
    for (let nth = 0; nth < 3; nth += 1) exec.launch(stream)
    assert.deepEqual(await stream.download(numbers, Uint32Array), new Uint32Array(BYTES / 4).fill(200))
  })

  test('K9 a stream of another memory domain computes the same, and a wrong domain is refused', async () => {
    await increment.prepare(device)
    for (const memorySyncDomain of ['default', 'remote', undefined] as const) {
      using stream = new Stream({ device, memorySyncDomain })
      using numbers = device.alloc(BYTES, { stream })
      stream.fill(numbers, 0).launch(increment, SHAPE, numbers)
      stream.launch(increment, { ...SHAPE, memorySyncDomain: 'default' }, numbers)
      assert.deepEqual(await stream.download(numbers, Uint32Array), new Uint32Array(BYTES / 4).fill(2))
    }
    const make = (memorySyncDomain: unknown): unknown => device.createStream({ memorySyncDomain } as never)
    refused(() => make('far'), 'ERR_INVALID_ARG_VALUE', /options.memorySyncDomain must be 'default' or 'remote'/)
    refused(() => make(1), 'ERR_INVALID_ARG_TYPE', /options.memorySyncDomain/)
  })

  test('K9 a stream of another memory domain is made beside captures, and leaves them valid', () => {
    for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
      using capturing = bench.stream()
      capturing.beginCapture(mode)
      new Stream({ device, memorySyncDomain: 'remote' }).close()
      using graph = capturing.endCapture()
      assert.equal(graph.nodeCount, 0)
    }
  })

  test('K9 a value that an attribute does not have is refused, and nothing is queued', async () => {
    await increment.prepare(device)
    using stream = bench.stream()
    using numbers = device.alloc(BYTES, { stream })
    const launch = (more: object): void => void stream.launch(increment, { ...SHAPE, ...more }, numbers)
    refused(() => launch({ programmatic: 1 }), 'ERR_INVALID_ARG_TYPE', /config.programmatic/)
    refused(() => launch({ priority: 0.5 }), 'ERR_INVALID_ARG_TYPE', /config.priority/)
    refused(() => launch({ sharedMemoryCarveout: 101 }), 'ERR_OUT_OF_RANGE', /config.sharedMemoryCarveout/)
    refused(() => launch({ memorySyncDomain: 'far' }), 'ERR_INVALID_ARG_VALUE', /'default' or 'remote'/)
    refused(() => launch({ clusterScheduling: 2 }), 'ERR_INVALID_ARG_TYPE', /'spread' or 'loadBalancing'/)
    refused(
      () => launch({ cluster: 3 }),
      'ERR_INVALID_ARG_VALUE',
      /config\.grid must be whole clusters .*8,1,1 .*3,1,1/,
    )
    refused(() => launch({ preferredCluster: 4 }), 'ERR_INVALID_ARG_VALUE', /needs config.cluster/)
    refused(
      () => launch({ cluster: 2, preferredCluster: 3 }),
      'ERR_INVALID_ARG_VALUE',
      /multiple of 2 that divides 8 in x/,
    )
    refused(() => launch({ cluster: 2, preferredCluster: 6 }), 'ERR_INVALID_ARG_VALUE', /divides 8 in x.*is 6/)
    refused(() => launch({ cluster: 2, preferredCluster: [4, 1, 2] }), 'ERR_INVALID_ARG_VALUE', /be 1 in z/)
    refused(() => launch({ cluster: 2, preferredCluster: '4' }), 'ERR_INVALID_ARG_TYPE', /config.preferredCluster/)
    refused(() => launch({ programatic: true }), 'ERR_INVALID_ARG_VALUE', /programmatic/)
    stillWorks(bench, stream)
  })
})
