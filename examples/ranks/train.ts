/**
 * Data-parallel training: each rank has samples of its own, sums the gradient of its own in a CUDA C++ kernel (train.cu), NCCL
 * averages the gradients of all ranks, and each takes the same step. `node dist/examples/ranks/start.js 4 train.js` where there is no
 * launcher; the same program under torchrun, mpirun or srun. Each rank needs a GPU of its own; without any the GPUs are simulated.
 */
import { Device, defineKernel, Stream } from 'cuda-streams'
import { Communicator, uniqueId } from 'cuda-streams/nccl'
import { placeOf } from './environment.js'
import { Rendezvous } from './rendezvous.js'
import { KERNELS } from './train-ptx.js'

const [SAMPLES, FEATURES, STEPS, RATE] = [2048, 8, 60, 0.5]
const TRUTH = Float32Array.from({ length: FEATURES }, (_, feature) => feature - 3)

const gradient = defineKernel({
  name: 'gradient',
  ptx: KERNELS,
  signature: ['in f32*', 'in f32*', 'in f32*', 'inout f32*', 'i32', 'i32'],
})
const descend = defineKernel({
  name: 'descend',
  ptx: KERNELS,
  signature: ['inout f32*', 'inout f32*', 'f32', 'i32'],
})

const rendezvous = await Rendezvous.join(placeOf(process.env), { timeout: 15_000 })
const { rank, size } = rendezvous
const device = Device.get(placeOf(process.env).localRank % Device.count())
const id = await rendezvous.broadcast(rank === 0 ? uniqueId() : undefined)
await using communicator = await Communicator.create({ id, rank, size, device, timeout: 20_000 })
using stream = new Stream({ device })

// The samples of each rank are others.
const [inputs, targets] = samplesOf(rank)
using x = stream.bufferFrom(inputs)
using y = stream.bufferFrom(targets)
using weights = stream.bufferFrom(new Float32Array(FEATURES))
// The sums of the gradient, and behind them that of the squared errors.
using sums = stream.bufferFrom(new Float32Array(FEATURES + 1))

const losses: number[] = []
for (let step = 0; step < STEPS; step += 1) {
  stream.launch(gradient, { threads: SAMPLES }, x, y, weights, sums, SAMPLES, FEATURES)
  communicator.allReduce(stream, sums, sums, { type: 'f32', op: 'avg' })
  if (step % 20 === 0) losses.push(((await stream.download(sums, Float32Array))[FEATURES] ?? 0) / SAMPLES)
  stream.launch(descend, { threads: FEATURES + 1 }, weights, sums, RATE / SAMPLES, FEATURES)
}
const learned = await stream.download(weights, Float32Array)
await communicator.finished({ signal: AbortSignal.timeout(30_000) })

// All ranks took the same steps, so they have the same weights, bit for bit.
const all = await rendezvous.allGather(new Uint8Array(learned.buffer))
const areSame = all.every((bytes) => Buffer.compare(bytes, Buffer.from(learned.buffer)) === 0)
const isRight = learned.every((weight, feature) => Math.abs(weight - (TRUTH[feature] ?? 0)) < 0.01)
if (rank === 0) {
  console.log(`${size} rank(s), ${device.name}: ${STEPS} steps over ${size * SAMPLES} samples`)
  console.log(`  mean squared error after 0, 20, 40 steps: ${losses.map((loss) => loss.toPrecision(3)).join(', ')}`)
  console.log(`  weights ${Array.from(learned, (weight) => weight.toFixed(3)).join(' ')}`)
  console.log(`  ${areSame ? 'the same on every rank' : 'not the same on every rank'}, ${isRight ? 'right' : 'wrong'}`)
}
rendezvous.close()
if (!areSame || !isRight) process.exitCode = 1

/** Numbers between -1 and 1, and what the true weights make of them. */
function samplesOf(seed: number): readonly [inputs: Float32Array, targets: Float32Array] {
  let state = 1 + seed
  const next = (): number => {
    state = (state * 48_271) % 2_147_483_647
    return (2 * state) / 2_147_483_647 - 1
  }
  const inputs = Float32Array.from({ length: SAMPLES * FEATURES }, next)
  const targets = Float32Array.from({ length: SAMPLES }, (_, sample) =>
    TRUTH.reduce((sum, weight, feature) => sum + weight * (inputs[sample * FEATURES + feature] ?? 0), 0),
  )
  return [inputs, targets]
}
