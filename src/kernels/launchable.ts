/** What `stream.launch()` takes: anything that knows how to queue itself, as graphs and kernels do. */
import { invalidType } from '../base/errors.js'
import { openStream, type Stream } from '../stream.js'

export const launchOn: unique symbol = Symbol('launchOn')

export interface Launchable {
  /** The array of arguments is the callee's to keep. */
  [launchOn](stream: Stream, config: unknown, args: unknown[]): void
}

/** `stream.launch` for every kind of target; graph.ts and kernel.ts declare the kinds, each with its arguments. */
export function launch(this: Stream, target: unknown, config: unknown, ...args: unknown[]): Stream {
  openStream(this)
  if (!isLaunchable(target)) throw invalidType('target', 'a GraphExec or a Kernel', target)
  target[launchOn](this, config, args)
  return this
}

function isLaunchable(target: unknown): target is Launchable {
  try {
    return typeof (target as Partial<Launchable> | null | undefined)?.[launchOn] === 'function'
  } catch {
    // Such as a revoked proxy.
    return false
  }
}
