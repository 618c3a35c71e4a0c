/**
 * Memory and events shared by two processes: `torchrun --no-python --nproc-per-node 2 node dist/examples/ranks/ipc.js`,
 * or `mpirun -n 2 node dist/examples/ranks/ipc.js`. Both may use the same GPU.
 */
import { Device } from 'cuda-streams'
import { placeOf } from './environment.js'
import { relay } from './relay.js'
import { Rendezvous } from './rendezvous.js'

const ROUNDS = 100

const place = placeOf(process.env)
if (place.size !== 2) throw new Error(`this is for two ranks, not ${place.size}: start it with mpirun -n 2`)
const rendezvous = await Rendezvous.join(place)
const say = (line: string): void => {
  if (place.rank === 0) console.log(line)
}

const device = Device.get(0)
const drivers = await rendezvous.allGather(Buffer.from(device.driver))
if (drivers.every((driver) => driver.toString() === device.driver)) {
  say(`Two processes on ${device.name}, ${ROUNDS} rounds: one writes, the other copies, the first checks.`)
  const waited = await relay(rendezvous, device, { rounds: ROUNDS, wait: true })
  say(`  the reader waits for the writer's event   ${waited} of ${ROUNDS} right`)
  const unwaited = await relay(rendezvous, device, { rounds: ROUNDS, wait: false })
  say(`  the wait left out                         ${unwaited} of ${ROUNDS} right`)
  if (waited !== ROUNDS || unwaited !== 0) {
    say('Not as expected: every round should be right with the wait, and none without it.')
    process.exitCode = 1
  }
} else {
  say('One process has a GPU, and the other a simulated one: start both with the same CUDA_STREAMS_DRIVER.')
  process.exitCode = 1
}
rendezvous.close()
