/**
 * One turn of the event loop after another, for as long as something is pending. All promises and host functions of a
 * driver share one pump: ten thousand pending waits cost one immediate or one sleep.
 */
import { atNextTurn, type Turn } from '../base/event-loop.js'

/** What a turn found: something happened or soon will; nothing did; nothing is left to wait for. */
export type TurnResult = 'soon' | 'later' | 'idle'

export interface Sleeper {
  /** It does not sleep yet: turns of the event loop follow each other at once. */
  readonly polls?: boolean
  /** Calls `wake` after a while of its choice, once. */
  sleep(wake: () => void): void
  /** Forgets the sleep, if there is one; the next begins afresh. */
  cancel(): void
}

export class LoopPump {
  #immediate: Turn | undefined
  #sleeping = false

  /** `keepsAlive` says whether what is pending must keep the process running; it is asked at every turn. */
  constructor(
    private readonly turn: () => TurnResult,
    private readonly sleeper: Sleeper,
    private readonly keepsAlive: () => boolean,
  ) {}

  /** Something was queued: look at the next turn. */
  wake(): void {
    this.#schedule()
    this.#stopSleeping()
  }

  #stopSleeping(): void {
    if (!this.#sleeping) return
    this.sleeper.cancel()
    this.#sleeping = false
  }

  #schedule(): void {
    this.#immediate ??= atNextTurn(this.#run)
    if (!this.keepsAlive()) this.#immediate.unref()
    // Anew: on Bun an immediate that was unref'd may never come, though it is ref'd again. The other one is left as it is.
    else if (!this.#immediate.hasRef()) this.#immediate = atNextTurn(this.#run)
  }

  readonly #run = (): void => {
    this.#immediate = undefined
    this.#stopSleeping()
    const result = this.turn()
    if (this.#immediate !== undefined) return
    if (result === 'soon') this.#schedule()
    else if (result === 'later') {
      this.#sleeping = true
      this.sleeper.sleep(this.#wakeUp)
    } else this.sleeper.cancel()
  }

  readonly #wakeUp = (): void => {
    this.#sleeping = false
    this.#run()
  }
}
