/** Memory of a device that the program has forgotten: it is found before the device is full, and before an allocation fails. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { fakeCuda } from '../../fake-driver/fake-cuda.js'
import { howItEnded } from '../../helpers/test-output.js'

const CHILD = fileURLToPath(new URL('./children/forget.js', import.meta.url))

const fake = fakeCuda()
const onFake = {
  skip: typeof fake === 'string' ? fake : process.versions['bun'] !== undefined && 'its collector is not told of it',
}

function play(program: string, env: NodeJS.ProcessEnv): string {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [CHILD, program], {
    env,
    encoding: 'utf8',
  })
  const output = stdout + stderr
  assert.equal(signal ?? status, 0, howItEnded({ code: signal ?? status, output }))
  assert.match(output, /^done$/m)
  return output
}

const playOnFake = (program: string): string =>
  play(program, typeof fake === 'string' ? {} : { ...fake.env, FAKE_HOST_MIB: '64' })

describe('forgotten memory', onFake, () => {
  test('M18 a loop that forgets buffers of 64 MiB holds less than a quarter of a device of 64 GiB', () => {
    const output = playOnFake('at each turn')
    const most = Number(/at most (\d+) GiB/.exec(output)?.[1])
    assert.ok(most < 16, output)
  })

  for (const program of [
    'within one turn',
    'in an earlier turn',
    'interprocess, in an earlier turn',
    'pinned, in an earlier turn',
  ])
    test(`M18 an allocation for which there is no memory gets that of buffers forgotten ${program}`, () => {
      playOnFake(program)
    })

  for (const program of [
    'what is reachable stays',
    'what a graph uses stays',
    'what a call uses stays',
    'pinned memory whose views are used stays',
  ])
    test(`M18 ${program} where an allocation has no memory`, () => {
      playOnFake(program)
    })
})
