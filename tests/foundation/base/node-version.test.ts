/** A Node that is too old says so when the library is imported. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { checkNodeVersion } from '../../../src/foundation/base/node-version.js'
import { refused } from '../../conformance/expect.js'
import { root } from '../../helpers/root.js'

test('versions before those of package.json are refused, with those that are needed', () => {
  const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  assert.equal(engines.node, '^20.19 || >=22.12')
  // Versions 21 and 22.11 cannot require() ES modules either, which failed at the first use of a driver.
  for (const version of ['v16.0.0', 'v18.20.8', 'v20.0.0', 'v20.18.3', 'v21.7.3', 'v22.0.0', 'v22.11.0']) {
    const says = new RegExp(`needs Node 20.19, or 22.12 or later, and this is ${version}: `)
    refused(() => checkNodeVersion(version), 'ERR_UNSUPPORTED', says)
  }
  for (const version of ['v20.19.0', 'v20.20.2', 'v22.12.0', 'v23.0.0', 'v24.0.0', 'v26.1.0-nightly20260401']) {
    checkNodeVersion(version)
  }
})

/** The files that the first imports of a file lead to, down to the first one that imports none. */
function firstImports(file: string): readonly string[] {
  const [, first] = /^(?:import|export) [^']*'(\..*)'$/m.exec(readFileSync(join(root, 'src', file), 'utf8')) ?? []
  if (first === undefined) return [file]
  return [file, ...firstImports(join(dirname(file), first).replace(/\.js$/, '.ts'))]
}

test('each entry point and the command check it before they do anything else', () => {
  const { exports, bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const entryPoints: readonly { readonly default: string }[] = Object.values(exports)
  const paths = [...entryPoints.map((entryPoint) => entryPoint.default), bin['cuda-streams']]
  for (const path of paths.filter((file) => file?.endsWith('.js'))) {
    const chain = firstImports(path.replace(/^(\.\/)?dist\/src\//, '').replace(/\.js$/, '.ts'))
    assert.ok(chain.includes(join('foundation', 'base', 'node-version.ts')), `${chain}`)
  }
})

test('no file needs a name of Node to be loaded that Node 18 lacks: it would fail before the version is checked', () => {
  const NEWER =
    /import \{[^}]*\b(styleText|registerHooks|getCallSites?|enableCompileCache|parseEnv)\b[^}]*\} from 'node:/
  const folder = join(root, 'dist', 'src')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'))
  assert.deepEqual(
    files.filter((name) => NEWER.test(readFileSync(join(folder, name), 'utf8'))),
    [],
  )
})
