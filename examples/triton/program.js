import { Device, Stream } from 'cuda-streams'
import { softmax } from './softmax.py'

/** The softmax of each row of a matrix, and the largest number of the first. */
export async function run() {
  const [rows, n] = [4, 781]
  const stream = new Stream({ device: Device.get() })
  const x = stream.bufferFrom(Float32Array.from({ length: rows * n }, (_, at) => Math.sin(at)))
  const out = stream.device.alloc(x.byteLength, { stream })
  stream.launch(softmax, { grid: rows }, out, x, n, n)
  const result = await stream.download(out, Float32Array)
  const sum = result.subarray(0, n).reduce((all, one) => all + one, 0)
  return `a row adds up to ${sum.toFixed(4)}, and its largest is ${Math.max(...result.subarray(0, n)).toFixed(6)}`
}
