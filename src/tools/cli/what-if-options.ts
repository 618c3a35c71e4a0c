/** The options of the command what-if, each of which proposes a change. */
import type { Proposal } from '../recording/what-if.js'

/** The options that may be given several times, and --idle-host. */
export const WHAT_IF_OPTIONS = ['without-wait', 'own-stream', 'more-buffers', 'faster', 'queues', 'idle-host'] as const

type Given = {
  readonly [W in Exclude<(typeof WHAT_IF_OPTIONS)[number], 'idle-host'>]?: readonly string[] | undefined
} & {
  readonly 'idle-host'?: boolean | undefined
}

/**
 * The changes that the options propose.
 * @throws Error if a value is wrong
 */
export function proposalsOf(given: Given): readonly Proposal[] {
  const lines = (['without-wait', 'own-stream', 'more-buffers'] as const).flatMap((kind) =>
    (given[kind] ?? []).map((line): Proposal => ({ kind, line })),
  )
  const faster = (given.faster ?? []).map(fasterOf)
  const queues = (given.queues ?? []).map(queuesOf)
  return [...lines, ...faster, ...queues, ...(given['idle-host'] === true ? [{ kind: 'idle-host' } as const] : [])]
}

function fasterOf(text: string): Proposal {
  const [, name, percent] = /^(.+)=(\d+(?:\.\d+)?)%?$/.exec(text) ?? []
  const value = Number(percent)
  if (name === undefined || !(value > 0 && value <= 100))
    throw new Error(
      `--faster takes the name of a kernel and by how many percent it is faster, such as blur=20, not '${text}'`,
    )
  return { kind: 'faster', name, percent: value }
}

function queuesOf(text: string): Proposal {
  const count = Number(text)
  if (!/^\d+$/.test(text) || count < 1 || count > 32)
    throw new Error(`--queues takes a number of hardware queues from 1 to 32, not '${text}'`)
  return { kind: 'queues', count }
}
