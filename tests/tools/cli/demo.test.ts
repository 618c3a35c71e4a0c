/** Law: `npx cuda-streams demo` shows a race that the sanitizer finds, and the same program without it, on a machine with neither a GPU nor a project. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../../helpers/root.js'

const command = join(root, 'dist', 'src', 'tools', 'cli', 'main.js')

test('the demo finds the wait that its program lacks, and nothing once it is there', () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, 'demo'], { encoding: 'utf8', cwd: tmpdir() })
  assert.equal(status, 0, stderr)
  assert.equal(stdout.match(/Race: nothing orders two accesses/g)?.length, 1)
  assert.match(stdout, /then, copy reads on stream \d+\n +at .*race\.js:\d+:\d+/)
  assert.match(stdout, /Add `consumer\.wait\(producer\)` before this copy\./)
  const [before = '', after = ''] = stdout.split('With the wait:')
  assert.doesNotMatch(before, /The consumer read 7,/)
  assert.match(after, /The consumer read 7, and the producer wrote 7\./)
})

test('the demo takes no file', () => {
  const { status, stderr } = spawnSync(process.execPath, [command, 'demo', '--json'], { encoding: 'utf8' })
  assert.equal(status, 2)
  assert.match(stderr, /demo has no option --json/)
})
