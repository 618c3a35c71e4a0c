/**
 * Values that belong to the async context: what one request makes current, another never sees. All of them live in one
 * storage, as a map that is copied when it changes.
 */
import { newContextStorage } from '#platform'

/** A value that was made current. */
interface Entry<T> {
  readonly value: T
  /**
   * Set when the block is over for which it was made current. The entry then has no effect, wherever it is still seen.
   */
  ended: boolean
  /** The entry that counts instead. */
  before: Entry<T> | undefined
}

const storage = newContextStorage<ReadonlyMap<Ambient<unknown>, Entry<unknown>>>()

export class Ambient<T> {
  get(): T | undefined {
    return this.#entry()?.value
  }

  /** Sets it for the rest of this async context and for what starts from it. */
  set(value: T | undefined): void {
    storage.enterWith(this.#with(entryOf(value)))
  }

  /**
   * Sets it until the result is disposed, which restores the value before. An async function that enters before its
   * first `await` does so in the context of its caller, which the end of the block, behind the `await`, does not see:
   * there the entry that has ended restores the value before.
   */
  enter(value: T): Disposable {
    const before = this.#entry()
    // Or blocks that overlap, each with the next, would make a chain without end.
    if (before !== undefined) before.before = unended(before.before)
    const entry: Entry<T> = { value, ended: false, before }
    storage.enterWith(this.#with(entry))
    return {
      [Symbol.dispose]: () => {
        if (entry.ended) return
        entry.ended = true
        this.set(before?.value)
      },
    }
  }

  /** Sets it for the function and for all that it awaits. */
  run<R>(value: T, fn: () => R): R {
    return storage.run(this.#with(entryOf(value)), fn)
  }

  #entry(): Entry<T> | undefined {
    return unended(storage.getStore()?.get(this) as Entry<T> | undefined)
  }

  #with(entry: Entry<T> | undefined): ReadonlyMap<Ambient<unknown>, Entry<unknown>> {
    const entries = new Map(storage.getStore())
    if (entry === undefined) entries.delete(this)
    else entries.set(this, entry)
    return entries
  }
}

function entryOf<T>(value: T | undefined): Entry<T> | undefined {
  return value === undefined ? undefined : { value, ended: false, before: undefined }
}

function unended<T>(entry: Entry<T> | undefined): Entry<T> | undefined {
  let found = entry
  while (found?.ended === true) found = found.before
  return found
}
