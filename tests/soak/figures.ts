/** What the process has: memory, threads, files, and what keeps its event loop alive. */
import { readdirSync } from 'node:fs'
import type { Machine } from './machine.js'

export interface Figures {
  /** MiB of JavaScript's heap, of what lies outside of it, and that this process has taken of the device; undefined where there is none. */
  readonly heap: number
  readonly outside: number
  readonly device: number | undefined
  /** Undefined where the system does not say. */
  readonly threads: number | undefined
  readonly files: number | undefined
  /** Timers, ports and the like. */
  readonly resources: readonly string[]
}

const MIB = 2 ** 20

export function figuresOf(machine: Machine): Figures {
  globalThis.gc?.()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return {
    heap: Math.round(heapUsed / MIB),
    outside: Math.round(arrayBuffers / MIB),
    // What is free on the device changes with each process that begins or ends.
    device: machine.isSimulated ? undefined : Math.round(machine.device.memoryPool.reserved / MIB),
    threads: countIn('/proc/self/task'),
    files: countIn('/proc/self/fd'),
    resources: process.getActiveResourcesInfo(),
  }
}

/** So much more of each may there be at the end than there was halfway, when all was in use. */
const MORE = { heap: 16, outside: 64, device: 64, threads: 4, files: 8 } as const

/** What there is more of at the end than there was before. */
export function growth(before: Figures, after: Figures): string[] {
  const names = Object.keys(MORE) as (keyof typeof MORE)[]
  return names.flatMap((name) => {
    const [from, to] = [before[name], after[name]]
    if (from === undefined || to === undefined || to <= from + MORE[name]) return []
    return [`${name} grew from ${from} to ${to}`]
  })
}

/** For a person to read. */
export function toldFigures({ resources, ...figures }: Figures): string {
  const known = Object.entries(figures).filter(([, value]) => value !== undefined)
  return `${known.map(([name, value]) => `${name} ${value}`).join(', ')}, ${resources.length} resources`
}

function countIn(folder: string): number | undefined {
  try {
    return readdirSync(folder).length
  } catch {
    return undefined
  }
}
