/**
 * Records what a GPU answers to the cases of this folder: `node dist/tests/ptx/forms/record.js answers.json`, on a machine
 * with one. The file is a list of cases with their results; put it beside this file as answers.json, and forms.test.ts
 * holds the engine against it, bit for bit. What the manual leaves open is recorded, too.
 */
import { writeFileSync } from 'node:fs'
import { Device, Module, Stream } from 'cuda-streams'
import { allCases, isNew, operandsFor, ptxOfCases } from './cases.js'

/** Threads of each case: as many as forms.test.ts has. */
export const COUNT = 96
const BATCH = 64

export interface RecordedCase {
  readonly text: string
  /** The constants in the text, which tell cases of one opcode apart. */
  readonly constants: string
  /** Two words of 64 bits for each thread, in base64. */
  readonly results: string
}

export interface Recording {
  readonly device: string
  readonly count: number
  readonly cases: readonly RecordedCase[]
}

async function record(path: string): Promise<void> {
  const device = Device.get()
  using stream = new Stream({ device })
  // What an H200 does not have is left out.
  const cases = allCases().filter((each) => !isNew(each))
  const recorded: RecordedCase[] = []
  for (let begin = 0; begin < cases.length; begin += BATCH) {
    const batch = cases.slice(begin, begin + BATCH)
    using module = Module.load(ptxOfCases(batch), { device })
    for (const [index, each] of batch.entries()) {
      const operands = operandsFor(each, COUNT)
      using inputs = device.alloc(operands.byteLength, { stream })
      using outputs = device.alloc(16 * COUNT, { stream })
      void stream.upload(inputs, operands)
      void stream.upload(outputs, new BigUint64Array(2 * COUNT))
      const kernel = module.kernel(`k${index}`, ['in u64*', 'out u64*', 'u32'])
      stream.launch(kernel, { grid: 1, block: COUNT }, inputs, outputs, COUNT)
      const results = await stream.download(outputs, BigUint64Array)
      const base64 = Buffer.from(results.buffer, results.byteOffset, results.byteLength).toString('base64')
      recorded.push({ text: each.text, constants: Object.values(each.constants).join(), results: base64 })
    }
    console.log(`${recorded.length} of ${cases.length}`)
  }
  const recording: Recording = { device: device.name, count: COUNT, cases: recorded }
  writeFileSync(path, JSON.stringify(recording))
}

const [, program = '', path] = process.argv
if (/record\.js$/.test(program)) {
  if (path === undefined) throw new Error('Name the file to write')
  await record(path)
}
