/** A worker with simulated memory and an event that other processes can open, which ends without closing them. */
import { parentPort, workerData } from 'node:worker_threads'
import { Event } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'

const [device] = simulate().devices
const buffer = device?.alloc(4096, { interprocess: true })
const event = new Event({ device, interprocess: true })
const handles = [buffer?.ipcHandle(), event.ipcHandle()]
parentPort?.postMessage(handles.length)
if (workerData === 'terminate()') setInterval(() => {}, 1000)
else process.exit()
