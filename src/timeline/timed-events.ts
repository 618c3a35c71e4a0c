/** Events with timing, made ahead and used again: to make one in between would cost as much as half a record. */
import { atNextTurn } from '#platform'
import { type ContextHandle, type Driver, EventFlag, type EventHandle } from '../driver/driver.js'

/** Made when a context is first seen, and again whenever only half are left. */
const BATCH = 8192

export class TimedEvents {
  readonly #free = new Map<ContextHandle, EventHandle[]>()
  #context = 0 as ContextHandle
  #stock: EventHandle[] = []
  #refillsSoon = false
  #closed = false

  constructor(private readonly driver: Driver) {}

  prepare(context: ContextHandle): void {
    const stock = this.#stockOf(context)
    while (stock.length < BATCH) stock.push(this.#create(context))
  }

  take(context: ContextHandle): EventHandle {
    if (context !== this.#context) {
      this.#stock = this.#stockOf(context)
      this.#context = context
    }
    if (this.#stock.length < BATCH / 2) this.#refillSoon(context)
    return this.#stock.pop() ?? this.#create(context)
  }

  giveBack(context: ContextHandle, event: EventHandle): void {
    this.#stockOf(context).push(event)
  }

  close(): void {
    this.#closed = true
    for (const [context, stock] of this.#free) {
      for (const event of stock.splice(0)) this.driver.eventRecycle(context, event)
    }
  }

  /** Programs never see them, so they may be what an earlier recording left. */
  #create(context: ContextHandle): EventHandle {
    return this.driver.eventCreate(context, EventFlag.DEFAULT, true)
  }

  #stockOf(context: ContextHandle): EventHandle[] {
    let stock = this.#free.get(context)
    if (stock === undefined) {
      stock = []
      this.#free.set(context, stock)
    }
    return stock
  }

  #refillSoon(context: ContextHandle): void {
    if (this.#refillsSoon) return
    this.#refillsSoon = true
    atNextTurn(() => {
      this.#refillsSoon = false
      if (this.#closed) return
      try {
        this.prepare(context)
      } catch {
        // The context is lost: there will be nothing more to time.
      }
    }).unref()
  }
}
