// Compiles src, tests, examples and bench into dist/. A stale file in dist/ would be run by the tests, so dist/ starts empty.
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildNative } from './build-native.mjs'
import { buildPage } from './build-page.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
rmSync(join(root, 'dist'), { recursive: true, force: true })
const { status } = spawnSync(process.execPath, [compiler, '-p', root], { stdio: 'inherit' })
if (status === 0) buildNative(root)
process.exit(status !== 0 ? (status ?? 1) : buildPage(root, compiler))
