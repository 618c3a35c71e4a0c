/** The simulator's entry point alone gives devices and streams all their methods. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { it } from 'node:test'
import { runsModule } from '../helpers/run-time.js'

it('a program that imports only the entry point of the simulator can allocate, copy, launch and capture', () => {
  const program = `
    import { simulate } from 'cuda-streams/sim'
    const [device] = simulate().devices
    const stream = device.createStream()
    const found = [device.alloc, device.allocPinned, stream.copy, stream.upload, stream.launch, stream.capture, stream.external]
    console.log(found.map((method) => typeof method).join())`
  const printed = execFileSync(process.execPath, runsModule(program), {
    encoding: 'utf8',
    cwd: new URL('.', import.meta.url),
    env: { ...process.env, CUDA_STREAMS_DRIVER: 'sim', NODE_OPTIONS: '' },
  })
  assert.equal(printed, `${Array(7).fill('function').join()}\n`)
})
