/** A library may forget, while it compiles, that the handlers by which Node ends a process run only once. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { runsModule } from '../../helpers/run-time.js'

/** Puts the handler of SIGTERM back by `signal()`, as NVRTC 13.0 does, and then blocks. */
const program = (repairs: boolean): string => `
  const { bindAll, declaration, own } = await import(${JSON.stringify(new URL('../../../src/foundation/native/c-functions.js', import.meta.url))})
  const { layer } = await import(${JSON.stringify(new URL('../../../src/foundation/native/layer.js', import.meta.url))})
  const { signal } = bindAll([declaration('signal', layer().symbol(0, 'signal'), 'int signum, void *handler', 'address4')])
  own().noteSignals()
  signal(15, signal(15, 0))
  if (${repairs}) own().restoreSignals()
  console.log('up')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
`

async function endOf(repairs: boolean): Promise<unknown> {
  const child = spawn(process.execPath, runsModule(program(repairs)), {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  // A process that raises the signal again and again uses a whole core; one that ends has used next to nothing.
  const patience = setTimeout(() => child.kill('SIGKILL'), 3000)
  const [, signal] = await ended
  clearTimeout(patience)
  return signal
}

describe('signals that end the process', { skip: process.platform !== 'linux' ? 'sigaction of Linux' : false }, () => {
  test('a compiler that puts handlers back by signal() keeps the process alive: this is what is fixed', async () => {
    assert.equal(await endOf(false), 'SIGKILL')
  })

  test('after a compilation SIGTERM ends a process that blocks', async () => {
    assert.equal(await endOf(true), 'SIGTERM')
  })
})
