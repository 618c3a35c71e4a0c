/** What JavaScript does through views of pinned memory while a copy is pending, and the same with a wait: `host-views.js racy|right`. */
import { closeSync, openSync, readSync } from 'node:fs'
import { Device, type PinnedBuffer, Stream } from 'cuda-streams'

const BYTES = 256 * 2 ** 20
const isRight = process.argv[2] === 'right'
const device = Device.get()
const stream = new Stream()
const x = device.alloc(BYTES)

const PROGRAMS: Readonly<Record<string, (host: Uint8Array, pinned: PinnedBuffer) => unknown>> = {
  written(host, pinned) {
    stream.copy(x, pinned)
    if (isRight) stream.synchronize()
    host[BYTES - 1] = 1
  },
  readEarly(host, pinned) {
    stream.copy(pinned, x)
    if (isRight) stream.synchronize()
    return host.at(-1)
  },
  fromFile(host, pinned) {
    const file = openSync('/dev/zero', 'r')
    stream.copy(x, pinned)
    if (isRight) stream.synchronize()
    readSync(file, host, BYTES - 100, 100, 0)
    closeSync(file)
  },
}

for (const [name, program] of Object.entries(PROGRAMS)) {
  const pinned = device.allocPinned(BYTES)
  const host = pinned.bytes
  host.fill(7)
  program(host, pinned)
  stream.synchronize()
  pinned.close()
  console.log(name)
}
