/** A binary heap: the least item first, by the order given. */
export class Heap<T> {
  readonly #items: T[] = []

  constructor(private readonly before: (a: T, b: T) => boolean) {}

  peek(): T | undefined {
    return this.#items[0]
  }

  push(item: T): void {
    const items = this.#items
    let at = items.length
    items.push(item)
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = items[parent] as T
      if (!this.before(item, above)) break
      items[at] = above
      at = parent
    }
    items[at] = item
  }

  /** Removes and returns the least item. */
  shift(): T | undefined {
    const items = this.#items
    const first = items[0]
    const last = items.pop()
    if (items.length === 0 || last === undefined) return first
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= items.length) break
      if (child + 1 < items.length && this.before(items[child + 1] as T, items[child] as T)) child += 1
      if (!this.before(items[child] as T, last)) break
      items[at] = items[child] as T
      at = child
    }
    items[at] = last
    return first
  }

  /** All items, in an arbitrary order. */
  [Symbol.iterator](): IterableIterator<T> {
    return this.#items.values()
  }
}
