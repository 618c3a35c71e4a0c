/** An order as a string that can be pasted: how many devices, then the steps at which it is not the usual one. */
import { invalidType, invalidValue } from '../base/errors.js'
import { MOST_DEVICES } from '../driver/sim/limits.js'
import { type Picker, processOf, usualChoice } from './step-recorder.js'
import type { Step } from './steps.js'

/** Such as '2:5=7,9=0': on two devices, operation 7 at step 5 and the host at step 9. */
export type Schedule = string

export interface Detour {
  readonly place: number
  readonly process: number
}

export function scheduleOf(devices: number, detours: readonly Detour[]): Schedule {
  return `${devices}:${detours.map(({ place, process }) => `${place}=${process}`).join()}`
}

export function detoursOf(steps: readonly Step[]): Detour[] {
  return [...steps.entries()]
    .filter(([, { process, usual }]) => process !== usual)
    .map(([place, { process }]) => ({ place, process }))
}

export function parseSchedule(schedule: Schedule): { readonly devices: number; readonly detours: readonly Detour[] } {
  if (typeof schedule !== 'string') throw invalidType('schedule', 'the schedule of an exploration', schedule)
  const [, count, detours] = /^(\d+):((?:\d+=\d+(?:,\d+=\d+)*)?)$/.exec(schedule) ?? []
  const devices = Number(count)
  if (detours === undefined || devices < 1 || devices > MOST_DEVICES) {
    throw invalidValue(`schedule must be one that explore() printed, such as '2:5=7,9=0', not '${schedule}'`)
  }
  const pairs = detours === '' ? [] : detours.split(',')
  return {
    devices,
    detours: pairs.map((pair) => {
      const [place, process] = pair.split('=').map(Number) as [number, number]
      return { place, process }
    }),
  }
}

/** Takes the detours, and the usual way elsewhere. */
export class Route {
  readonly #detours: ReadonlyMap<number, number>
  readonly #taken = new Set<number>()

  constructor(detours: readonly Detour[]) {
    this.#detours = new Map(detours.map(({ place, process }) => [place, process]))
  }

  readonly pick: Picker = (choices, place) => {
    const process = this.#detours.get(place)
    const chosen = choices.find((choice) => processOf(choice) === process)
    if (process === undefined || chosen === undefined) return usualChoice(choices)
    this.#taken.add(place)
    return chosen
  }

  /** Was there something to choose at each of them? */
  get fits(): boolean {
    return this.#taken.size === this.#detours.size
  }
}
