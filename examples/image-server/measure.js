// Batches of one file, one batch after another: what a file takes.
import { readFile } from 'node:fs/promises'

export const MODEL = new URL('colours.onnx', import.meta.url).pathname
const BATCH = 8
const [path = 'photo.jpg', count = '200'] = process.argv.slice(2)

/** `classify` takes an array of files. The first batch is not counted. */
export async function measure(name, classify) {
  const file = await readFile(path)
  const batch = Array.from({ length: BATCH }, () => file)
  await classify(batch)
  const begun = performance.now()
  const cpu = process.cpuUsage()
  let scores
  for (let done = 0; done < Number(count); done += BATCH) scores = await classify(batch)
  const files = Math.ceil(Number(count) / BATCH) * BATCH
  const each = (performance.now() - begun) / files
  const { user, system } = process.cpuUsage(cpu)
  const busy = (user + system) / 1000 / files
  const shown = scores[0].map((score) => score.toFixed(3))
  console.log(`${name}: ${each.toFixed(2)} ms a file, of the processor ${busy.toFixed(2)} ms, scores ${shown}`)
}
