// Triton for the tests of imports of files of Python: pip puts it into .cache/triton, once (285 MB); no GPU and no PyTorch is needed. Without
// Python it says so, and the tests that want it are skipped; what it makes of the kernels of the tests is stored.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './test-files.mjs'

const PACKAGE = 'triton==3.9.0'
const place = join(root, '.cache', 'triton')

if (!existsSync(place)) {
  // An install that is cut off leaves nothing that would be taken for a whole one.
  const begun = `${place}.begun`
  rmSync(begun, { recursive: true, force: true })
  mkdirSync(begun, { recursive: true })
  const pip = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--only-binary=:all:', '--disable-pip-version-check']
  const given = [...pip, '--root-user-action=ignore', '--target', begun, PACKAGE]
  const { status, error } = spawnSync('python3', given, { stdio: 'inherit' })
  if (status === 0) renameSync(begun, place)
  else console.log(`Triton is not here: ${error?.message ?? `pip ended with ${status}`}`)
}
if (existsSync(place)) console.log(`Triton: ${place}`)
