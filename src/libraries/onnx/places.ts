/** The places at which ONNX Runtime is installed: the files that its packages for Node and Python bring. */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { inside, pythonPackages } from '../../foundation/native/pythons.js'

const [LIBRARY, CUDA_PROVIDER] =
  process.platform === 'win32'
    ? [/^onnxruntime\.dll$/, 'onnxruntime_providers_cuda.dll']
    : [/^libonnxruntime\.so(\.|$)/, 'libonnxruntime_providers_cuda.so']

/** Files with ONNX Runtime, those with its CUDA provider first. */
export function onnxRuntimeFiles(): readonly string[] {
  const found = [...foldersOfNode(), ...foldersOfPython()].flatMap((folder) => inside(folder, LIBRARY))
  const hasCuda = (file: string): boolean => existsSync(join(dirname(file), CUDA_PROVIDER))
  return [...found.filter(hasCuda), ...found.filter((file) => !hasCuda(file))]
}

/** The folders of onnxruntime-node, as the program would import it. */
function foldersOfNode(): readonly string[] {
  const system = join(process.platform, process.arch)
  return [process.argv[1] ?? '', join(process.cwd(), 'program.js')].flatMap((program) => {
    try {
      const main = createRequire(program).resolve('onnxruntime-node')
      return inside(join(dirname(dirname(main)), 'bin'), /^napi-v/).map((folder) => join(folder, system))
    } catch {
      // It is not installed there.
      return []
    }
  })
}

/** The folders of the wheels onnxruntime and onnxruntime-gpu. */
const foldersOfPython = (): readonly string[] =>
  pythonPackages().map((packages) => join(packages, 'onnxruntime', 'capi'))
