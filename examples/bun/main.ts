import { Device, Stream } from 'cuda-streams'
import { dot } from './dot.cu'

const n = 1000
const stream = new Stream({ device: Device.get() })
const a = stream.bufferFrom(Float32Array.from({ length: n }, (_, index) => index % 10))
const b = stream.bufferFrom(new Float32Array(n).fill(2))
const result = stream.bufferFrom(Float32Array.of(0))
stream.launch(dot, { threads: n, block: 256 }, n, a, b, result)
const [sum] = await stream.download(result, Float32Array)
console.log(`a · b = ${sum}`)
