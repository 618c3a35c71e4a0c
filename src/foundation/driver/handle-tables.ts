/**
 * Tables by handles and addresses, which the driver reuses. V8's own tables keep an entry for each deleted key until
 * they grow, and compare all such entries when the key is set again: among ten thousand streams that cost 25 µs for
 * each new stream. Here a key keeps its place when it is deleted.
 */

/** Keys without a value are swept out when they are more than this, and more than those with one. */
const FEW = 64

export class HandleMap<K extends number, V extends object | number | boolean> {
  #values = new Map<K, V | undefined>()
  /** Keys that were deleted. */
  #unused = 0

  get size(): number {
    return this.#values.size - this.#unused
  }

  get(key: K): V | undefined {
    return this.#values.get(key)
  }

  has(key: K): boolean {
    return this.#values.get(key) !== undefined
  }

  set(key: K, value: V): void {
    if (this.#unused > 0 && this.#values.has(key) && this.#values.get(key) === undefined) this.#unused -= 1
    this.#values.set(key, value)
  }

  delete(key: K): boolean {
    if (this.#values.get(key) === undefined) return false
    this.#values.set(key, undefined)
    this.#unused += 1
    if (this.#unused > FEW && this.#unused > this.size) this.#sweep()
    return true
  }

  #sweep(): void {
    this.#values = new Map(this)
    this.#unused = 0
  }

  *[Symbol.iterator](): IterableIterator<[K, V]> {
    for (const [key, value] of this.#values) if (value !== undefined) yield [key, value]
  }
}

export class HandleSet<K extends number> {
  readonly #keys = new HandleMap<K, true>()

  add(key: K): void {
    this.#keys.set(key, true)
  }

  has(key: K): boolean {
    return this.#keys.has(key)
  }

  delete(key: K): void {
    this.#keys.delete(key)
  }
}
