/** Shares memory, says its bytes, and ends. */
import { Device } from 'cuda-streams'

const buffer = Device.get(0).alloc(4096, { interprocess: true })
console.log(Buffer.from(buffer.ipcHandle()).toString('hex'))
