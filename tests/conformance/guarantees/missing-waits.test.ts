/** V1, V6: a wait that is missing gives wrong bytes on the simulator, and is reported by the sanitizer on every backend. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { explore, simulate } from 'cuda-streams/sim'
import { onEveryBackend } from '../../helpers/suite.js'

/** What a consumer reads of what a producer writes. */
async function consumed(waits: boolean, seed: number): Promise<number | undefined> {
  using simulation = simulate({ seed })
  const [device] = simulation.devices
  const [producer, consumer] = [new Stream({ device }), new Stream({ device })]
  const buffer = producer.device.alloc(4, { stream: producer })
  await producer.fill(buffer, 0).finished()
  producer.fill(buffer, 1)
  if (waits) consumer.wait(producer)
  return (await consumer.download(buffer))[0]
}

test('V1 without the wait the consumer reads what was there before, and with it what was written, under every seed', async () => {
  for (let seed = 0; seed < 10; seed += 1) assert.equal(await consumed(true, seed), 1, `seed ${seed}`)
  assert.equal(await consumed(false, 0), 0)
})

test('V1 an exploration finds that the bytes depend on the order', async () => {
  const program = (waits: boolean) => async (simulation: ReturnType<typeof simulate>) => {
    const [device] = simulation.devices
    const [producer, consumer] = [new Stream({ device }), new Stream({ device })]
    const buffer = producer.device.alloc(1, { stream: producer })
    await producer.fill(buffer, 0).finished()
    producer.fill(buffer, 1)
    if (waits) consumer.wait(producer)
    return [...(await consumer.download(buffer))]
  }
  assert.equal((await explore(program(true))).verdict, 'agree')
  assert.equal((await explore(program(false))).verdict, 'disagree')
})

onEveryBackend('a missing wait', (bench) => {
  const { device } = bench

  for (const waits of [false, true]) {
    test(`V6 the sanitizer reports ${waits ? 'nothing where the wait is there' : 'a wait that is missing, and which it is'}`, async () => {
      using producer = bench.stream()
      using consumer = bench.stream()
      using sanitizer = Sanitizer.start({ device })
      using buffer = device.alloc(4, { stream: producer })
      producer.fill(buffer, 1)
      if (waits) consumer.wait(producer)
      await consumer.download(buffer)
      const [report, ...more] = sanitizer.reports
      assert.equal(more.length, 0)
      if (waits) assert.equal(report, undefined)
      else assert.match(report?.message ?? '', /Race: .*Add `.*\.wait\(.*\)` before this download/s)
    })
  }
})
