// Programs by hand, for what random ones do not do: errors, deadlocks, contexts, and real time that passes; how far the GPU is then is chance,
// unless it is explored.
export const PROGRAMS = {
  'time: a sleep instead of a wait': `
import { Device, Stream } from 'cuda-streams'
import { setTimeout as sleep } from 'node:timers/promises'
const stream = new Stream()
const data = Device.get().allocPinned(4)
stream.fill(data, 7)
await sleep(5)
export const result = data.bytes
`,
  'time: a timer that looks': `
import { Stream } from 'cuda-streams'
const stream = new Stream()
let ran = false
stream.launchHostFunc(() => { ran = true })
export const result = await new Promise((resolve) => setTimeout(() => resolve(ran), 3))
`,
  'time: an interval that polls': `
import { Device, Stream } from 'cuda-streams'
const stream = new Stream()
stream.fill(Device.get().alloc(64), 1)
let looks = 0
await new Promise<void>((resolve) => {
  const timer = setInterval(() => {
    looks += 1
    if (looks > 2 || stream.query()) { clearInterval(timer); resolve() }
  }, 1)
})
export const done = stream.query()
`,
  'a deadlock': `
import { Stream } from 'cuda-streams'
const [a, b] = [new Stream(), new Stream()]
a.launchHostFunc(() => b.synchronize())
b.wait(a)
b.launchHostFunc(() => {})
await b.finished()
`,
  'an error of a host function': `
import { Stream } from 'cuda-streams'
const stream = new Stream()
stream.launchHostFunc(() => { throw new TypeError('inside') })
await stream.finished()
console.log('it went on')
`,
  'a fault': `
import { Device, Stream } from 'cuda-streams'
import { fault } from 'cuda-streams/sim'
const stream = new Stream()
fault(stream, 700)
try {
  await stream.finished()
} catch (error) {
  console.log(String(error))
}
Device.get().alloc(4)
`,
  'an order of a thousand steps': `
import { Device, Stream } from 'cuda-streams'
const [a, b] = [new Stream(), new Stream()]
const data = Device.get().alloc(4, { stream: a })
for (let at = 0; at < 1000; at += 1) a.fill(data, at % 256)
b.wait(a)
for (let at = 0; at < 50; at += 1) a.fill(data, at)
export const result = await b.download(data)
for (let at = 0; at < 2000; at += 1) console.log(at)
`,
  'current streams': `
import { Device, Stream } from 'cuda-streams'
const device = Device.get()
const [a, b] = [new Stream(), new Stream()]
export const inside = await a.run(async () => {
  await a.finished()
  const nested = b.run(() => Stream.current().equals(b))
  return [nested, Stream.current().equals(a)]
})
export const outside = Stream.current().equals(device.defaultStream)
const scope = b.enter()
export const entered = Stream.current().equals(b)
scope[Symbol.dispose]()
export const left = Stream.current().equals(b)
let seen = ''
a.run(() => b.launchHostFunc(() => { seen = Stream.current().equals(a) ? 'the context of the call' : 'another' }))
await b.finished()
export { seen }
`,
  'structs and half precision, packed and unpacked': `import { elements, Stream, struct } from 'cuda-streams'
const Particle = struct({ position: 'f32x3', id: 'u32', weights: ['f16', 2] })
const stream = new Stream()
const buffer = stream.bufferFrom(Particle.pack([{ position: [1, 2, 3], id: 7, weights: [0.1, -2] }]))
export const particles = Particle.unpack(await stream.download(buffer))
export const rounded = elements('bf16').unpack(elements('bf16').pack([0.1, 3]))
export const size = [Particle.byteLength, Particle.alignment]
`,
  'a kernel with a host implementation, two orders of atomics': `
import { Device, defineKernel, Stream } from 'cuda-streams'
const add = defineKernel({
  name: 'add',
  source: 'extern "C" __global__ void add(unsigned* to, unsigned by) { to[threadIdx.x] += by; }',
  signature: ['inout u32*', 'u32'],
  simulate({ threadIdx: { x } }, to, by) { to[x] = (to[x] ?? 0) * 2 + by },
})
const device = Device.get()
const [a, b] = [new Stream(), new Stream()]
const data = device.alloc(16, { stream: a })
a.fill(data, 0)
b.wait(a)
a.launch(add, { grid: 1, block: 4 }, data, 1)
b.launch(add, { grid: 1, block: 4 }, data, 2)
a.wait(b)
export const result = new Uint32Array((await a.download(data)).buffer)
`,
  'a timeline and a sanitizer of its own': `
import { Device, Stream } from 'cuda-streams'
import { sanitize } from 'cuda-streams/sanitizer'
import { Timeline } from 'cuda-streams/timeline'
const device = Device.get()
const [a, b] = [new Stream(), new Stream()]
const data = device.alloc(4)
const timeline = await Timeline.record(async () => {
  a.wait(Stream.null).fill(data, 1)
  b.wait(a).fill(data, 2)
  await b.finished()
})
export const text = timeline.toText()
export const svg = timeline.toSvg().length
export const json = JSON.parse(timeline.toJson()).traceEvents.length
try {
  await sanitize(async () => { a.fill(data, 3); await b.finished(); b.fill(data, 4) })
} catch (error) {
  export_(error)
}
function export_(error: unknown) { console.log(error instanceof Error ? error.message.split('\\n')[0]?.replace(/ \\(.*/, '') : error) }
`,
  'what it shows of itself': `
import { Device, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
console.log(Device.get().name, Device.get().driver, Device.count(), Device.get().priorityRange)
console.log(new Stream({ priority: -1 }).priority, [new Map([['a', 1]]), new Set([1n]), null, undefined, -0], new Error('x').message)
console.log(await Timeline.record(() => {}), simulate().devices.length)
console.log('%s is %d', 'six', 6, { deep: { deeper: { deepest: { no: 1 } } } })
try { new Stream({ priority: 'high' as never }) } catch (error) { console.log(String(error)) }
`,
}

/** The run time has a part in when something is done there, and in the stacks: what comes of them is the same. */
export const OUTCOMES = {
  'web streams': `
import { Device, Stream } from 'cuda-streams'
const stream = new Stream()
const buffer = Device.get().alloc(10)
await new Blob([new Uint8Array(10).fill(3)]).stream().pipeTo(stream.uploader(buffer))
stream.fill(buffer.subarray(4, 6), 7)
export const chunks: number[][] = []
for await (const chunk of stream.downloader(buffer, { chunkBytes: 4 })) chunks.push([...chunk])
`,
  'functions that follow each other, each with a stream of its own': `
import { Device, Stream } from 'cuda-streams'
const device = Device.get()
const streams = [new Stream(), new Stream()]
export const current: boolean[] = []
for (const stream of streams) {
  await stream.run(async () => {
    for (let turn = 0; turn < 3; turn += 1) {
      await stream.finished()
      current.push(Stream.current() === stream)
    }
  })
}
current.push(Stream.current() === device.defaultStream)
`,
}
