/** The commonest missing waits, each with its fixed version: what a first program gets wrong. */
import { Stream } from 'cuda-streams'
import {
  add,
  BYTES,
  bug,
  type OrderingBug,
  read,
  scale,
  set,
  WORDS,
  wordsOf,
} from '../../examples/ordering-bugs/scene.js'

const ONES = Uint32Array.of(1, 1, 1, 1)
const named = (name: string) => ({ name, story: name, missing: 'a wait' })

export const commonest: readonly OrderingBug[] = [
  bug(named('filled on one stream, downloaded on another'), ({ stream, zeros }, fixed) => {
    const [a, b, data] = [stream(), stream(), zeros()]
    set(a, data, 7)
    if (fixed) b.wait(a)
    return read(b, data)
  }),
  bug(named('uploaded on one stream, used by a kernel on another'), ({ stream, zeros }, fixed) => {
    const [a, b, data, result] = [stream(), stream(), zeros(), zeros()]
    a.upload(data, ONES)
    if (fixed) b.wait(a)
    scale(b, result, data, 3)
    return read(b, result)
  }),
  bug(named('computed on one stream, downloaded on another'), ({ stream, zeros }, fixed) => {
    const [a, b, data, result] = [stream(), stream(), zeros(), zeros()]
    set(a, data, 5)
    scale(a, result, data, 3)
    if (fixed) b.wait(a)
    return read(b, result)
  }),
  bug(named('copied on one stream, copied on by another'), ({ stream, zeros }, fixed) => {
    const [a, b, first, second, third] = [stream(), stream(), zeros(), zeros(), zeros()]
    set(a, first, 4)
    a.copy(second, first)
    if (fixed) b.wait(a)
    b.copy(third, second)
    return read(b, third)
  }),
  bug(named('overwritten while it is downloaded'), async ({ device, stream, zeros }, fixed) => {
    const [a, b, data] = [stream(), stream(), zeros()]
    const pinned = device.allocPinned(BYTES)
    set(a, data, 1)
    b.wait(a)
    a.copy(pinned, data)
    if (fixed) b.wait(a)
    set(b, data, 2)
    await a.finished()
    return wordsOf(pinned.bytes)
  }),
  bug(named('a loop over two buffers, whose producer is not waited for'), async ({ stream, zeros }, fixed) => {
    const [a, b, sum] = [stream(), stream(), zeros()]
    const buffers = [zeros(), zeros()] as const
    for (let frame = 0; frame < 6; frame += 1) {
      const buffer = buffers[frame % 2 === 0 ? 0 : 1]
      a.wait(b)
      a.upload(buffer, new Uint32Array(WORDS).fill(10 ** frame))
      if (fixed) b.wait(a)
      add(b, sum, buffer)
    }
    return read(b, sum)
  }),
  bug(named('two blocking streams, which are taken to wait for each other'), ({ stream, zeros }, fixed) => {
    const [a, b, data] = [stream({ nonBlocking: false }), stream({ nonBlocking: false }), zeros()]
    set(a, data, 6)
    if (fixed) b.wait(a)
    return read(b, data)
  }),
  bug(named('filled on the null stream, used on a non-blocking one'), ({ device, stream, zeros }, fixed) => {
    const [a, data, result] = [stream(), zeros(), zeros()]
    set(device.defaultStream, data, 8)
    if (fixed) a.wait(device.defaultStream)
    scale(a, result, data, 2)
    return read(a, result)
  }),
  bug(named('computed by a graph, downloaded on another stream'), ({ stream, zeros }, fixed) => {
    const [a, b, data, result] = [stream(), stream(), zeros(), zeros()]
    const exec = a.capture(() => scale(a, result, data, 3)).instantiate()
    set(a, data, 3)
    exec.launch(a)
    if (fixed) b.wait(a)
    return read(b, result)
  }),
  bug(named('the event is recorded before the work'), ({ stream, zeros }, fixed) => {
    const [a, b, data] = [stream(), stream(), zeros()]
    const early = a.record()
    set(a, data, 9)
    b.wait(fixed ? a.record() : early)
    return read(b, data)
  }),
  bug(
    named('pinned memory written by a host function, copied by another stream'),
    ({ device, stream, zeros }, fixed) => {
      const [a, b, data] = [stream(), stream(), zeros()]
      const pinned = device.allocPinned(BYTES)
      pinned.bytes.fill(0)
      a.launchHostFunc(() => pinned.bytes.fill(1))
      if (fixed) b.wait(a)
      b.copy(data, pinned)
      return read(b, data)
    },
  ),
  bug(named('pinned memory read without a wait'), async ({ device, stream, zeros }, fixed) => {
    const [a, data] = [stream(), zeros()]
    const pinned = device.allocPinned(BYTES)
    pinned.bytes.fill(0)
    set(a, data, 2)
    a.copy(pinned, data)
    if (fixed) await a.finished()
    return wordsOf(pinned.bytes)
  }),
  bug(named('the stream of the work is closed, and taken to be done'), ({ device, zeros }, fixed) => {
    const [a, b, data] = [new Stream({ device }), new Stream({ device }), zeros()]
    set(a, data, 7)
    if (fixed) b.wait(a)
    a.close()
    return read(b, data)
  }),
  bug(named('work of a library, used on another stream'), ({ stream, zeros }, fixed) => {
    const [a, b, data] = [stream(), stream(), zeros()]
    const simulate = ([bytes]: readonly Uint8Array[]): void => void bytes?.fill(3)
    a.external({ name: 'theirs', memory: [{ buffer: data, access: 'out' }], simulate }, () => {})
    if (fixed) b.wait(a)
    return read(b, data)
  }),
  bug(named('only the first of two streams is waited for'), async ({ device, stream, zeros }, fixed) => {
    const [a, b, data] = [stream(), stream(), zeros()]
    const pinned = device.allocPinned(BYTES)
    pinned.bytes.fill(0)
    set(a, data, 5)
    b.wait(a)
    b.copy(pinned, data)
    await a.finished()
    if (fixed) await b.finished()
    return wordsOf(pinned.bytes)
  }),
]
