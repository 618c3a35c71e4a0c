/** G18: the GPU decides whether, and how often, the body of a conditional node runs. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineKernel } from 'cuda-streams'
import { onEveryBackend } from '../../helpers/suite.js'

const setCondition = defineKernel({
  name: 'set_condition',
  source: `extern "C" __global__ void set_condition(unsigned long long condition, unsigned value) {
    cudaGraphSetConditional(condition, value);
  }`,
  signature: ['u64', 'u32'],
  simulate: ({ setConditional }, condition, value) => setConditional(condition, value),
})
const countDown = defineKernel({
  name: 'count_down',
  source: `extern "C" __global__ void count_down(unsigned long long condition, unsigned* count) {
    *count -= 1;
    cudaGraphSetConditional(condition, *count);
  }`,
  signature: ['u64', 'inout u32*'],
  simulateGrid: ({ setConditional }, condition, count) => {
    count[0] = (count[0] ?? 0) - 1
    setConditional(condition, count[0])
  },
})
const ONE = { grid: 1, block: 1 } as const

onEveryBackend('conditional nodes', (bench) => {
  const { device } = bench

  for (const [value, expected] of [
    [1, 5],
    [0, 6],
  ] as const) {
    test(`G18 an if whose condition a kernel sets to ${value} plays its ${value === 1 ? 'first' : 'second'} body`, async () => {
      await setCondition.prepare(device)
      using stream = bench.stream()
      using byte = device.alloc(1, { stream })
      using graph = stream.capture(() => {
        const condition = stream.createCondition(1 - value)
        stream.launch(setCondition, ONE, condition, value)
        stream.if(
          condition,
          (body) => void body.fill(byte, 5),
          (body) => void body.fill(byte, 6),
        )
      })
      using exec = graph.instantiate()
      assert.equal((await stream.fill(byte, 0).launch(exec).download(byte))[0], expected)
    })
  }

  test('G18 a while plays its body until a kernel sets its condition to 0', async () => {
    await countDown.prepare(device)
    using stream = bench.stream()
    using left = device.alloc(4, { stream })
    using graph = stream.capture(() => {
      const condition = stream.createCondition(1)
      stream.while(condition, (body) => void body.launch(countDown, ONE, condition, left))
    })
    using exec = graph.instantiate()
    for (let launch = 0; launch < 2; launch += 1) {
      await stream.upload(left, Uint32Array.of(3))
      assert.equal((await stream.launch(exec).download(left, Uint32Array))[0], 0)
    }
  })

  test('G18 what comes behind a conditional node comes after its body', async () => {
    using stream = bench.stream()
    using bytes = device.alloc(2, { stream })
    await stream.fill(bytes, 0).finished()
    using graph = stream.capture(() => {
      stream.if(stream.createCondition(1), (body) => void body.fill(bytes.subarray(0, 1), 7))
      stream.copy(bytes.subarray(1, 2), bytes.subarray(0, 1))
    })
    using exec = graph.instantiate()
    assert.deepEqual([...(await stream.launch(exec).download(bytes))], [7, 7])
  })
})
