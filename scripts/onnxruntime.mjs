// ONNX Runtime for the tests of cuda-streams/onnx: pip puts it into .cache/onnxruntime, once; no GPU is needed. Without Python it says so,
// and the tests that want it are skipped.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './test-files.mjs'

const PACKAGE = 'onnxruntime==1.32.0'
const home = join(root, '.cache', 'onnxruntime')

if (!existsSync(home)) {
  // An install that is cut off leaves nothing that would be taken for a whole one.
  const begun = `${home}.begun`
  rmSync(begun, { recursive: true, force: true })
  mkdirSync(begun, { recursive: true })
  const pip = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--only-binary=:all:', '--disable-pip-version-check']
  const given = [...pip, '--root-user-action=ignore', '--target', begun, PACKAGE]
  const { status, error } = spawnSync('python3', given, { stdio: 'inherit' })
  if (status === 0) renameSync(begun, home)
  else console.log(`ONNX Runtime is not here: ${error?.message ?? `pip ended with ${status}`}`)
}
if (existsSync(home)) console.log(`ONNX Runtime: ${home}`)
