import { Device, Stream } from 'cuda-streams'
import { saxpy } from './saxpy.cu'

const n = 10_000
const stream = new Stream({ device: Device.get() })
const x = stream.bufferFrom(Float32Array.from({ length: n }, (_, index) => index))
const y = stream.bufferFrom(new Float32Array(n).fill(1))
stream.launch(saxpy, { threads: n }, n, 2, x, y)
const result = await stream.download(y, Float32Array)
console.log(`2 * ${n - 1} + 1 = ${result[n - 1]}`)
