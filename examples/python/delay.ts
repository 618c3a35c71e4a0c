/** Work that keeps a stream busy for a while: what makes a missing wait show. */
import { type Device, Module, type Stream } from 'cuda-streams'
import { busy } from 'cuda-streams/sim'

/** Queues work that takes about so many milliseconds. */
export type Delay = (stream: Stream, milliseconds: number) => void

/** One thread that looks at the GPU's clock until the time has passed. */
const SPIN = `
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 nanoseconds) {
  .reg .u64 %start, %now, %limit, %passed;
  .reg .pred %more;
  ld.param.u64 %limit, [nanoseconds];
  mov.u64 %start, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %passed, %now, %start;
  setp.lt.u64 %more, %passed, %limit;
  @%more bra again;
  ret;
}
`

export function delayOn(device: Device): Delay {
  if (device.driver === 'sim') return (stream, milliseconds) => busy(stream, milliseconds * 1e6)
  const spin = Module.load(SPIN, { device }).kernel('spin', ['u64'])
  return (stream, milliseconds) => stream.launch(spin, { grid: 1, block: 1 }, Math.round(milliseconds * 1e6))
}
