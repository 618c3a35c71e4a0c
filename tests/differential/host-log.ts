/** Which host functions ran, and what of that was against the rules. */
import type { Rules } from './rules.js'

export class HostLog {
  /** What was against the rules. */
  readonly broken: string[] = []
  readonly #rules: Rules
  readonly #order: string[] = []
  readonly #runs = new Map<string, number>()
  #labels = 0
  /** The host function whose body makes steps, and how many names it gave. */
  #within: { readonly label: string; labels: number } | undefined

  constructor(rules: Rules) {
    this.#rules = rules
  }

  /** A name for a host function that is about to be queued. Captured in a graph, it may run often. */
  label(): string {
    if (this.#within !== undefined) {
      this.#within.labels += 1
      return `${this.#within.label}.${this.#within.labels}`
    }
    this.#labels += 1
    return `h${this.#labels}`
  }

  /** Names that are given in the function begin with that of the host function, whenever it runs. */
  within(label: string, body: () => void): void {
    this.#within = { label, labels: 0 }
    body()
    this.#within = undefined
  }

  /** A host function runs. */
  ran(label: string): void {
    const runs = (this.#runs.get(label) ?? 0) + 1
    this.#runs.set(label, runs)
    this.#order.push(label)
    const ids = this.#rules.hostFunctions().get(label) ?? []
    if (runs > ids.length) this.broken.push(`${label} ran ${runs} times, and was queued ${ids.length} times`)
    else if (ids.every((id) => this.#rules.isHeld(this.#rules.upTo(id)))) this.broken.push(`${label} ran too early`)
  }

  /** Whatever the host has waited for has run. */
  checkRun(): void {
    for (const [label, ids] of this.#rules.hostFunctions()) {
      const must = ids.filter((id) => this.#rules.isDone(id)).length
      const did = this.#runs.get(label) ?? 0
      if (did < must) this.broken.push(`${label} should have run ${must} times, and did ${did} times`)
    }
  }

  /** Host functions ran in each order that is forced. */
  checkOrder(): void {
    const places = this.#places()
    for (const [first, one] of places) {
      for (const [second, two] of places) {
        if (first !== second && this.#rules.isOrdered(first, second) && two < one) {
          this.broken.push(`${this.#order[two]} ran before ${this.#order[one]}`)
        }
      }
    }
  }

  /** How many different ones ran, and which of them not once. */
  get summary(): string {
    const often = [...this.#runs].filter(([, runs]) => runs !== 1).map(([label, runs]) => `${label}:${runs}`)
    return [this.#runs.size, ...often.sort()].join(' ')
  }

  /** Where in the log each queued one is: of those with one label, where they are in order among themselves. */
  #places(): Map<number, number> {
    const places = new Map<number, number>()
    for (const [label, ids] of this.#rules.hostFunctions()) {
      if (ids.some((id, index) => index > 0 && !this.#rules.isOrdered(ids[index - 1] ?? -1, id))) continue
      let from = 0
      for (const id of ids) {
        const place = this.#order.indexOf(label, from)
        if (place < 0) break
        places.set(id, place)
        from = place + 1
      }
    }
    return places
  }
}
