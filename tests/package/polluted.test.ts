/** Members that other code has put on Object.prototype do not reach this library. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('./polluted-child.js', import.meta.url))

/**
 * A launch compares its configuration with the latest one as it stands: any other way to read it would cost a good part of
 * a launch. Where they differ it is read again, properly.
 */
const COMPARED = /^(sharedMemory|cooperative|cluster), at isOf /

describe('a polluted Object.prototype', () => {
  it('is not read by anything that the library does', { timeout: 120_000 }, () => {
    const env = { ...process.env, NODE_OPTIONS: '', CUDA_STREAMS_DRIVER: 'sim' }
    const { status, stdout, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8', env })
    assert.equal(status, 0, stderr)
    const { names, reads } = JSON.parse(stdout) as { readonly names: number; readonly reads: readonly string[] }
    assert.ok(names > 1000, `only ${names} names are on Object.prototype, so that nothing is read proves nothing`)
    assert.deepEqual(
      reads.filter((read) => !COMPARED.test(read)),
      [],
    )
  })
})
