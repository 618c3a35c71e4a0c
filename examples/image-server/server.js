// Answers a POST of a JPEG file with what the model says of it.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { Classifier, LABELS } from './classifier.js'

const classifier = await Classifier.load(new URL('colours.onnx', import.meta.url).pathname)

const server = createServer(async (request, response) => {
  try {
    const [scores] = await classifier.classify([await buffer(request)])
    const best = scores.indexOf(Math.max(...scores))
    const rounded = scores.map((score) => Number(score.toFixed(3)))
    response.end(`${JSON.stringify({ label: LABELS[best], scores: rounded })}\n`)
  } catch (error) {
    // What is no JPEG file, or has none of the codings that nvJPEG reads.
    response.statusCode = error.code === 'ERR_INVALID_ARG_VALUE' || error.code === 'ERR_UNSUPPORTED' ? 400 : 500
    response.end(`${error.message}\n`)
  }
})
await once(server.listen(process.env.PORT ?? 3000), 'listening')
console.log(`http://localhost:${server.address().port}`)
