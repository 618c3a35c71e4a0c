/** The work of a launch so far, held against its limit and against the turn of the block or warp that runs. */

import type { LaunchRunTime } from './launch-run-time.js'

/** The cost of stopping a thread and letting it go on, in instructions. */
export const STOP_EFFORT = 2000

/** Thrown when a launch has used up its limit; KernelLaunch says where its threads are. */
export class OutOfEffort extends Error {}

export class LaunchEffort {
  /** The number of times that threads, or whole blocks, stopped and went on. */
  stops = 0
  /** The effort at which another block, or another warp of the block, has its turn. */
  turnEnd = 0
  /** The effort at which the launch rests, for others to run. */
  restAt = Number.POSITIVE_INFINITY

  constructor(
    private readonly runTime: LaunchRunTime,
    readonly limit: number,
    /** The effort of a turn. */
    private readonly turn: number,
  ) {}

  get spent(): number {
    return this.runTime.instructions + STOP_EFFORT * this.stops
  }

  /** Adds work that is about to be done, as far as it is known before. Throws OutOfEffort. */
  add(instructions: number, stops: number): void {
    this.runTime.instructions += instructions
    this.stops += stops
    this.checkLimit()
  }

  checkLimit(): void {
    if (this.spent > this.limit) throw new OutOfEffort()
  }

  beginTurn(): void {
    this.turnEnd = this.spent + this.turn
  }

  get isTurnOver(): boolean {
    return this.spent >= this.turnEnd
  }
}
