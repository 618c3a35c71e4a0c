/** Another thread, whose device memory the cells use by its tokens. */
import { parentPort, workerData } from 'node:worker_threads'
import { Device } from 'cuda-streams'

const OPERANDS = 3

const stream = Device.get(0).createStream()
const buffers = Array.from({ length: OPERANDS }, () => stream.device.alloc(workerData as number, { stream }))
await stream.finished()
parentPort?.postMessage(buffers.map((buffer) => buffer.share()))
// Listening keeps the thread, and with it the memory.
parentPort?.on('message', () => {})
