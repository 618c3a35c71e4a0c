/** What the conformance tests run in processes of their own. Usage: scenarios.js <sim:seed | cuda | none> <scenario> */
import { isMainThread, Worker } from 'node:worker_threads'
import { Device, Event, Stream, StreamPool } from 'cuda-streams'
import { simulate, simulationOf } from 'cuda-streams/sim'
import { openCudaWorkbench } from '../../helpers/cuda-workbench.js'
import { simWorkbench, type Workbench } from '../../helpers/workbench.js'

const say = (text: string): void => void process.stdout.write(`${text}\n`)
const codeOf = (error: unknown): string => String((error as { code?: unknown }).code)

/** Says when the process ends by itself; what is held is let go then, since a GPU would keep the process otherwise. */
function atTheEnd(letGo: () => void = () => {}): void {
  process.on('exit', () => {
    letGo()
    say('end')
  })
}

/** Holds a stream, and lets it go by a timer that does not keep the process alive. */
function hold(bench: Workbench): Stream {
  const stream = bench.stream()
  const latch = bench.latch(stream)
  setTimeout(() => latch.open(), 100).unref()
  atTheEnd(() => latch.open())
  say('waiting')
  return stream
}

const withBench = {
  pendingStream: (bench) => {
    void hold(bench)
      .finished()
      .then(() => say('finished'))
  },
  pendingEvent: (bench) => {
    void hold(bench)
      .record()
      .finished()
      .then(() => say('finished'))
  },
  pendingDevice: (bench) => {
    void hold(bench)
      .device.finished()
      .then(() => say('finished'))
  },
  pendingHostFunction: (bench) => {
    hold(bench).launchHostFunc(() => say('host function'))
  },
  pendingCallback: (bench) => {
    hold(bench).addCallback((_stream, status) => say(`callback ${status}`), undefined)
  },
  rejectedPromises: async (bench) => {
    process.on('uncaughtException', (error) => say(`uncaught: ${error.message}`))
    atTheEnd()
    const closed = bench.stream()
    closed.wait(Promise.reject(new Error('closed')))
    closed.close()
    const left = bench.stream()
    left.wait(Promise.reject(new Error('at the end')))
    Reflect.set(globalThis, 'left', left)
  },
  /** L2: the stream of a lane waits for a promise that rejects, and the next taker waits for the end of its own work. */
  rejectedInLane: async (bench) => {
    process.on('uncaughtException', (error) => say(`uncaught: ${error.message}`))
    const pool = new StreamPool({ device: bench.device, size: 1 })
    const lane = await pool.take()
    lane.stream.wait(Promise.reject(new Error('of the lane')))
    lane.close()
    const next = await pool.take()
    await next.stream.finished()
    say('the next is done')
  },
  promiseAlone: (bench) => {
    atTheEnd()
    const stream = bench.stream()
    stream.wait(new Promise(() => {}))
    bench.busy(stream, 1000)
  },
  promiseWithFinished: (bench) => {
    atTheEnd()
    const stream = bench.stream()
    stream.wait(new Promise<void>((resolve) => setTimeout(resolve, 50).unref()))
    void stream.finished().then(() => say('finished'))
  },
  hostFunctionAlone: (bench) => {
    atTheEnd()
    bench.stream().launchHostFunc(() => say('host function'))
  },
  nothingPending: (bench) => {
    const held = bench.stream()
    const stream = bench.stream()
    const latch = bench.latch(held)
    atTheEnd(() => latch.open())
    stream.wait(held.record()).record({ timing: true })
    bench.busy(stream, 1000)
    bench.device.createEvent()
    void [stream.cachedEvent, bench.device.defaultStream, stream.query()]
  },
  downloaderNotRead: (bench) => {
    const stream = bench.stream()
    const buffer = bench.device.alloc(64)
    const latch = bench.latch(stream)
    atTheEnd(() => latch.open())
    stream.downloader(buffer)
  },
  closedAllocationStream: (bench) => {
    const held = bench.stream()
    const allocationStream = bench.stream()
    const buffer = bench.device.alloc(64, { stream: allocationStream })
    const latch = bench.latch(held)
    atTheEnd(() => latch.open())
    allocationStream.beginCapture()
    allocationStream.close()
    buffer.close()
  },
  closedJoinedAllocationStream: (bench) => {
    const held = bench.stream()
    const allocationStream = bench.stream()
    const buffer = bench.device.alloc(64, { stream: allocationStream })
    const latch = bench.latch(held)
    atTheEnd(() => latch.open())
    held.capture(() => {
      allocationStream.wait(held)
      allocationStream.close()
    })
    buffer.close()
  },
  aborted: (bench) => {
    const stream = bench.stream()
    const latch = bench.latch(stream)
    atTheEnd(() => latch.open())
    const controller = new AbortController()
    const { signal } = controller
    const waits = [stream.finished({ signal }), stream.record().finished({ signal }), bench.device.finished({ signal })]
    void Promise.allSettled(waits).then((results) => {
      if (results.every(({ status }) => status === 'rejected')) say('aborted')
    })
    setTimeout(() => controller.abort(), 20)
  },
  settled: (bench) => {
    const stream = bench.stream()
    atTheEnd()
    bench.busy(stream, 1000)
    stream.launchHostFunc(() => {})
    void Promise.all([stream.finished(), stream.record().finished(), bench.device.finished()]).then(() =>
      say('finished'),
    )
  },
  /** Only the waits run JavaScript, and the timer keeps the event loop from its end, at which Node runs what has been left over. */
  waitsInARow: async (bench) => {
    const limit = setTimeout(() => process.exit(1), 15_000)
    const { device } = bench
    using stream = bench.stream()
    using buffer = device.alloc(64, { stream })
    using event = device.createEvent()
    const ways: Readonly<Record<string, () => Promise<unknown>>> = {
      stream: () => stream.finished(),
      event: () => stream.record(event).finished(),
      device: () => device.finished(),
      download: () => stream.download(buffer),
      upload: () => stream.upload(buffer, new Uint8Array(64)),
      hostFunction: () => new Promise<void>((resolve) => stream.launchHostFunc(resolve)),
      callback: () => new Promise<void>((resolve) => stream.addCallback(() => resolve(), undefined)),
      promise: () => stream.wait(stream.finished()).finished(),
    }
    for (const [way, wait] of Object.entries(ways)) {
      for (const nanoseconds of [0, 300_000, 1_000_000, 1_000_000, 5_000_000]) {
        bench.busy(stream, nanoseconds)
        await wait()
      }
      say(`${isMainThread ? 'main thread' : 'worker'}: ${way}`)
    }
    clearTimeout(limit)
    if (isMainThread) await again()
  },

  /** Only the waits keep the event loop of a worker alive: the timers that end them do not. */
  waitsInAWorker: async (bench) => {
    if (isMainThread) {
      await again()
      return
    }
    const { device } = bench
    using stream = bench.stream()
    using other = bench.stream()
    using buffer = device.alloc(64, { stream })
    using large = device.alloc(5 * 2 ** 20, { stream })
    using event = device.createEvent()
    using flags = device.allocPinned(8)
    const word = flags.view(BigInt64Array)
    const aborted = async (waitFor: (signal: AbortSignal) => Promise<void>): Promise<void> => {
      const controller = new AbortController()
      const wait = waitFor(controller.signal)
      // The abort comes from a timer that keeps nothing alive, while another wait is pending.
      setTimeout(() => controller.abort(), 1).unref()
      await Promise.all([wait.catch(() => {}), stream.finished()])
    }
    const ways: Readonly<Record<string, () => Promise<unknown>>> = {
      stream: () => stream.finished(),
      event: () => stream.record(event).finished(),
      'an event that is recorded again': () => {
        const first = stream.record(event).finished()
        return Promise.all([first, stream.record(event).finished()])
      },
      device: () => device.finished(),
      'a stream that waits for it': () => other.wait(stream).finished(),
      upload: () => stream.upload(buffer, new Uint8Array(64)),
      download: () => stream.download(buffer),
      'large upload': () => stream.upload(large, new Uint8Array(large.byteLength)),
      'large download': () => stream.download(large),
      uploader: async () => {
        const writer = stream.uploader(buffer).getWriter()
        await writer.write(new Uint8Array(64))
        await writer.close()
      },
      downloader: async () => {
        for await (const _ of stream.downloader(buffer, { chunkBytes: 16 }));
      },
      'host function': () => new Promise<void>((resolve) => stream.launchHostFunc(resolve)),
      callback: () => new Promise<void>((resolve) => stream.addCallback(() => resolve(), undefined)),
      promise: () => other.wait(stream.finished()).finished(),
      value: () => {
        word[0] = 0n
        setTimeout(() => void word.fill(1n), 2).unref()
        return stream.waitValue(flags, 1).finished()
      },
      'an aborted wait for a stream': () => aborted((signal) => stream.finished({ signal })),
      'an aborted wait for an event': () => aborted((signal) => stream.record(event).finished({ signal })),
      'an aborted wait for the device': () => aborted((signal) => device.finished({ signal })),
      'all at once': () =>
        Promise.all([
          stream.finished(),
          device.finished(),
          stream.upload(buffer, new Uint8Array(64)),
          new Promise<void>((resolve) => stream.launchHostFunc(resolve)),
          stream.download(buffer),
          stream.record(event).finished(),
        ]),
      disposal: async () => {
        await using made = bench.stream()
        made.wait(stream)
      },
    }
    for (const [way, wait] of Object.entries(ways)) {
      for (const milliseconds of [undefined, 0, 2, 30]) {
        const latch = milliseconds === undefined ? undefined : bench.latch(stream)
        setTimeout(() => latch?.open(), milliseconds).unref()
        await wait()
      }
      say(way)
    }
  },

  /** H3: what a host function throws is an uncaught exception, and the stream goes on. */
  throwing: async (bench) => {
    process.on('uncaughtException', (error) => say(`uncaught ${error instanceof Error ? error.message : error}`))
    const stream = bench.stream()
    const boom = (): never => {
      throw new Error('boom')
    }
    stream.launchHostFunc(boom)
    stream.launchHostFunc(() => say('next'))
    stream.synchronize()
    say('synchronized')
    await new Promise(setImmediate)
    stream.addCallback(boom, undefined)
    stream.launchHostFunc(() => say('next'))
    await stream.finished()
    say('finished')
    await new Promise(setImmediate)
    stream.launchHostFunc(() => {
      throw undefined
    })
    await bench.device.finished()
    await new Promise(setImmediate)
    say(`query ${stream.query()}`)
  },
  throwingUnhandled: (bench) => {
    bench.stream().launchHostFunc(() => {
      throw new Error('boom')
    })
  },

  /** O6: opens what the parent shared. */
  openIpcEvent: ({ device }) => {
    using event = Event.fromIpcHandle(Buffer.from(process.env['IPC_BYTES'] ?? '', 'hex'), { device })
    event.synchronize()
    say(`opened interprocess=${event.interprocess} query=${event.query()}`)
    try {
      event.ipcHandle()
      say('exported')
    } catch (error) {
      say(`refused ${codeOf(error)}`)
    }
  },
} satisfies Record<string, (bench: Workbench) => void | Promise<void>>

/** Driver choice: about the default driver, so without a workbench. The answer is JSON. */
const withoutBench = {
  importOnly: () => answer({ imported: typeof Stream }),
  firstUse: () => answer({ first: attempt(() => Device.count()), second: attempt(() => new Stream()) }),
  /** With each value in turn that the third argument has for a variable: a use that fails chooses nothing. */
  wrongValues: () => {
    const given = JSON.parse(process.argv[4] ?? '') as readonly (readonly [variable: string, value: string])[]
    answer(
      given.map(([variable, value]) => {
        const before = process.env[variable] ?? ''
        process.env[variable] = value
        const tried = { first: attempt(() => Device.count()), second: attempt(() => new Stream()) }
        process.env[variable] = before
        return tried
      }),
    )
  },
  choice: async () => {
    const warnings: { name: string; code: unknown; message: string; detail: unknown }[] = []
    process.on('warning', (warning) => {
      const { name, message, code, detail } = warning as Error & { code?: unknown; detail?: unknown }
      warnings.push({ name, code, message, detail })
    })
    const driver = Device.get(0).driver
    const count = Device.count()
    using stream = new Stream()
    stream.record().synchronize()
    const ordinals = Array.from({ length: count }, (_, ordinal) => Device.get(ordinal).ordinal)
    // Warnings come a tick later.
    await new Promise(setImmediate)
    answer({ driver, count, ordinals, current: Device.current().ordinal, streamOn: stream.device.driver, warnings })
  },
  missingWait: async () => {
    const [producer, consumer] = [new Stream(), new Stream()]
    const data = Device.current().alloc(4)
    producer.fill(data, 7)
    const bytes = await consumer.download(data)
    answer({ seed: simulationOf(Device.current()).seed, bytes: [...bytes] })
  },
  /** Each thread has modules of its own, and so chooses for itself. */
  workers: async () => {
    const { driver } = Device.get(0)
    if (!isMainThread) return
    for (let count = 0; count < 2; count += 1) await again()
    answer({ driver })
  },
  simulateOnly: () => {
    const simulation = simulate({ devices: 2 })
    const stream = simulation.devices[1]?.createStream()
    answer({ ordinal: stream?.device.ordinal, driver: stream?.device.driver, query: stream?.query() })
  },
} satisfies Record<string, () => void | Promise<void>>

export type Scenario = keyof typeof withBench | keyof typeof withoutBench

/** Runs the scenario in a worker, too. */
async function again(): Promise<void> {
  const worker = new Worker(new URL(import.meta.url), { argv: process.argv.slice(2) })
  await new Promise((resolve, reject) => worker.on('exit', resolve).on('error', reject))
}

function answer(what: unknown): void {
  say(JSON.stringify(what))
}

function attempt(act: () => unknown): unknown {
  try {
    return { result: typeof act() }
  } catch (error) {
    const { name, message } = error as Error
    return { name, message, code: codeOf(error) }
  }
}

function benchOf(backend: string): Workbench {
  const [kind, seed] = backend.split(':')
  if (kind === 'sim') return simWorkbench({ seed: Number(seed) })
  const bench = openCudaWorkbench()
  if (typeof bench === 'string') throw new Error(bench)
  return bench
}

const [backend = '', name = ''] = process.argv.slice(2)
const scenarios: Readonly<Record<string, (bench: Workbench) => void | Promise<void>>> = withBench
const choices: Readonly<Record<string, () => void | Promise<void>>> = withoutBench
const choice = backend === 'none' ? choices[name] : undefined
const scenario = backend === 'none' ? undefined : scenarios[name]
if (choice === undefined && scenario === undefined) throw new Error(`no scenario '${name}' for '${backend}'`)
await (scenario === undefined ? choice?.() : scenario(benchOf(backend)))
