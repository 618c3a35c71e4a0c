/** Where two observations of one program differ. */
import type { Observation } from './play.js'
import { type Program, stepText } from './steps.js'

export interface Named {
  readonly name: string
  readonly observation: Observation
}

/** One line for each difference; none where they agree. What is against the rules is always one. */
export function differences(program: Program, a: Named, b: Named): string[] {
  const lines: string[] = []
  const compare = (what: string, one: unknown, two: unknown): void => {
    if (one !== two) lines.push(`${what}\n      ${a.name}: ${shown(one)}\n      ${b.name}: ${shown(two)}`)
  }
  const [one, two] = [a.observation, b.observation]
  for (let index = 0; index < Math.max(one.results.length, two.results.length); index += 1) {
    const step = program.steps[index]
    const what = step === undefined ? 'the end' : `step ${index}, ${stepText(step)}`
    compare(what, one.results[index], two.results[index])
  }
  for (let index = 0; index < Math.max(one.promises.length, two.promises.length); index += 1) {
    compare(`promise ${index}`, one.promises[index], two.promises[index])
  }
  compare('host functions that ran', one.ran, two.ran)
  for (const [index, bytes] of one.bytes.entries()) compare(`buffer ${index}`, bytes, two.bytes[index])
  for (const { name, observation } of [a, b]) {
    for (const broken of observation.broken) lines.push(`against the rules, ${name}: ${broken}`)
  }
  return lines
}

const shown = (value: unknown): string => (value === '' ? 'nothing' : String(value))
