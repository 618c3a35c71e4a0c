/**
 * Values that belong to the async context: what one request makes current, another never sees. All of them live in one
 * AsyncLocalStorage, as a map that is copied when it changes.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

const storage = new AsyncLocalStorage<ReadonlyMap<Ambient<unknown>, unknown>>()

export class Ambient<T> {
  get(): T | undefined {
    return storage.getStore()?.get(this) as T | undefined
  }

  /** Sets it for the rest of this async context and for what starts from it. */
  set(value: T | undefined): void {
    storage.enterWith(this.#with(value))
  }

  /** Sets it until the result is disposed, which brings back what was there before. */
  enter(value: T): Disposable {
    const before = this.get()
    this.set(value)
    let entered = true
    return {
      [Symbol.dispose]: () => {
        if (entered) this.set(before)
        entered = false
      },
    }
  }

  /** Sets it for the function and for all that it awaits. */
  run<R>(value: T, fn: () => R): R {
    return storage.run(this.#with(value), fn)
  }

  #with(value: T | undefined): ReadonlyMap<Ambient<unknown>, unknown> {
    const values = new Map(storage.getStore())
    if (value === undefined) values.delete(this)
    else values.set(this, value)
    return values
  }
}
