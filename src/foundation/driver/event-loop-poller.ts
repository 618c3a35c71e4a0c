/**
 * Polls in one turn of the event loop after another, for as long as something is pending. All promises and host functions of a
 * driver share one poller: ten thousand pending waits cost one immediate or one timer.
 */
import { atNextTurn, type Turn } from '../base/event-loop.js'

/**
 * What a turn found. 'delivered': a promise was settled or a host function ran, after which the program goes on. 'soon': something else happened or soon
 * will. 'later': nothing happened. 'idle': nothing is pending.
 */
export type TurnResult = 'delivered' | 'soon' | 'later' | 'idle'

/** Decides how long the poller waits between two turns that found nothing. */
export interface BackOff {
  /** True at first, while turns of the event loop follow each other without a wait. */
  readonly polls?: boolean
  /** Calls `wake` once, after the next interval. */
  sleep(wake: () => void): void
  /** Cancels the pending wait, if there is one. The next intervals are short again. */
  cancel(): void
}

export class EventLoopPoller {
  #immediate: Turn | undefined
  #sleeping = false
  /** Whether another turn comes before the process ends: what the program queues as it goes on has one, as it has while others wait. */
  #owesTurn = false

  /** `keepsAlive` returns whether what is pending must keep the process running. It is called at every turn. */
  constructor(
    private readonly turn: () => TurnResult,
    private readonly backOff: BackOff,
    private readonly keepsAlive: () => boolean,
  ) {}

  /** Called when something was queued: polls in the next turn. */
  wake(): void {
    this.#schedule()
    this.#stopSleeping()
  }

  #stopSleeping(): void {
    if (!this.#sleeping) return
    this.backOff.cancel()
    this.#sleeping = false
  }

  #schedule(): void {
    this.#immediate ??= this.#atNextTurn()
    if (!(this.#owesTurn || this.keepsAlive())) this.#immediate.unref()
    // Makes another one: on Bun an immediate that was unref'd may never run, even after ref(). The first one does nothing when it comes.
    else if (!this.#immediate.hasRef()) this.#immediate = this.#atNextTurn()
  }

  #atNextTurn(): Turn {
    const own: Turn = atNextTurn(() => {
      // One that was replaced would go on beside the other, and the machine would have two turns in each of the event loop, then three.
      if (this.#immediate === own) this.#run()
    })
    return own
  }

  readonly #run = (): void => {
    this.#immediate = undefined
    this.#stopSleeping()
    const result = this.turn()
    this.#owesTurn = result === 'delivered'
    if (this.#immediate !== undefined && !this.#owesTurn) return
    if (result === 'delivered' || result === 'soon') this.#schedule()
    else if (result === 'later') {
      this.#sleeping = true
      this.backOff.sleep(this.#wakeUp)
    } else this.backOff.cancel()
  }

  readonly #wakeUp = (): void => {
    this.#sleeping = false
    this.#run()
  }
}
