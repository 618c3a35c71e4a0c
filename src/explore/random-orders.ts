/** Orders at random, for programs that have too many. */
import type { Choice } from '../driver/sim/machine/chosen-scheduler.js'
import type { SimStream } from '../driver/sim/machine/machine-state.js'
import { Random } from '../driver/sim/machine/random.js'
import type { Picker } from './step-recorder.js'

/** Each choice with the same probability. It seldom finds what needs one stream to lag far behind. */
export function uniformOrder(seed: number): Picker {
  const random = new Random(seed)
  return (choices) => choices[Math.floor(random.next() * choices.length)] as Choice
}

/**
 * Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi and Nagarakatte, 2010): the host and each stream have
 * a random priority, which changes at `depth - 1` of about `steps` steps. A bug that needs so many steps in one order is
 * found with a probability of 1 in (streams × steps ^ (depth - 1)), at least.
 */
export function priorityOrder(seed: number, depth: number, steps: number): Picker {
  const random = new Random(seed)
  const priorities = new Map<SimStream | undefined, number>()
  const changes = new Set(Array.from({ length: depth - 1 }, () => 1 + Math.floor(random.next() * steps)))
  let lowest = 0
  const priorityOf = (stream: SimStream | undefined): number => {
    const known = priorities.get(stream)
    if (known !== undefined) return known
    const priority = 1 + random.next()
    priorities.set(stream, priority)
    return priority
  }
  return (choices, place) => {
    const first = choices.reduce((best, choice) =>
      priorityOf(choice.operation?.stream) > priorityOf(best.operation?.stream) ? choice : best,
    )
    if (changes.has(place)) {
      lowest -= 1
      priorities.set(first.operation?.stream, lowest)
    }
    return first
  }
}
