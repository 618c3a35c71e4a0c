/** A first-in, first-out queue whose operations take constant time, however long it is. */
export class Queue<T> {
  #items: T[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  peek(): T | undefined {
    return this.#items[this.#head]
  }

  push(item: T): void {
    this.#items.push(item)
  }

  shift(): T | undefined {
    if (this.#head === this.#items.length) return undefined
    const item = this.#items[this.#head]
    this.#head += 1
    if (this.#head === this.#items.length) {
      this.#items = []
      this.#head = 0
    } else if (this.#head >= 1024 && this.#head * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    } else this.#items[this.#head - 1] = undefined as T
    return item
  }

  /** Removes and returns the first item for which the predicate is true, wherever it is. */
  take(isWanted: (item: T) => boolean): T | undefined {
    for (let at = this.#head; at < this.#items.length; at += 1) {
      if (!isWanted(this.#items[at] as T)) continue
      return at === this.#head ? this.shift() : this.#items.splice(at, 1)[0]
    }
    return undefined
  }

  *[Symbol.iterator](): Generator<T> {
    for (let at = this.#head; at < this.#items.length; at += 1) yield this.#items[at] as T
  }
}
