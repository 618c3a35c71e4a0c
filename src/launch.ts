/** What `stream.launch()` takes: anything that knows how to queue itself, as graphs and kernels do. */
import { invalidType } from './errors.js'
import { openStream, type Stream } from './stream.js'

export const launchOn: unique symbol = Symbol('launchOn')

export interface Launchable {
  /** The array of arguments is the callee's to keep. */
  [launchOn](stream: Stream, config: unknown, args: unknown[]): void
}

/** `stream.launch` for every kind of target; graph.ts and kernel.ts declare the kinds, each with its arguments. */
export function launch(this: Stream, target: unknown, config: unknown, ...args: unknown[]): Stream {
  openStream(this)
  const launchable = target as Partial<Launchable> | null | undefined
  if (typeof launchable?.[launchOn] !== 'function') throw invalidType('target', 'a GraphExec or a Kernel', target)
  launchable[launchOn](this, config, args)
  return this
}
