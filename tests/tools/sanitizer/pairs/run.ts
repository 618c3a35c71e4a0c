/** Runs programs that are lists of steps: under every order, under the sanitizer, and with its advice followed. */
import type { Event } from 'cuda-streams'
import { type ReportedOperation, Sanitizer, type SanitizerReport } from 'cuda-streams/sanitizer'
import { type Exploration, explore, type Simulation, simulate } from 'cuda-streams/sim'
import { type Stage, type Step, streamOf } from './pairs.js'

const MOST_RUNS = 400

/** Runs the steps. What it returns is all that the program observed. */
async function perform(steps: readonly Step[], simulation: Simulation): Promise<unknown> {
  const [device] = simulation.devices
  if (device === undefined) throw new Error('a simulation has a device')
  const stage: Stage = { simulation, device, streams: new Map(), results: [], keep: new Map() }
  for (const { name, run } of steps) {
    const holder = { [`step_${name.replaceAll(' ', '_')}`]: (): unknown => run(stage) }
    await Object.values(holder)[0]?.()
  }
  return Promise.all(stage.results)
}

/** The oracle: does every order of the GPU come to the same? With a sanitizer, does it where that fixes? */
export function explored(steps: readonly Step[], devices: number, fix = false): Promise<Exploration> {
  return explore(
    async (simulation) => {
      const [device] = simulation.devices
      const sanitizer = fix ? Sanitizer.start({ device, fix, stacks: 'none' }) : undefined
      try {
        return await perform(steps, simulation)
      } finally {
        sanitizer?.stop()
      }
    },
    { devices, maxRuns: MOST_RUNS },
  )
}

/** What the sanitizer says of one run. */
export async function reportsOf(
  steps: readonly Step[],
  devices: number,
  causal = false,
): Promise<readonly SanitizerReport[]> {
  using simulation = simulate({ devices })
  const [device] = simulation.devices
  using sanitizer = Sanitizer.start({ device, causal })
  await perform(steps, simulation)
  return sanitizer.reports.filter(({ severity }) => severity === 'error')
}

/** The line of the program that a stack is about. */
const stepIn = (stack: readonly string[]): string | undefined => /\bstep_(\w+)/.exec(stack.join('\n'))?.[1]

/** Where one is to stand before an operation: before the step, or for a host function before the one that queues it. */
const linesOf = ({ stack, queuedAt }: ReportedOperation): readonly string[] => (queuedAt.length > 0 ? queuedAt : stack)

/** What the advice says is put where it says so; undefined where it is none that can be followed word for word. */
function followed(steps: readonly Step[], { advice, first, second }: SanitizerReport): readonly Step[] | undefined {
  const at = (stack: readonly string[] | undefined): number =>
    steps.findIndex(({ name }) => name.replaceAll(' ', '_') === stepIn(stack ?? []))
  const insert = (index: number, run: Step['run']): readonly Step[] | undefined =>
    index < 0 ? undefined : [...steps.slice(0, index), { name: `advice ${steps.length}`, run }, ...steps.slice(index)]
  const later = at(linesOf(second))
  const kept =
    /Record an event before `([\w.]+)` is closed .*`(?:await done\.finished\(\)|([\w.]+)\.wait\(done\))`/.exec(advice)
  if (kept !== null) {
    const [, from = '', to] = kept
    const done = (s: Stage): Event => s.keep.get('advised') as Event
    const wait: Step['run'] = (s) => (to === undefined ? done(s).finished() : streamOf(s, to).wait(done(s)))
    const waits = later < 0 ? undefined : insert(later, wait)
    if (waits === undefined) return undefined
    const behind = at(first && linesOf(first)) + 1
    const record: Step = { name: 'advised record', run: (s) => s.keep.set('advised', streamOf(s, from).record()) }
    return [...waits.slice(0, behind), record, ...waits.slice(behind)]
  }
  const turned = /`await ([\w.]+)\.finished\(\)`, then `([\w.]+)\.wait\(([\w.]+)\)`/.exec(advice)
  if (turned !== null) {
    return insert(at(first && linesOf(first)), async (s) => {
      await streamOf(s, turned[1] ?? '').finished()
      streamOf(s, turned[2] ?? '').wait(streamOf(s, turned[3] ?? ''))
    })
  }
  const waits = [...advice.matchAll(/`([\w.]+)\.wait\(([\w.]+)\)`/g)]
  if (waits.length > 0) {
    return insert(later, (s) => {
      for (const [, to = '', from = ''] of waits) streamOf(s, to).wait(streamOf(s, from))
    })
  }
  const host = /`await ([\w.]+)\.finished\(\)`/.exec(advice)
  if (host !== null) return insert(later, async (s) => streamOf(s, host[1] ?? '').finished())
  return undefined
}

const MOST_ADVICE = 5

/** Follows one advice after the other until nothing is reported; undefined where that does not come about. */
export async function fixedByAdvice(steps: readonly Step[], devices: number): Promise<readonly Step[] | undefined> {
  let fixed = steps
  for (let count = 0; count < MOST_ADVICE; count += 1) {
    const [report] = await reportsOf(fixed, devices)
    if (report === undefined) return fixed
    const next = followed(fixed, report)
    if (next === undefined) return undefined
    fixed = next
  }
  return undefined
}
