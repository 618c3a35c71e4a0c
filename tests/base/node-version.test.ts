/** A Node that is too old says so when the library is imported. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkNodeVersion } from '../../src/base/node-version.js'
import { refused } from '../conformance/expect.js'
import { root } from '../helpers/root.js'

test('versions before that of package.json are refused, with the one that is needed', () => {
  const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const needed = String(engines.node).replace('>=', '')
  for (const version of ['v18.20.8', 'v20.0.0', 'v20.18.3', 'v16.0.0']) {
    const says = new RegExp(`needs Node ${needed} or later, and this is ${version}: `)
    refused(() => checkNodeVersion(version), 'ERR_UNSUPPORTED', says)
  }
  for (const version of [`v${needed}.0`, 'v20.20.2', 'v21.0.0', 'v24.0.0', 'v26.1.0-nightly20260401']) {
    checkNodeVersion(version)
  }
})

test('the main entry point checks it first', () => {
  const first = (file: string): string =>
    /^import .*?'(.*)'$/m.exec(readFileSync(join(root, 'src', file), 'utf8'))?.[1] ?? ''
  for (const entry of ['index.ts', 'sim.ts']) assert.equal(first(entry), './shortcuts.js')
  assert.equal(first('shortcuts.ts'), './base/node-version.js')
})
