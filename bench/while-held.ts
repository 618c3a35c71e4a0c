/**
 * Which calls of cuBLAS, cuFFT, cuRAND and NCCL wait for the whole device: each is made in a process of its own while a stream is held,
 * and given up after a while. `node dist/bench/while-held.js`. What waits must not be called while a stream stands at a
 * host function, or both would wait for ever.
 */
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { Device, type DeviceBuffer, Stream } from 'cuda-streams'
import { Cublas, type GemmType } from 'cuda-streams/cublas'
import { Fft } from 'cuda-streams/cufft'
import { RandomGenerator } from 'cuda-streams/curand'
import { Communicator, uniqueId } from 'cuda-streams/nccl'
import type * as Koffi from 'koffi'
import { table } from './table.js'

const LIMIT_MS = 15_000
/** Bytes for what is read, and as many for what is written. */
const HALF = 2 ** 19

interface Case {
  /** Before the stream is held. */
  prepare?(around: Around): unknown
  act(around: Around): unknown
}

interface Around {
  readonly device: Device
  readonly stream: Stream
  readonly buffer: DeviceBuffer
  prepared: unknown
}

const size = { m: 64, n: 64, k: 64 }
const gemm = (type: GemmType, { stream, buffer, prepared }: Around, more: object = {}): unknown =>
  (prepared as Cublas).gemm(stream, buffer, buffer, buffer.subarray(HALF, 2 * HALF), { type, ...size, ...more })
const cublas = ({ stream }: Around): Cublas => new Cublas({ device: stream.device })
const first = (type: GemmType, more: object = {}): Case => ({
  prepare: cublas,
  act: (around) => gemm(type, around, more),
})
const fft = ({ stream }: Around): Fft => new Fft({ type: 'c2c', shape: [1000], device: stream.device })
const random = ({ stream }: Around): RandomGenerator => new RandomGenerator({ device: stream.device })
/** The object, and what it has done once. */
const used =
  <T>(make: (around: Around) => T, use: (made: T, around: Around) => unknown) =>
  async (around: Around): Promise<T> => {
    const made = make(around)
    use(made, around)
    await around.stream.finished()
    return made
  }
const communicator = ({ device }: Around): Promise<Communicator> =>
  Communicator.create({ id: uniqueId(), rank: 0, size: 1, device })

const cases: Readonly<Record<string, Case>> = {
  nothing: { act: () => {} },
  cublasCreate: { act: cublas },
  'first product, f32': first('f32'),
  'first product, f16': first('f16'),
  'first product, f64 transposed': first('f64', { transposeA: true }),
  'the same product again, f32': {
    async prepare(around) {
      const made = cublas(around)
      gemm('f32', { ...around, prepared: made })
      await around.stream.finished()
      return made
    },
    act: (around) => gemm('f32', around),
  },
  'new Fft()': { act: fft },
  'first transform': { prepare: fft, act: ({ prepared, stream, buffer }) => (prepared as Fft).forward(stream, buffer) },
  'the same transform again': {
    prepare: used(fft, (made, { stream, buffer }) => made.forward(stream, buffer)),
    act: ({ prepared, stream, buffer }) => (prepared as Fft).forward(stream, buffer),
  },
  'the other direction of a plan': {
    prepare: used(fft, (made, { stream, buffer }) => made.forward(stream, buffer)),
    act: ({ prepared, stream, buffer }) => (prepared as Fft).inverse(stream, buffer),
  },
  'new Fft() that destroys a plan': { prepare: (around) => fft(around).close(), act: fft },
  'new RandomGenerator()': { act: random },
  'first numbers': {
    prepare: random,
    act: ({ prepared, stream, buffer }) => (prepared as RandomGenerator).bits(stream, buffer),
  },
  'numbers again': {
    prepare: used(random, (made, { stream, buffer }) => made.bits(stream, buffer)),
    act: ({ prepared, stream, buffer }) => (prepared as RandomGenerator).bits(stream, buffer),
  },
  'numbers again, fewer of another kind': {
    prepare: used(random, (made, { stream, buffer }) => made.bits(stream, buffer)),
    act: ({ prepared, stream, buffer }) => (prepared as RandomGenerator).normal(stream, buffer.subarray(0, 4096)),
  },
  'new RandomGenerator() that destroys one': { prepare: (around) => random(around).close(), act: random },
  ncclGetUniqueId: { act: () => uniqueId() },
  'Communicator.create': { act: communicator },
  'allReduce of one rank': {
    prepare: communicator,
    act: ({ prepared, buffer, stream }) =>
      (prepared as Communicator).allReduce(stream, buffer, buffer, { type: 'f32' }),
  },
  'communicator.close()': { prepare: communicator, act: ({ prepared }) => (prepared as Communicator).close() },
  'communicator.abort()': { prepare: communicator, act: ({ prepared }) => (prepared as Communicator).abort() },
}

/** In the child: says 'returned MILLISECONDS' if it returns while the stream is held. */
async function measure(name: string): Promise<void> {
  const { prepare, act } = cases[name] ?? {}
  if (act === undefined) throw new Error(`no case '${name}'`)
  const device = Device.get(0)
  const [stream, held] = [new Stream({ device }), new Stream({ device })]
  const around: Around = { device, stream, buffer: device.alloc(2 * HALF, { stream }), prepared: undefined }
  around.prepared = await prepare?.(around)
  await device.finished()
  const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
  const wait = koffi.load('libcuda.so.1').func('int cuStreamWaitValue32_v2(uintptr_t, uintptr_t, uint32_t, uint32_t)')
  const gate = device.allocPinned(4)
  gate.view(Int32Array)[0] = 0
  held.external({ name: 'gate', memory: [{ buffer: gate, access: 'in' }] }, (handle) => {
    if (wait(handle, gate.pointer, 1, 0) !== 0) throw new Error('cuStreamWaitValue32 failed')
  })
  const begin = performance.now()
  await act(around)
  if (held.query()) throw new Error('the stream was not held')
  process.stdout.write(`returned ${(performance.now() - begin).toFixed(1)}\n`)
  process.kill(process.pid, 'SIGKILL')
}

/** In the parent: what a child says, or that it does not return. */
function outcome(name: string): Promise<string> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [fileURLToPath(import.meta.url), name], { stdio: 'pipe' })
    let [output, complaint] = ['', '']
    const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS)
    child.stdout.on('data', (text) => {
      output += text
    })
    child.stderr.on('data', (text) => {
      complaint += text
    })
    child.on('close', () => {
      clearTimeout(timer)
      const returned = /returned (\S+)/.exec(output)?.[1]
      if (returned !== undefined) resolve(`returns after ${returned} ms`)
      else resolve(complaint === '' ? 'WAITS' : `fails: ${complaint.trim().split('\n').at(-1)}`)
    })
  })
}

const [name] = process.argv.slice(2)
if (Device.get(0).driver !== 'cuda') console.log('A GPU is needed.')
else if (name !== undefined) await measure(name)
else {
  const lines = []
  for (const each of Object.keys(cases)) lines.push([each, await outcome(each)])
  console.log(table(['while a stream is held', 'the call'], lines))
}
