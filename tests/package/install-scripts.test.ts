/** `npm ci` runs no install script, and warns of none: neither of what a user installs, nor of what the package is built and tested with. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../helpers/root.js'

interface Locked {
  readonly dev?: boolean
  readonly hasInstallScript?: boolean
}

const read = <T>(name: string): T => JSON.parse(readFileSync(join(root, name), 'utf8'))

test('each package with an install script is one to develop with, and its script is not run', () => {
  const { packages } = read<{ readonly packages: Readonly<Record<string, Locked>> }>('package-lock.json')
  const { allowScripts } = read<{ readonly allowScripts: Readonly<Record<string, boolean>> }>('package.json')
  const withScript = Object.entries(packages).filter(([, { hasInstallScript }]) => hasInstallScript)
  for (const [path, { dev }] of withScript) assert.equal(dev, true, path)
  const names = withScript.map(([path]) => path.replace(/^.*node_modules\//, ''))
  assert.deepEqual(allowScripts, Object.fromEntries(names.map((name) => [name, false])))
})
