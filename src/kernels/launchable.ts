/** The targets of `stream.launch()`: objects that queue themselves, as graphs and kernels do. */
import { invalidType, printed } from '../base/errors.js'
import type { StreamCore } from '../streams/stream-core.js'

export const launchOn: unique symbol = Symbol('launchOn')

interface Launchable {
  /** The array of arguments is the callee's to keep. */
  [launchOn](stream: StreamCore, config: unknown, args: unknown[]): void
}

/** What people launch in place of what they mean, by its tag. */
const WAYS: ReadonlyMap<string, string> = new Map([
  ['[object Graph]', 'graph.instantiate() makes a GraphExec of it'],
  ['[object Module]', 'module.kernel(name, signature) is a kernel of it'],
])

/** `stream.launch()` for every kind of target. */
export function launch(stream: StreamCore, target: unknown, config: unknown, args: unknown[]): void {
  if (!isLaunchable(target)) throw invalidType('target', 'a GraphExec or a Kernel', target, WAYS.get(printed(target)))
  target[launchOn](stream, config, args)
}

function isLaunchable(target: unknown): target is Launchable {
  try {
    return typeof (target as Partial<Launchable> | null | undefined)?.[launchOn] === 'function'
  } catch {
    // Such as a revoked proxy.
    return false
  }
}
