/** Blocks in every way: while the program starts, which is allowed, and in a turn of the event loop. Says what came of it. */
import { setImmediate as turn } from 'node:timers/promises'
import { Device } from 'cuda-streams'

const device = Device.current()
const stream = device.createStream()
const pinned = device.allocPinned(16)
const event = stream.fill(pinned, 1).record()

const calls: Readonly<Record<string, () => void>> = {
  'stream.synchronize()': () => stream.fill(pinned, 2).synchronize(),
  'event.synchronize()': () => event.synchronize(),
  'device.synchronize()': () => device.synchronize(),
  'device.drainHostFunctions()': () => device.drainHostFunctions(),
  'queuing more work': () => {
    const full = device.createStream()
    for (let queued = 0; queued < 1500; queued += 1) full.launchHostFunc(() => {})
  },
}

for (const call of Object.values(calls)) call()
await turn()
for (const [name, call] of Object.entries(calls)) {
  let came = 'passed'
  // The same place is told of once.
  for (let times = 0; times < 2; times += 1) {
    try {
      call()
    } catch (error) {
      came = String((error as { readonly code?: unknown }).code)
    }
  }
  console.log(`${name}: ${came}`)
}
await device.finished()
console.log('end')
