/** Where in the program something was called: taken cheaply, read only for a report. */

/** A stack not yet made into text. */
export interface Stack {
  readonly stack?: string | undefined
}

/** Our own frames lie between the call and here. */
const OWN_FRAMES = 10
const CALLERS = 8
const SHOWN = 6

/** The folder of this package's code: `…/dist/src/`. */
const OWN = new URL('../', import.meta.url).href

export function takeStack(): Stack {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = OWN_FRAMES + CALLERS
  const stack: Stack = new Error()
  Error.stackTraceLimit = limit
  return stack
}

/** The lines of a stack that are the program's own, innermost first. */
export function callersIn(stack: Stack): string[] {
  const lines = (stack.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  const foreign = lines.filter((line) => !line.includes(OWN) && !line.includes('(node:') && !line.includes('at node:'))
  return foreign.slice(0, SHOWN).map((line) => line.trim())
}

const FIRST = 16
const EVERY = 32
const MOST_SITES = 64

interface Site {
  readonly what: string
  readonly by: object
  count: number
  stack: Stack
}

/** A stack, and whether it is that of the operation itself or of an earlier one of its kind. */
export interface TakenStack {
  readonly stack: Stack
  readonly exact: boolean
}

/**
 * Taking a stack costs more than all else that the sanitizer does. What one stream does again and again with the same
 * memory it mostly does from the same line, so of such operations the first stacks are taken, and then one of many.
 */
export class StackSites {
  readonly #sites: Site[] = []

  take(what: string, by: object): TakenStack {
    const site = this.#find(what, by)
    if (site === undefined) {
      const stack = takeStack()
      if (this.#sites.length < MOST_SITES) this.#sites.push({ what, by, count: 1, stack })
      return { stack, exact: true }
    }
    site.count += 1
    const exact = site.count <= FIRST || site.count % EVERY === 0
    if (exact) site.stack = takeStack()
    return { stack: site.stack, exact }
  }

  #find(what: string, by: object): Site | undefined {
    const sites = this.#sites
    for (let index = 0; index < sites.length; index += 1) {
      const site = sites[index] as Site
      if (site.by === by && site.what === what) return site
    }
    return undefined
  }
}
