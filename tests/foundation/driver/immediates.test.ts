/**
 * Node fails at each later immediate once one has thrown and the next in line is cleared, as a program's listener of uncaught
 * exceptions did by any call to this library. So the library clears none.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../../helpers/root.js'
import { runsModule } from '../../helpers/run-time.js'

const URL_OF_LIBRARY = import.meta.resolve('cuda-streams')

/** What the listener asks of the library while the immediates behind the one that threw still stand. */
const ASKS: Readonly<Record<string, string>> = {
  'finished()': 'void stream.finished().then(() => console.log("done"))',
  'launchHostFunc()': 'stream.launchHostFunc(() => console.log("done"))',
  'synchronize() and finished()': 'stream.synchronize(); void stream.finished().then(() => console.log("done"))',
  'new Stream()': 'for (let n = 0; n < 2000; n += 1) new Stream(); console.log("done")',
  'download()': 'void stream.download(buffer).then(() => console.log("done"))',
}

for (const [name, ask] of Object.entries(ASKS)) {
  test(`after an exception in an immediate, ${name} works, and so do later immediates`, () => {
    const code = `
      import { Stream } from '${URL_OF_LIBRARY}'
      const stream = new Stream()
      const buffer = stream.device.alloc(16, { stream })
      await stream.finished()
      let thrown = 0
      process.on('uncaughtException', (error) => {
        thrown += 1
        if (thrown > 1) { console.log(error.message); process.exit(1) }
        ${ask}
        setImmediate(() => console.log('later'))
      })
      setImmediate(() => { throw new Error('mine') })
      new Stream()
      stream.fill(buffer, 1)
    `
    const env = { ...process.env, CUDA_STREAMS_DRIVER: process.env['CUDA_STREAMS_DRIVER'] ?? 'sim' }
    const { status, stdout, stderr } = spawnSync(process.execPath, runsModule(code), {
      encoding: 'utf8',
      env,
      timeout: 60_000,
    })
    assert.equal(status, 0, `${stdout}${stderr}`)
    assert.deepEqual(stdout.trim().split('\n').sort(), ['done', 'later'])
  })
}

const sources = join(root, 'src')

test('no file of the library clears an immediate', {
  skip: existsSync(sources) ? false : 'the sources are not here',
}, () => {
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
  assert.ok(files.length > 100)
  const clears = files.filter((name) => /clearImmediate\(/.test(readFileSync(join(sources, name), 'utf8')))
  assert.deepEqual(clears, [])
})
