/** Holds a stream until it is opened, at the latest at the end of its scope: `using latch = bench.latch(stream)`. */
export interface Latch extends Disposable {
  open(): void
}

export function latchOf(open: () => void): Latch {
  return { open, [Symbol.dispose]: open }
}
