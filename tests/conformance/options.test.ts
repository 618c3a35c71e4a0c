/** What is passed where options belong, and options that contradict what they are for. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DefinedKernel, Device, defineKernel, Event, ExternalStream, Kernel, Module, Stream } from 'cuda-streams'
import { foreignStream, simulate } from 'cuda-streams/sim'
import { onEveryBackend } from '../helpers/suite.js'
import { ONE_DEVICE, refused, secondDevice } from './expect.js'

onEveryBackend('options', (bench) => {
  const { device } = bench

  test('A1 an object that is something in itself is no options object: the message says into which option it belongs', () => {
    using stream = bench.stream()
    using other = bench.stream()
    using event = device.createEvent()
    const { signal } = new AbortController()
    const wrong: readonly (readonly [RegExp, () => unknown])[] = [
      [/\{ device \}/, () => new Stream(device as never)],
      [/\{ device \}/, () => new ExternalStream(0n, device as never)],
      [/\{ device \}/, () => Stream.from(0n, device as never)],
      [/\{ device \}/, () => new Event(device as never)],
      [/\{ device \}/, () => Event.from(event.handle, device as never)],
      [/\{ device \}/, () => device.createStream(device as never)],
      [/\{ device \}/, () => device.createEvent(device as never)],
      [/\{ device \}/, () => stream.record(device as never)],
      [/\{ stream \}/, () => device.alloc(16, stream as never)],
      [/\{ event \}/, () => stream.wait(other, event as never)],
      [/\{ device \}/, () => simulate(device as never)],
      [/options/, () => new Stream(new Map() as never)],
      [/options/, () => new Stream(Promise.resolve() as never)],
    ]
    for (const [way, call] of wrong) refused(call, 'ERR_INVALID_ARG_TYPE', /options/, way)
    assert.equal(event.query(), true, 'nothing was recorded')
    void signal
  })

  test('A1 so is a signal: a wait is not one that cannot be aborted', async () => {
    using stream = bench.stream()
    const { signal } = new AbortController()
    await assert.rejects(stream.finished(signal as never), { code: 'ERR_INVALID_ARG_TYPE', message: /\{ signal \}/ })
    await assert.rejects(device.finished(signal as never), { code: 'ERR_INVALID_ARG_TYPE', message: /\{ signal \}/ })
  })

  test('A2 options may be inherited, and got', () => {
    const { greatest } = device.priorityRange
    const inherited = Object.create({ priority: greatest, timing: true })
    class Computed {
      get priority(): number {
        return greatest
      }
      get timing(): boolean {
        return true
      }
    }
    for (const options of [inherited, new Computed()]) {
      using stream = device.createStream(options)
      assert.equal(stream.priority, greatest)
      using event = device.createEvent(options)
      assert.equal(event.timing, true)
    }
  })

  test('A2 options are read once, before anything is done', () => {
    using stream = bench.stream()
    const event = device.createEvent()
    const buffer = device.alloc(8, { stream })
    const closing = bench.stream()
    const reads: string[] = []
    const asked = <T extends object>(options: T, closes?: Disposable): T =>
      new Proxy(options, {
        get: (target, name) => {
          reads.push(String(name))
          closes?.[Symbol.dispose]()
          return Reflect.get(target, name)
        },
      })
    stream.record(asked({ timing: true, blockingSync: true, interprocess: false, external: false })).close()
    const width = 4 as const
    stream.fill(buffer, 1, asked({ width }))
    new Stream(asked({ priority: 0, nonBlocking: true, device })).close()
    const read = reads.filter((name) => name !== 'Symbol(Symbol.toStringTag)').sort()
    assert.deepEqual(read, [...new Set(read)])
    for (const name of [
      'blockingSync',
      'device',
      'external',
      'interprocess',
      'nonBlocking',
      'priority',
      'timing',
      'width',
    ])
      assert.ok(read.includes(name), name)
    refused(() => closing.record(asked({ timing: true }, closing)), 'ERR_CLOSED')
    refused(() => stream.wait(event, asked({ external: false }, event)), 'ERR_CLOSED')
    refused(() => stream.fill(buffer, 1, asked({ width }, buffer)), 'ERR_CLOSED')
    stream.synchronize()
  })

  test('A2 what a getter of the options throws comes through', () => {
    const cause = new Error('mine')
    const throwing = {
      get device(): never {
        throw cause
      },
    }
    assert.throws(
      () => new Stream(throwing),
      (error) => error === cause,
    )
  })

  test('A1 an ordinal in the options of a device is one of its own driver', {
    skip: secondDevice(bench) === undefined ? ONE_DEVICE : false,
  }, () => {
    const second = secondDevice(bench) as Device
    using stream = second.createStream({ device: second.ordinal })
    assert.equal(stream.device, second)
    refused(() => second.createStream({ device: 0 }), 'ERR_DEVICE_MISMATCH', /0/)
    refused(() => second.createEvent({ device } as never), 'ERR_DEVICE_MISMATCH')
    if (bench.name === 'sim') refused(() => foreignStream(second, { device }), 'ERR_DEVICE_MISMATCH')
  })

  test('A3 what is not made by its constructor says how it is made', () => {
    for (const [way, make] of [
      [/Module\.load/, () => new (Module as never as new () => unknown)()],
      [/module\.kernel/, () => Reflect.construct(Kernel, [])],
      [/definition/, () => defineKernel(undefined as never)],
      [/definition/, () => new DefinedKernel(undefined as never)],
      [/Device\.get/, () => new (Device as never as new (key: object) => unknown)({})],
    ] as const) {
      refused(make, 'ERR_INVALID_ARG_TYPE', way)
    }
  })
})
