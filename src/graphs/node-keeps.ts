/**
 * What the nodes of an instance use that were changed one at a time. It changes with each step of a program, so what no node
 * uses any more is not let go of at once: it may be used again by the next step.
 */
import type { NativeResource } from '../base/finalization.js'
import type { NodeHandle } from '../driver/driver.js'
import type { OpenMemory } from '../memory/buffer-core.js'

/** So many pieces of memory that no node uses stay kept, where the program has them open. */
const MOST_UNUSED = 16

export class NodeKeeps {
  readonly #byNode = new Map<NodeHandle, readonly NativeResource[]>()
  /** How often each is used. */
  readonly #uses = new Map<NativeResource, number>()
  readonly #unused = new Set<NativeResource>()

  get isEmpty(): boolean {
    return this.#uses.size === 0 && this.#unused.size === 0
  }

  /** The node uses this from now on. Returns what is to be let go of when the launches under way are over. */
  put(node: NodeHandle, memory: readonly OpenMemory[]): readonly NativeResource[] {
    const before = this.#byNode.get(node)
    if (before === undefined ? memory.length === 0 : isSame(before, memory)) return NOTHING
    for (const { allocation } of memory) this.#use(allocation)
    for (const allocation of before ?? NOTHING) this.#unuse(allocation)
    // A slice knows its whole, which could not be collected.
    this.#byNode.set(
      node,
      memory.map(({ allocation }) => allocation),
    )
    return this.#unused.size === 0 ? NOTHING : this.#takeUnused()
  }

  /** Forgets all. What was kept is to be let go of. */
  takeAll(): readonly NativeResource[] {
    const all = [...this.#uses.keys(), ...this.#unused]
    this.#byNode.clear()
    this.#uses.clear()
    this.#unused.clear()
    return all
  }

  #use(resource: NativeResource): void {
    const uses = this.#uses.get(resource)
    if (uses === undefined && !this.#unused.delete(resource)) resource.keep()
    this.#uses.set(resource, (uses ?? 0) + 1)
  }

  #unuse(resource: NativeResource): void {
    const uses = this.#uses.get(resource) ?? 0
    if (uses > 1) this.#uses.set(resource, uses - 1)
    else {
      this.#uses.delete(resource)
      this.#unused.add(resource)
    }
  }

  /** Those that live for this instance alone, and where there are too many, all. */
  #takeUnused(): readonly NativeResource[] {
    const taken: NativeResource[] = []
    const isFull = this.#unused.size > MOST_UNUSED
    for (const resource of this.#unused) if (isFull || resource.isLeft) taken.push(resource)
    for (const resource of taken) this.#unused.delete(resource)
    return taken
  }
}

const NOTHING: readonly NativeResource[] = []

function isSame(some: readonly NativeResource[], others: readonly OpenMemory[]): boolean {
  if (some.length !== others.length) return false
  for (let index = 0; index < some.length; index += 1) {
    if (some[index] !== others[index]?.allocation) return false
  }
  return true
}
