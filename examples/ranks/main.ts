/**
 * A sum over all ranks. `torchrun --no-python --nproc-per-node 4 node dist/examples/ranks/main.js`, or mpirun or srun
 * instead of torchrun; `node dist/examples/ranks/start.js 4 main.js` where there is no launcher.
 */
import { Device } from 'cuda-streams'
import { ncclVersion } from 'cuda-streams/nccl'
import { simulate } from 'cuda-streams/sim'
import { placeOf } from './environment.js'
import { Rendezvous } from './rendezvous.js'
import { sumByHost, sumByNccl } from './sum.js'

const ELEMENTS = 2 ** 18

const place = placeOf(process.env)
const rendezvous = await Rendezvous.join(place)
const { rank, size } = rendezvous

const gpu = Device.get(place.localRank % Device.count())
// Each process has simulated GPUs of its own.
const own = gpu.driver === 'sim' ? `simulated for rank ${rank}` : gpu.uuid
const byNccl = everyOneItsOwn(await gatherTexts(hasNccl() ? own : ''))
const device = byNccl ? gpu : simulate().devices[0]
if (device === undefined) throw new Error('a simulation has a device')

// Whole numbers, so that every order of adding them gives the same.
const values = Float32Array.from({ length: ELEMENTS }, (_, index) => (rank + 1) * (index % 7))
const sums = await (byNccl ? sumByNccl : sumByHost)(rendezvous, device, values)
const factor = (size * (size + 1)) / 2
const right = sums.length === ELEMENTS && sums.every((sum, index) => sum === factor * (index % 7))

const lines = await gatherTexts(`rank ${rank} of ${size} on ${device}, ${device.name}: ${right ? 'right' : 'wrong'}`)
if (rank === 0) {
  const how = byNccl ? 'NCCL' : 'the rendezvous, on simulated GPUs: not every rank has a GPU of its own and NCCL'
  console.log(`The sum of ${ELEMENTS} numbers of each of ${size} rank(s) by ${how}.`)
  for (const line of lines) console.log(`  ${line}`)
}
rendezvous.close()
if (!right) process.exitCode = 1

async function gatherTexts(text: string): Promise<readonly string[]> {
  const all = await rendezvous.allGather(Buffer.from(text))
  return all.map((bytes) => bytes.toString())
}

/** All have the same answer, so that none goes another way than the rest. */
function everyOneItsOwn(gpus: readonly string[]): boolean {
  return gpus.every((gpu) => gpu !== '') && new Set(gpus).size === size
}

function hasNccl(): boolean {
  try {
    // 0 is the simulator's.
    return ncclVersion() >= 0
  } catch {
    return false
  }
}
