// Makes the wheel of the Python package (python/) from dist/, by pip and hatchling: `node scripts/wheel.mjs [FOLDER]`, by default into
// dist/wheel. Its tag says what the native parts in dist/native run on: for a release those of build-native.mjs --all.
import { spawnSync } from 'node:child_process'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const out = resolve(process.argv[2] ?? join(root, 'dist', 'wheel'))
const python = process.env.PYTHON || 'python3'
const args = [
  '-m',
  'pip',
  'wheel',
  '--disable-pip-version-check',
  '--no-deps',
  '--wheel-dir',
  out,
  join(root, 'python'),
]
const { status, error } = spawnSync(python, args, { stdio: 'inherit' })
if (error) throw error
process.exitCode = status ?? 1
