/**
 * Blocks in a call of a Python library while host functions of ours were queued on two streams:
 *
 *     node blocking-call.js drain|plunge <Python statements>
 *
 * `drain` calls drainHostFunctions() first; `plunge` does not, and is expected to hang. In a process of its own, because
 * a hang cannot be ended from within.
 */
import { writeSync } from 'node:fs'
import { Device, Stream } from 'cuda-streams'
import { Python } from 'cuda-streams/python'
import { delayOn } from '../../../examples/python/delay.js'

const [how, code = ''] = process.argv.slice(2)
const say = (text: string): void => void writeSync(1, `${text}\n`)

const device = Device.get(0)
const python = Python.start()
// Once for nothing: what is loaded at first use is not to be waited for later.
python.run(code)

const delay = delayOn(device)
const ran: string[] = []
for (const name of ['one', 'two']) {
  const stream = new Stream({ device })
  for (const nth of ['first', 'second']) {
    delay(stream, 20)
    stream.launchHostFunc(() => ran.push(`${nth} of ${name}`))
  }
  delay(stream, 20)
}
if (how === 'drain') device.drainHostFunctions()
say(`ran ${ran.length}`)
say('blocking')
python.run(code)
say(`done ${ran.sort().join(', ')}`)
