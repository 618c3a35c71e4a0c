/**
 * Node ends a process on SIGINT and SIGTERM by handlers that run once: they raise the signal again, and then it kills.
 * NVRTC 13.0 saves the handlers while it compiles and puts them back by `signal()`, which forgets that they run once: from
 * then on the signal is raised again and again, and nothing but SIGKILL ends the process. So it is told anew.
 */
import { koffi, NativeMemory } from './native.js'

const SIGINT = 2
const SIGTERM = 15
/** sizeof(struct sigaction), and where the flags are in it; the handler comes first. */
const BYTES = 152
const FLAGS_AT = 136
const ONCE = 0x8000_0000

/** Notes which of the two signals have such handlers now. The function returned mends those that are no longer. */
export function oneShotSignals(): () => void {
  if (process.platform !== 'linux') return () => {}
  const sigaction = koffi().load(null).func('sigaction', 'int', ['int', 'uintptr_t', 'uintptr_t'])
  const memory = new NativeMemory(BYTES)
  const handlerOf = (signal: number): { readonly handler: bigint; readonly once: boolean } => {
    sigaction(signal, 0, memory.address)
    return { handler: memory.uint64[0] ?? 0n, once: ((memory.uint32[FLAGS_AT / 4] ?? 0) & ONCE) !== 0 }
  }
  const before = [SIGINT, SIGTERM].map((signal) => ({ signal, ...handlerOf(signal) })).filter(({ once }) => once)
  return () => {
    for (const { signal, handler } of before) {
      const now = handlerOf(signal)
      // Another handler is the program's own.
      if (now.once || now.handler !== handler) continue
      memory.uint32[FLAGS_AT / 4] = (memory.uint32[FLAGS_AT / 4] ?? 0) | ONCE
      sigaction(signal, memory.address, 0)
    }
  }
}
