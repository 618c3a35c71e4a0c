import { Stream } from 'cuda-streams'
import { axpy } from './axpy.cu'

const copies = new Stream()
const compute = new Stream()
// Allocate and upload, each on its stream.
const x = copies.bufferFrom(Float32Array.of(1, 2, 3, 4))
const y = compute.bufferFrom(Float32Array.of(5, 6, 7, 8))

compute.wait(copies) // x comes from the other stream
compute.launch(axpy, { threads: 4 }, 10, x, y, 4) // y = 10 x + y

export const result = await compute.download(y, Float32Array)
console.log(result)
