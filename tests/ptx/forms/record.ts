/**
 * Records what a GPU answers to the cases of this folder: `node dist/tests/ptx/forms/record.js`, on a machine with one. It
 * writes answers.json.br of this folder, or the file that is named, and forms.test.ts holds the engine against it. What the
 * manual leaves open is recorded, too.
 */
import { execFileSync } from 'node:child_process'
import { Device, Module, Stream } from 'cuda-streams'
import { allCases, isNew, operandsFor, ptxOfCases } from './cases.js'
import { COUNT, RECORDING, type RecordedCase, recordedCase, save } from './recording.js'

const BATCH = 64

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
    recorded.push(recordedCase(each, await stream.download(outputs, BigUint64Array)))
  }
  console.log(`${recorded.length} of ${cases.length}`)
}
const query = ['--query-gpu=driver_version', '--format=csv,noheader']
const [driverVersion = ''] = execFileSync('nvidia-smi', query, { encoding: 'utf8' }).split('\n')
save(process.argv[2] ?? RECORDING, { device: device.name, driverVersion: driverVersion.trim(), count: COUNT }, recorded)
