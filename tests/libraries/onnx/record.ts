/**
 * Records what ONNX Runtime in Python computes for the example models, as `expected.ts`. By hand, after a change of a model:
 * `npm run build && node dist/tests/libraries/onnx/record.js PYTHON`, with a Python that has onnxruntime and numpy.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from '../../helpers/root.js'
import { EXAMPLES } from './models.js'
import { writeModel } from './onnx-model.js'

const PROGRAM = `
import json, sys, numpy, onnxruntime
found = {}
for name, shape in json.loads(sys.argv[2]).items():
    session = onnxruntime.InferenceSession(f'{sys.argv[1]}/{name}.onnx', providers=['CPUExecutionProvider'])
    given = numpy.fromfile(f'{sys.argv[1]}/{name}.bin', numpy.float32).reshape(shape)
    output, = session.run(None, {session.get_inputs()[0].name: given})
    found[name] = [float(value) for value in output.flatten()]
print(json.dumps({'version': onnxruntime.__version__, 'outputs': found}))
`

const folder = mkdtempSync(join(tmpdir(), 'onnx-'))
for (const { model, input } of EXAMPLES) {
  writeFileSync(join(folder, `${model.name}.onnx`), writeModel(model))
  writeFileSync(join(folder, `${model.name}.bin`), new Uint8Array(input.buffer))
}
const shapes = JSON.stringify(Object.fromEntries(EXAMPLES.map(({ model, shape }) => [model.name, shape])))
const printed = execFileSync(process.argv[2] ?? 'python3', ['-c', PROGRAM, folder, shapes], { encoding: 'utf8' })
const { version, outputs } = JSON.parse(printed) as { version: string; outputs: Record<string, readonly number[]> }
const rows = Object.entries(outputs).map(
  ([name, values]) => `  ${name}: [${values.map((value) => Number(value.toPrecision(9))).join(', ')}],`,
)
const text = `/** What ONNX Runtime ${version} in Python computes for the models of models.ts on a CPU, by record.ts. */
export const EXPECTED: Readonly<Record<string, readonly number[]>> = {
${rows.join('\n')}
}
`
writeFileSync(join(root, 'tests', 'libraries', 'onnx', 'expected.ts'), text)
