/** A kernel whose PTX is newer than the driver: what the error says, and where its stack begins. */
import { Device, defineKernel, Stream } from 'cuda-streams'

const axpy = defineKernel({ name: 'axpy', ptx: '// Made by hand\n.version 10.1\n.target sm_75', signature: [] })
const stream = new Stream({ device: Device.get() })
try {
  stream.launch(axpy, { grid: 1 })
} catch (error) {
  if (!(error instanceof Error)) throw error
  console.log(error.message)
  console.log(error.stack?.split('\n').find((line) => /^\s+at /.test(line)))
}
