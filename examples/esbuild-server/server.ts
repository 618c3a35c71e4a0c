import { createServer } from 'node:http'
import { Device, Stream } from 'cuda-streams'
import { moments } from './statistics.cu'

const device = Device.get()
await moments.prepare(device)

async function statistics(values: Float64Array): Promise<{ mean: number; deviation: number }> {
  using stream = new Stream({ device })
  using numbers = stream.bufferFrom(values)
  using result = stream.bufferFrom(new Float64Array(2))
  stream.launch(moments, { threads: values.length }, values.length, numbers, result)
  const [sum = 0, squares = 0] = await stream.download(result, Float64Array)
  const mean = sum / values.length
  return { mean, deviation: Math.sqrt(squares / values.length - mean ** 2) }
}

const server = createServer(async (request, response) => {
  const { searchParams } = new URL(request.url ?? '/', 'http://localhost')
  const values = Float64Array.from(searchParams.get('of')?.split(',') ?? [], Number)
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(values.length === 0 ? { usage: '/?of=1,2,3' } : await statistics(values)))
})
server.listen(Number(process.env['PORT'] ?? 3000), () => {
  const address = server.address()
  if (typeof address === 'object') console.log(`http://localhost:${address?.port}/?of=1,2,3,4`)
})
