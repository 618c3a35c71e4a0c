/**
 * Uses everything of every door while Object.prototype has a member for each name that the library's sources mention.
 * Prints which of these the library reads there.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as main from 'cuda-streams'
import { Cublas } from 'cuda-streams/cublas'
import { Communicator, group } from 'cuda-streams/nccl'
import { traceOperations } from 'cuda-streams/opentelemetry'
import { declareAccess, declareWait, Sanitizer, sanitize } from 'cuda-streams/sanitizer'
import { busy, explore, fault, foreignStream, latch, replay, type Simulation, simulate } from 'cuda-streams/sim'
import { nameStream, publish, Timeline } from 'cuda-streams/timeline'

const sources = fileURLToPath(new URL('../../src/', import.meta.url))
/** With these on Object.prototype every property descriptor is another one, Node's own too. */
const DESCRIPTORS = ['get', 'set', 'value', 'writable', 'enumerable', 'configurable']
/** Names that JavaScript itself looks up: in every awaited value and in every iterator. */
const OF_THE_LANGUAGE = ['then', 'return', 'next', 'done', 'toJSON']

function namesInSources(): ReadonlySet<string> {
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'))
  const names = files.flatMap((name) => readFileSync(join(sources, name), 'utf8').match(/[A-Za-z_]\w*/g) ?? [])
  return new Set(names.filter((name) => !(name in Object.prototype)))
}

const reads = new Set<string>()

function pollute(name: string): void {
  Object.defineProperty(Object.prototype, name, {
    configurable: true,
    get() {
      const { stack = '' } = new Error('who reads it?')
      const reader = stack.split('\n')[2] ?? ''
      if (reader.includes('/dist/src/')) reads.add(`${name}, ${reader.trim()}`)
      return undefined
    },
    set(value: unknown) {
      Object.defineProperty(this, name, { value, configurable: true, enumerable: true, writable: true })
    },
  })
}

async function racing({ devices: [device] }: Simulation): Promise<number | undefined> {
  if (device === undefined) return undefined
  const [one, other] = [device.createStream(), device.createStream()]
  const buffer = device.alloc(4, { stream: one })
  one.fill(buffer, 1)
  other.fill(buffer, 2)
  return (await one.download(buffer))[0]
}

async function ignoring(act: () => unknown): Promise<void> {
  try {
    await act()
  } catch {
    // It fails without the pollution, too.
  }
}

async function useEverything(simulation: Simulation, device: main.Device, second: main.Device): Promise<void> {
  const { Stream, Event, DeviceBuffer, ExternalStream, Module, Program } = main
  const stream = new Stream({ device })
  const other = device.createStream({})
  for (const context of device.split({ multiprocessors: [8] })) new Stream({ context }).close()
  const event = stream.record()
  const given = new Event({})
  stream.record(given, {})
  stream.record({ timing: true })
  other.wait(event, {}).wait(stream, {}).wait(stream, { event: given })
  event.record(stream, {}).wait(other, {})
  stream.launchHostFunc(() => {}).addCallback(() => {}, 1)
  other.wait(device).wait(Promise.resolve(), {}).wait(Promise.resolve(), { signal: new AbortController().signal })
  await stream.finished({})
  await other.finished()
  await device.finished({})
  const held = latch(stream)
  const { signal } = new AbortController()
  const waits = [event.finished({ signal }), stream.finished({ signal })]
  held.open()
  await Promise.all(waits)

  const [a, b, shared, pinned] = [
    device.alloc(64, {}),
    device.alloc(64, { stream }),
    device.alloc(64, { interprocess: true }),
    device.allocPinned(64),
  ]
  const pool = new main.MemoryPool({ device })
  pool.releaseThreshold = device.memoryPool.releaseThreshold
  device.alloc(64, { stream, pool }).close()
  pool.trim().resetPeaks().close()
  void [pool.closed, device.memory.free, device.memoryPool.used, device.memoryPool.peakReserved]
  stream.copy(a, pinned).fill(a, 1, {}).fill(b, 2, { width: 2 }).fill(shared, 3)
  pinned.bytes.fill(0)
  stream.writeValue(pinned, 1, {}).waitValue(pinned, 1n, { compare: 'geq' })
  await stream.upload(a, new Uint8Array(64))
  await stream.download(b)
  await stream.download(b, Uint8Array)
  await stream.download(b, new ArrayBuffer(b.byteLength))
  pinned.view(Float32Array)[0] = 1
  for await (const chunk of stream.downloader(a, {})) void chunk
  await new Blob([new Uint8Array(8)]).stream().pipeTo(stream.uploader(a))

  const kernel = main.defineKernel({ name: 'k', source: '', signature: ['inout u8*', 'i32'], simulateGrid() {} })
  const threads = main.defineKernel({ name: 't', source: '', signature: ['in f32*'], simulate: function* () {} })
  await kernel.prepare(device)
  stream.launch(kernel, { grid: [1, 1], block: 1 }, a, 1).launch(threads, { grid: 1, block: [2] }, a)
  stream.external({ name: 'theirs', memory: [{ buffer: a }], simulate() {} }, () => {})
  const graph = stream.capture(() => {
    stream.fill(a, 1).copy(pinned, a).launch(kernel, { grid: 1, block: 1 }, a, 1)
    other.wait(stream).fill(b, 1)
    stream.wait(other).launchHostFunc(() => {})
    stream.record(given, { external: true })
  }, {})
  graph.toDot()
  const exec = graph.instantiate().upload(stream).launch(stream).update(graph)
  stream.launch(exec)
  await stream.finished()

  const wrapped = Stream.from(foreignStream(device, {}), {})
  new ExternalStream({ __cuda_stream__: () => [0, stream.handle] }, {}).wait(wrapped)
  Event.fromHandle(event.handle, {})
  Stream.from(stream.share())
  Event.from(event.share())
  DeviceBuffer.from(a.slice(0, 8).share())
  DeviceBuffer.from(a.pointer, 64, {})
  for (const act of [
    () => Event.fromIpcHandle(new Uint8Array(64), {}),
    () => DeviceBuffer.fromIpcHandle(new Uint8Array(80), {}),
    () => Module.load('x', {}),
    () => Program.compile('x', {}),
  ]) {
    await ignoring(act)
  }
  stream.enter()[Symbol.dispose]()
  busy(stream, 10)
  simulation.inject({ call: 'cuEventCreate', result: 2 })[Symbol.dispose]()

  const [c, far, farther] = [device.alloc(128), second.alloc(64), second.alloc(128)]
  const cublas = new Cublas(stream, {})
  cublas.gemm(a, b, c, { type: 'f32', m: 2, n: 2, k: 2 })
  cublas.gemmStridedBatched(a, b, c, { type: 'f32', m: 2, n: 2, k: 2, batchCount: 2 })
  const communicators = await Communicator.createAll([device, second], {})
  const [mine, theirs] = communicators
  const type = 'f32'
  group(() => void [mine?.allReduce(a, b, { type }), theirs?.allReduce(far, far, { type })])
  group(() => void [mine?.broadcast(a, b, { type }), theirs?.broadcast(undefined, far, { type })])
  group(() => void [mine?.reduce(a, b, { type }), theirs?.reduce(far, undefined, { type })])
  group(() => void [mine?.allGather(a, c, { type }), theirs?.allGather(far, farther, { type })])
  group(() => void [mine?.reduceScatter(c, a, { type }), theirs?.reduceScatter(farther, far, { type })])
  group(() => void [mine?.send(a, { type, peer: 1 }), theirs?.recv(far, { type, peer: 0 })])
  await Promise.all(communicators.map((each) => each.finished({})))
  await Promise.all(communicators.map((each) => each.close({})))

  const sanitizer = Sanitizer.start({ device })
  stream.fill(a, 1)
  other.fill(a, 2)
  declareAccess(stream, { reads: [a] })
  declareWait(other, stream)
  if (sanitizer.reports.length === 0) throw new Error('the sanitizer has found nothing')
  sanitizer.stop()
  await ignoring(() => sanitize(() => void [stream.fill(b, 1), other.fill(b, 2)], { device }))

  const publishers = [publish({ device }), traceOperations({ device })]
  nameStream(stream, 'named')
  const timeline = await Timeline.record(
    async () => {
      stream.fill(a, 1).launch(kernel, { grid: 1, block: 1 }, a, 1).launch(exec).record(given)
      other.wait(given).copy(pinned, a)
      await other.finished()
      stream.synchronize()
    },
    { device },
  )
  timeline.toHtml({})
  timeline.toSvg({})
  timeline.toJson()
  if (timeline.gaps.length + timeline.calls.length === 0) throw new Error('the timeline has recorded nothing')
  for (const one of publishers) one.close()

  const { disagreement } = await explore(racing, { maxRuns: 30 })
  if (disagreement === undefined) throw new Error('explore() has found nothing')
  await replay(racing, disagreement.second.schedule, {})
  for (const one of [a, b, c, shared, pinned, event, given, exec, graph, wrapped]) one.close()
  await device.finished()
  fault(other)
  await ignoring(() => other.finished())
}

const names = [...namesInSources()].filter((name) => ![...DESCRIPTORS, ...OF_THE_LANGUAGE].includes(name))
for (const name of names) pollute(name)
const simulation = simulate({ devices: 2 })
const [device, second] = simulation.devices
if (device !== undefined && second !== undefined) {
  await device.run(() => useEverything(simulation, device, second))
}
for (const name of names) Reflect.deleteProperty(Object.prototype, name)
console.log(JSON.stringify({ names: names.length, reads: [...reads] }))
