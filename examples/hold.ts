/** Work that holds a stream until it is told to let go: with it a missing wait shows for certain, and not by chance. */
import { type Device, Module, type PinnedBuffer, type Stream } from 'cuda-streams'
import { latch } from 'cuda-streams/sim'

export interface Held {
  /** Lets the stream go on. */
  release(): void
}

/** Holds what is queued on the stream from now on. */
export type Hold = (stream: Stream) => Held

/** A GPU lets go by itself after this time, so that a library which waits for the stream does not wait forever. */
const LONGEST_NS = 10_000_000_000n
const WORD = 4
/** More than are held at one time. */
const WORDS = 1024

/** One thread that looks at a word of pinned memory until something stands there, or the time has passed. */
const PTX = `
.version 7.0
.target sm_70
.address_size 64
.visible .entry hold(.param .u64 word, .param .u64 nanoseconds) {
  .reg .u64 %word, %start, %now, %limit, %passed;
  .reg .u32 %value;
  .reg .pred %released, %more;
  ld.param.u64 %word, [word];
  ld.param.u64 %limit, [nanoseconds];
  mov.u64 %start, %globaltimer;
again:
  ld.volatile.global.u32 %value, [%word];
  setp.ne.u32 %released, %value, 0;
  @%released bra done;
  mov.u64 %now, %globaltimer;
  sub.u64 %passed, %now, %start;
  setp.lt.u64 %more, %passed, %limit;
  @%more bra again;
done:
  ret;
}
`

/** Loads what holds streams of this device: that waits for the device, so do it before anything is held. */
export function holdOn(device: Device): Hold {
  if (device.driver === 'sim') {
    return (stream) => {
      const held = latch(stream)
      return { release: () => held.open() }
    }
  }
  const kernel = Module.load(PTX, { device }).kernel('hold', ['u64', 'u64'])
  const memory: PinnedBuffer = device.allocPinned(WORDS * WORD)
  const words = memory.view(Int32Array)
  let next = 0
  return (stream) => {
    const at = next
    next = (next + 1) % WORDS
    words[at] = 0
    stream.launch(kernel, { grid: 1, block: 1 }, memory.pointer + BigInt(at * WORD), LONGEST_NS)
    return { release: () => void Atomics.store(words, at, 1) }
  }
}
