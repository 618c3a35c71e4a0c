// What the tests want of the newest CUDA toolkit: the headers that the ledgers are held against, and NVRTC, which compiles each
// kernel that is written here. pip puts it into .cache/cuda-toolkit, once; no GPU is needed. Without Python it says so, and the
// tests that want it are skipped.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './test-files.mjs'

const PACKAGES = [
  'nvidia-cuda-runtime==13.5.37',
  'nvidia-cuda-nvrtc==13.5.37',
  'nvidia-cuda-cupti==13.5.25',
  'nvidia-cuda-crt==13.5.37',
  'nvidia-nvjpeg==13.3.2.43',
]
const home = join(root, '.cache', 'cuda-toolkit')

if (!existsSync(home)) {
  // An install that is cut off leaves nothing that would be taken for a whole one.
  const begun = `${home}.begun`
  rmSync(begun, { recursive: true, force: true })
  mkdirSync(begun, { recursive: true })
  const pip = [
    '-m',
    'pip',
    'install',
    '--quiet',
    '--no-deps',
    '--only-binary=:all:',
    '--disable-pip-version-check',
    '--root-user-action=ignore',
  ]
  const { status, error } = spawnSync('python3', [...pip, '--target', begun, ...PACKAGES], { stdio: 'inherit' })
  if (status === 0) renameSync(begun, home)
  else console.log(`The CUDA toolkit's headers and NVRTC are not here: ${error?.message ?? `pip ended with ${status}`}`)
}
if (existsSync(home)) console.log(`The CUDA toolkit's headers and NVRTC: ${home}`)
