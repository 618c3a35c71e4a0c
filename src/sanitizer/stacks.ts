/** The stacks of operations, and which of them are taken. */
import { programLines, takeStack } from '../base/stack.js'

/** Our own frames lie between the call and here. */
const OWN_FRAMES = 10
const CALLERS = 8
const SHOWN = 6
const TELLING = 3

const isBuiltIn = (line: string): boolean => line.endsWith('(<anonymous>)')

/** The lines that a report shows: the program's own, innermost first. A built-in that the library calls is none of them. */
export function shownLines(stack: string): readonly string[] {
  const lines = programLines(stack)
  const first = lines.findIndex((line) => !isBuiltIn(line))
  return first < 0 ? [] : lines.slice(first, first + SHOWN)
}

/** Those that tell one place from another: of the calls that are under way, not of what awaits them. */
export function tellingLines(stack: string): readonly string[] {
  const lines = shownLines(stack).filter((line) => !isBuiltIn(line))
  const awaiting = lines.findIndex((line) => line.startsWith('at async '))
  return lines.slice(0, awaiting > 0 ? Math.min(awaiting, TELLING) : TELLING).map(withoutReceiver)
}

/** The same function is `again`, and `Immediate.again [as _onImmediate]` where a timer calls it. */
function withoutReceiver(line: string): string {
  const [name = '', ...place] = line.slice('at '.length).split(' (')
  if (place.length === 0) return name
  const [own = ''] = name.split(' [as ')
  return `${own.slice(own.lastIndexOf('.') + 1)} (${place.join(' (')}`
}

/**
 * Are lines as far as there are any in both the same? Behind an `await` a function has no callers any more, and how many
 * outer lines there are depends on the library's own.
 */
export function isSamePlace(one: readonly string[], other: readonly string[]): boolean {
  const length = Math.min(one.length, other.length)
  if (length === 0) return one.length === other.length
  return one.slice(0, length).every((line, index) => line === other[index])
}

/** A stack, and whether it is that of the operation itself or of an earlier one of its kind. */
export interface TakenStack {
  readonly stack: string
  readonly exact: boolean
  /** Of the calls that it is one of. */
  readonly site: SampledSite | undefined
}

/** What one stream does again and again with memory of one size, and a stack of it. */
export class SampledSite {
  count = 0
  /** There was something to report of these calls: from now on each has its own stack. */
  isReported = false
  /** The latest stack that was taken, for those that have none of their own. */
  latest: TakenStack | undefined

  constructor(
    readonly what: string,
    readonly by: object,
  ) {}
}

/** Of each site so many stacks are taken at first; then one of so many. */
const FIRST = 16
const EVERY = 64
/** Stacks after which a new site has to do with one at first. */
const MOST_FIRST = 4096
const MOST_SITES = 64

/** Which operations have their stack taken. */
export type StackMode = 'sampled' | 'all' | 'none'

export const STACK_MODES: readonly StackMode[] = ['sampled', 'all', 'none']

export class Stacks {
  #taken = 0

  constructor(private readonly mode: StackMode) {}

  /** The stack of the call under way, where stacks are taken at all. */
  take(): TakenStack | undefined {
    if (this.mode === 'none') return undefined
    return { stack: takeStack(OWN_FRAMES + CALLERS, this.take), exact: true, site: undefined }
  }

  /**
   * The same for one of many calls. Taking a stack costs ten times what the rest of the sanitizer does. What one stream
   * does again and again with the same memory it mostly does from the same line, so not every time one is taken.
   */
  sample(sites: SampledSite[], what: string, by: object): TakenStack | undefined {
    if (this.mode !== 'sampled') return this.take()
    const site = find(sites, what, by)
    site.count += 1
    const { count, latest, isReported } = site
    if (latest !== undefined && !isReported && count % EVERY !== 0 && (count > FIRST || this.#taken >= MOST_FIRST)) {
      return latest
    }
    this.#taken += 1
    const stack = takeStack(OWN_FRAMES + CALLERS, this.sample)
    site.latest = { stack, exact: false, site }
    return { stack, exact: true, site: undefined }
  }
}

function find(sites: SampledSite[], what: string, by: object): SampledSite {
  for (let index = 0; index < sites.length; index += 1) {
    const site = sites[index] as SampledSite
    if (site.by === by && site.what === what) return site
  }
  if (sites.length >= MOST_SITES) sites.splice(0, MOST_SITES / 2)
  const made = new SampledSite(what, by)
  sites.push(made)
  return made
}
