/** Operations on diagnostics channels, and as OpenTelemetry spans. */
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, it } from 'node:test'
import type { Context, ContextManager } from '@opentelemetry/api'
import { type Device, Stream } from 'cuda-streams'
import { busy, latch, simulate } from 'cuda-streams/sim'
import { nameStream, type OperationMessage, publish, type SynchronizeMessage, Timeline } from 'cuda-streams/timeline'
import { driverOf } from '../../../src/core/device.js'
import type { WrappableDriver } from '../../../src/foundation/driver/wrappable-driver.js'
import { refused } from '../../conformance/expect.js'
import { heard } from './heard.js'

function machine(): { device: Device; front: WrappableDriver; a: Stream; b: Stream } {
  const [device] = simulate().devices
  assert.ok(device)
  const front = driverOf(device)
  return { device, front, a: nameStream(new Stream({ device }), 'a'), b: new Stream({ device }) }
}

describe('the channels', () => {
  it('tell each operation once, when it is done, in the order of the calls', async () => {
    const { device, a } = machine()
    const before = Date.now()
    const messages = await heard<OperationMessage>('cuda-streams:operation', async () => {
      using publisher = publish({ device })
      busy(a, 1000)
      a.record()
      a.launchHostFunc(() => {})
      busy(a, 3000)
      publisher.flush()
      await a.finished()
      publisher.flush()
      publisher.flush()
    })
    assert.deepEqual(
      messages.map(({ kind, name, streamName, device: on, driver }) => [kind, name, streamName, on, driver]),
      [
        ['kernel', 'busy', 'a', 0, 'sim'],
        ['hostFunction', 'host function', 'a', 0, 'sim'],
        ['kernel', 'busy', 'a', 0, 'sim'],
      ],
    )
    const [first, , last] = messages
    assert.ok(first !== undefined && last !== undefined)
    assert.ok(Math.abs(last.end - last.start - 0.003) < 1e-3, 'milliseconds')
    assert.ok(first.queued <= first.start && first.end <= last.start)
    assert.ok(Math.abs(first.start - before) < 60_000, 'since 1970')
    assert.equal(first.stream, a.id)
  })

  it('tell a graph when it is done, not when it begins', async () => {
    const { device, a } = machine()
    const exec = a.capture(() => void busy(a, 5e6)).instantiate()
    const messages = await heard<OperationMessage>('cuda-streams:operation', async () => {
      using publisher = publish({ device })
      a.launch(exec)
      publisher.flush()
      a.synchronize()
    })
    assert.deepEqual(
      messages.map(({ kind, start, end }) => [kind, Math.round(end - start)]),
      [['graph', 5]],
    )
  })

  it('tell where the host waited', async () => {
    const { device, a } = machine()
    const messages = await heard<{ name: string; awaits: boolean }>('cuda-streams:synchronize', async () => {
      using _publisher = publish({ device })
      busy(a, 1000)
      a.synchronize()
      busy(a, 1000)
      await a.finished()
    })
    assert.deepEqual(
      messages.map(({ name, awaits }) => [name, awaits]),
      [
        ['stream.synchronize()', false],
        ['stream.finished()', true],
      ],
    )
  })

  it('tell of a promise once it has settled, and of other work meanwhile', async () => {
    const { device, a } = machine()
    const b = new Stream({ device })
    const operations: OperationMessage[] = []
    const listener = (message: unknown): void => void operations.push(message as OperationMessage)
    subscribe('cuda-streams:operation', listener)
    const calls = await heard<SynchronizeMessage>('cuda-streams:synchronize', async () => {
      busy(a, 5e6)
      using publisher = publish({ device })
      const done = a.finished()
      publisher.flush()
      busy(b, 1000)
      b.synchronize()
      publisher.flush()
      assert.equal(operations.length, 1, 'what was queued behind the call does not wait for the promise')
      await done
      publisher.flush()
      publisher.flush()
    })
    unsubscribe('cuda-streams:operation', listener)
    assert.deepEqual(
      calls.map(({ name, awaits }) => [name, awaits]),
      [
        ['stream.synchronize()', false],
        ['stream.finished()', true],
      ],
    )
    const took = calls.map(({ start, end }) => end - start)
    assert.ok(Math.abs((took[1] ?? 0) - 5) < 0.01, `of 5 ms: ${took[1]}`)
  })

  it('tell of a promise that was given up or refused, too', async () => {
    const { device, a } = machine()
    const held = latch(a)
    const calls = await heard<SynchronizeMessage>('cuda-streams:synchronize', async () => {
      using publisher = publish({ device })
      const abort = new AbortController()
      const given = a.finished({ signal: abort.signal })
      publisher.flush()
      const b = new Stream({ device })
      b.beginCapture()
      await assert.rejects(b.finished())
      b.endCapture()
      const c = new Stream({ device })
      busy(c, 1e6)
      c.synchronize()
      abort.abort()
      await assert.rejects(given)
    })
    held.open()
    assert.deepEqual(
      calls.map(({ name }) => name),
      ['stream.finished()', 'stream.finished()', 'stream.synchronize()'],
    )
    const took = calls.map(({ start, end }) => end - start)
    assert.ok((took[0] ?? 0) >= 1, `it was given up after 1 ms: ${took[0]}`)
  })

  it('tell of a call that blocks once it has returned, where a host function looks meanwhile', async () => {
    const { device, a } = machine()
    const calls = await heard<SynchronizeMessage>('cuda-streams:synchronize', async () => {
      let looks = 0
      a.launchHostFunc(() => {
        looks += 1
        publisher.flush()
      })
      busy(a, 1e6)
      using publisher = publish({ device })
      a.synchronize()
      assert.equal(looks, 1)
    })
    const took = calls.map(({ start, end }) => end - start)
    assert.equal(took.length, 1)
    assert.ok((took[0] ?? 0) >= 1, `of 1 ms: ${took[0]}`)
  })

  it('tell of a promise that is older than what is kept of operations', async () => {
    const { device, a } = machine()
    const b = new Stream({ device })
    const held = latch(a)
    const ends: number[] = []
    const listener = (message: unknown): void => void ends.push((message as OperationMessage).end)
    subscribe('cuda-streams:operation', listener)
    const rounds = 300
    const calls = await heard<SynchronizeMessage>('cuda-streams:synchronize', async () => {
      using publisher = publish({ device, interval: 1e6 })
      const done = a.finished()
      for (let round = 0; round < rounds; round += 1) {
        for (let i = 0; i < 500; i += 1) busy(b, 1)
        b.synchronize()
      }
      publisher.flush()
      busy(b, 1)
      b.synchronize()
      held.open()
      await done
    })
    unsubscribe('cuda-streams:operation', listener)
    assert.equal(ends.length, rounds * 500 + 1)
    const promises = calls.filter(({ awaits }) => awaits)
    assert.equal(promises.length, 1)
    const [{ start, end } = { start: 0, end: 0 }] = promises
    assert.ok(start <= (ends[0] ?? 0) && end >= (ends.at(-1) ?? Number.POSITIVE_INFINITY))
  })

  it('tell each operation once, also where a subscriber looks again, and nothing once it has closed', async () => {
    const { device, a } = machine()
    let told = 0
    const listener = (): void => {
      told += 1
      if (told > 3) return
      publisher.flush()
      publisher.close()
    }
    const publisher = publish({ device })
    subscribe('cuda-streams:operation', listener)
    busy(a, 1000)
    busy(a, 1000)
    a.synchronize()
    publisher.flush()
    busy(a, 1000)
    a.synchronize()
    publisher.flush()
    unsubscribe('cuda-streams:operation', listener)
    assert.equal(told, 1)
  })

  it('tell of no call that waits either, once a subscriber has closed', async () => {
    const { device, a, b } = machine()
    let told = 0
    const publisher = publish({ device })
    const listener = (): void => {
      told += 1
      publisher.close()
    }
    subscribe('cuda-streams:synchronize', listener)
    for (const stream of [a, b]) busy(stream, 1000)
    const promises = [a.finished(), b.finished()]
    publisher.flush()
    assert.equal(told, 0)
    await Promise.all(promises)
    publisher.flush()
    unsubscribe('cuda-streams:synchronize', listener)
    assert.equal(told, 1)
  })

  it('end no recording but their own, where a subscriber closes what is closed already', async () => {
    const { device, front, a } = machine()
    const recording = Timeline.start({ device })
    const publisher = publish({ device })
    const listener = (): void => publisher.close()
    subscribe('cuda-streams:operation', listener)
    busy(a, 10)
    a.synchronize()
    const recorded = [...front.interceptors]
    publisher.close()
    unsubscribe('cuda-streams:operation', listener)
    assert.deepEqual(front.interceptors, recorded)
    busy(a, 10)
    assert.equal((await recording.stop()).operations.length, 2)
  })

  it('tell nothing once closed, and leave the driver as it was', async () => {
    const { device, front, a } = machine()
    const messages = await heard('cuda-streams:operation', async () => {
      const publisher = publish({ device })
      publisher.close()
      publisher.close()
      busy(a, 10)
      a.synchronize()
    })
    assert.deepEqual(messages, [])
    assert.deepEqual(front.interceptors, [])
  })

  it('go on for longer than any recording', async () => {
    const { device, a } = machine()
    let count = 0
    const listener = (): void => {
      count += 1
    }
    subscribe('cuda-streams:operation', listener)
    const publisher = publish({ device, interval: 1e6 })
    const rounds = 60
    const each = 5000
    for (let round = 0; round < rounds; round += 1) {
      for (let i = 0; i < each; i += 1) {
        busy(a, 1)
        if (i % 500 === 0) a.synchronize()
      }
      a.synchronize()
      publisher.flush()
    }
    publisher.close()
    unsubscribe('cuda-streams:operation', listener)
    assert.equal(count, rounds * each)
  })

  it('refuse an interval that no timer keeps', () => {
    const { device } = machine()
    for (const interval of [2 ** 31, 1e12, Number.POSITIVE_INFINITY]) {
      refused(() => publish({ device, interval }), 'ERR_OUT_OF_RANGE', /2147483647/)
    }
    publish({ device, interval: 2 ** 31 - 1 }).close()
  })

  it('may be open while a timeline is recorded', async () => {
    const { device, a } = machine()
    const messages = await heard('cuda-streams:operation', async () => {
      using _publisher = publish({ device })
      const timeline = await Timeline.record(() => busy(a, 10), { device })
      assert.equal(timeline.operations.length, 1)
    })
    assert.equal(messages.length, 1)
  })

  it('refuse an interval that is none', () => {
    const { device } = machine()
    for (const interval of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31]) {
      refused(() => publish({ device, interval }), 'ERR_OUT_OF_RANGE', /options\.interval/)
    }
    for (const interval of ['100', null] as unknown as number[]) {
      refused(() => publish({ device, interval }), 'ERR_INVALID_ARG_TYPE', /options\.interval/)
    }
  })
})

const SDK = '@opentelemetry/sdk-trace-base'
const sdk = await import('@opentelemetry/sdk-trace-base').catch((error: unknown) => String(error))

describe('OpenTelemetry', () => {
  const skip = typeof sdk === 'string' && `no ${SDK} here: ${sdk}`

  it('gets a span for each operation, with its times and attributes', { skip }, async () => {
    assert.ok(typeof sdk !== 'string')
    const { traceOperations } = await import('cuda-streams/opentelemetry')
    const { device, a } = machine()
    const exporter = new sdk.InMemorySpanExporter()
    const provider = new sdk.BasicTracerProvider({ spanProcessors: [new sdk.SimpleSpanProcessor(exporter)] })
    const buffer = device.alloc(1024)
    const spans = traceOperations({ tracer: provider.getTracer('test'), device })
    busy(a, 2_000_000)
    a.fill(buffer, 1)
    await a.finished()
    spans.close()
    const [kernel, fill, ...none] = exporter.getFinishedSpans()
    assert.deepEqual(none, [])
    assert.equal(kernel?.name, 'busy')
    assert.equal(kernel?.attributes['cuda.stream.name'], 'a')
    assert.equal(kernel?.attributes['cuda.operation'], 'kernel')
    assert.equal(fill?.attributes['cuda.bytes'], 1024)
    const [seconds, nanoseconds] = kernel?.duration ?? [0, 0]
    assert.ok(Math.abs(seconds * 1e9 + nanoseconds - 2e6) < 2000, `${seconds} s ${nanoseconds} ns`)
    const { traceOperations: again } = await import('cuda-streams/opentelemetry')
    refused(() => again({ tracer: {} as never, device }), 'ERR_INVALID_ARG_TYPE')
  })

  it('gets each span once beside publish(), and none of another machine', { skip }, async () => {
    assert.ok(typeof sdk !== 'string')
    const { traceOperations } = await import('cuda-streams/opentelemetry')
    const [{ device, a }, other] = [machine(), machine()]
    const exporter = new sdk.InMemorySpanExporter()
    const provider = new sdk.BasicTracerProvider({ spanProcessors: [new sdk.SimpleSpanProcessor(exporter)] })
    const messages = await heard<OperationMessage>('cuda-streams:operation', async () => {
      using _publishers = publish({ device })
      using _others = publish({ device: other.device })
      using _spans = traceOperations({ tracer: provider.getTracer('test'), device })
      busy(a, 1000)
      other.a.launchHostFunc(() => {})
      await Promise.all([a.finished(), other.a.finished()])
    })
    assert.deepEqual(
      exporter.getFinishedSpans().map(({ name }) => name),
      ['busy'],
    )
    assert.deepEqual(
      messages.map(({ kind }) => kind),
      ['hostFunction', 'kernel'],
    )
  })

  it('is asked for nothing more once closed', { skip }, async () => {
    assert.ok(typeof sdk !== 'string')
    const { traceOperations } = await import('cuda-streams/opentelemetry')
    const { device, a } = machine()
    const exporter = new sdk.InMemorySpanExporter()
    const provider = new sdk.BasicTracerProvider({ spanProcessors: [new sdk.SimpleSpanProcessor(exporter)] })
    const first = traceOperations({ tracer: provider.getTracer('test'), device })
    first.close()
    busy(a, 10)
    a.synchronize()
    assert.deepEqual(exporter.getFinishedSpans(), [])
  })

  it('gets spans that belong to the request that queued the work, however late they are made', { skip }, async () => {
    assert.ok(typeof sdk !== 'string')
    const { context, ROOT_CONTEXT, trace } = await import('@opentelemetry/api')
    const { traceOperations } = await import('cuda-streams/opentelemetry')
    const { device, a, b } = machine()
    nameStream(b, 'b')
    const exporter = new sdk.InMemorySpanExporter()
    const provider = new sdk.BasicTracerProvider({ spanProcessors: [new sdk.SimpleSpanProcessor(exporter)] })
    const tracer = provider.getTracer('test')
    const current = new AsyncLocalStorage<Context>()
    const manager: ContextManager = {
      active: () => current.getStore() ?? ROOT_CONTEXT,
      with: (active, fn, self, ...values) => current.run(active, () => fn.apply(self, values)),
      bind: (_, target) => target,
      enable: () => manager,
      disable: () => manager,
    }
    assert.ok(context.setGlobalContextManager(manager))
    try {
      const request = (name: string, stream: Stream, time: number): Promise<void> => {
        const span = tracer.startSpan(name)
        return context.with(trace.setSpan(context.active(), span), async () => {
          busy(stream, time)
          await stream.finished()
          stream.fill(device.alloc(8, { stream }), 0)
          stream.launchHostFunc(() => busy(stream, time + 1))
          await stream.finished()
          span.end()
        })
      }
      // What is active where publishing begins is no parent of anything.
      const setup = tracer.startSpan('setup')
      const spans = context.with(trace.setSpan(ROOT_CONTEXT, setup), () => traceOperations({ tracer, device }))
      setup.end()
      busy(a, 5)
      await Promise.all([request('one', a, 1000), request('two', b, 2000)])
      await Promise.all([a.finished(), b.finished()])
      spans.close()
      const finished = exporter.getFinishedSpans()
      const parents = finished.flatMap(({ name, attributes, parentSpanContext }) => {
        const parent = finished.find((span) => span.spanContext().spanId === parentSpanContext?.spanId)
        return name === 'one' || name === 'two' || name === 'setup'
          ? []
          : [[name, attributes['cuda.stream.name'], parent?.name]]
      })
      assert.deepEqual(
        parents.sort(),
        [
          ['busy', 'a', undefined],
          ...['a', 'b'].flatMap((stream, at) =>
            ['busy', 'fill', 'host function', 'busy'].map((name) => [name, stream, ['one', 'two'][at]]),
          ),
        ].sort(),
      )
    } finally {
      context.disable()
    }
  })
})
