/**
 * The loop of a language model that decodes: a graph of forty kernels is launched again and again, and two arguments of one of
 * them change each time. Microseconds a step, by each way to do it. `node dist/bench/decode.js [steps]`, and
 * `python3 bench/decode.py [steps]` for the same with cuda.core and PyTorch.
 */
import assert from 'node:assert/strict'
import { Device, defineKernel, type Graph, Stream } from 'cuda-streams'

const STEPS = Number(process.argv[2] ?? 10_000)
const LAYERS = 40
const LENGTH = 32
const CONFIG = { grid: 1, block: LENGTH }

const layer = defineKernel({
  name: 'layer',
  source: `extern "C" __global__ void layer(unsigned* to, const unsigned* from, float a, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] + (unsigned)a;
  }`,
  signature: ['out u32*', 'in u32*', 'f32', 'u32'],
  simulateGrid(_grid, to, from, a, n) {
    for (let i = 0; i < n; i += 1) to[i] = (from[i] ?? 0) + a
  },
})

const device = Device.get()
using stream = new Stream({ device })
using to = device.alloc(4 * LENGTH, { stream })
using from = device.alloc(4 * LENGTH, { stream })
stream.fill(to, 0).fill(from, 0)
await layer.prepare(device)

/** The layer in the middle has these two arguments. */
function queue(a: number, n: number): void {
  for (let each = 0; each < LAYERS; each += 1) {
    const isChanged = each === LAYERS / 2
    stream.launch(layer, CONFIG, to, from, isChanged ? a : 0, isChanged ? n : LENGTH)
  }
}

const capture = (a: number, n: number): Graph => stream.capture(() => queue(a, n))
const lengthOf = (step: number): number => 1 + (step % LENGTH)

using graph = capture(0, LENGTH)
using exec = graph.instantiate()
/** Its nodes are switched, so that it takes no graph. */
using switched = graph.instantiate()
const node = graph.nodesOf(layer)[LAYERS / 2]
assert.ok(node)

const WAYS: Readonly<Record<string, (step: number) => void>> = {
  'launch, nothing changed': () => void exec.launch(stream),
  'exec.update(node, ...)': (step) => void exec.update(node, CONFIG, to, from, step, lengthOf(step)).launch(stream),
  'exec.update(node, ...), no launch': (step) => void exec.update(node, CONFIG, to, from, step, lengthOf(step)),
  'exec.setEnabled(node, ...)': (step) => void switched.setEnabled(node, step % 2 === 0).launch(stream),
  'capture, exec.update(graph)': (step) => {
    using other = capture(step, lengthOf(step))
    exec.update(other).launch(stream)
  },
  'capture, instantiate': (step) => {
    using other = capture(step, lengthOf(step))
    using instance = other.instantiate()
    stream.launch(instance)
  },
  'forty launches': (step) => queue(step, lengthOf(step)),
}

console.log(`cuda-streams on ${device.name}, ${STEPS} steps, a graph of ${graph.nodeCount} nodes`)
for (const [way, play] of Object.entries(WAYS)) {
  const steps = way === 'capture, instantiate' ? Math.ceil(STEPS / 10) : STEPS
  for (const isWarm of [false, true]) {
    const count = isWarm ? steps : Math.ceil(steps / 10)
    stream.synchronize()
    const begun = performance.now()
    for (let step = 0; step < count; step += 1) play(step)
    const queued = performance.now()
    stream.synchronize()
    const done = performance.now()
    if (!isWarm) continue
    const [q, d] = [queued - begun, done - begun].map((ms) => ((ms * 1000) / count).toFixed(2).padStart(8))
    console.log(`${way.padEnd(36)} ${q} us a step queued, ${d} done`)
  }
}
