/** The variables that put a wrapper in front of the default driver, where the package's files are not beside each other: in a bundle. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { root } from '../helpers/root.js'

const PROGRAM = `
import { Stream } from './src/entry-points/index.js'
const [a, b] = [new Stream(), new Stream()]
const buffer = a.device.alloc(16, { stream: a })
a.fill(buffer, 1)
b.fill(buffer, 2)
`

describe('a bundle', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bundle-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  cpSync(join(root, 'dist', 'src'), join(folder, 'src'), { recursive: true })
  rmSync(join(folder, 'src', 'tools', 'sanitizer', 'sanitizer-variable.js'))
  rmSync(join(folder, 'src', 'tools', 'timeline', 'timeline-variable.js'))
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({
      type: 'module',
      imports: { '#backends': './src/core/backends.js', '#load-ptx': './src/simulator/load-ptx.js' },
    }),
  )
  writeFileSync(join(folder, 'program.js'), PROGRAM)

  for (const [variable, value] of [
    ['CUDA_STREAMS_SANITIZER', '1'],
    ['CUDA_STREAMS_TIMELINE', 'run.html'],
  ] as const) {
    it(`without the code that ${variable} needs says what to import`, () => {
      const env = { ...process.env, NODE_OPTIONS: '', CUDA_STREAMS_DRIVER: 'sim', [variable]: value }
      const { status, stderr } = spawnSync(process.execPath, ['program.js'], { cwd: folder, encoding: 'utf8', env })
      assert.equal(status, 1)
      const entryPoint = variable === 'CUDA_STREAMS_SANITIZER' ? 'cuda-streams/sanitizer' : 'cuda-streams/timeline'
      assert.match(stderr, new RegExp(`${variable} is set, but this bundle .* import '${entryPoint}' in the program`))
      assert.match(stderr, /code: 'ERR_UNSUPPORTED'/)
    })
  }
})

describe('Jest', () => {
  it('has the code that each variable needs in its setup file, as Jest loads no ES modules by require()', () => {
    const read = (file: string): string => readFileSync(join(root, 'src', file), 'utf8')
    const needed = Array.from(
      read('core/environment-interceptors.ts').matchAll(/, '\.\.\/(\S+)\.js'\]/g),
      ([, file = '']) => file,
    )
    assert.ok(needed.includes('tools/recording/trace-variable'))
    const setup = read('entry-points/jest.cts')
    assert.deepEqual(
      needed.filter((file) => !setup.includes(`'${file}'`)),
      [],
    )
  })
})
