/**
 * The ranks of one communicator that live in this thread of JavaScript. NCCL's calls wait for each other, so one thread
 * has to make those of all its ranks together; whether it does is checked before any is made.
 */
import { invalidValue, stateError } from '../../base/errors.js'
import type { Driver } from '../../driver/driver.js'

/** What a rank asks for, as the others must ask for it. */
export interface NcclRequest {
  readonly clique: Clique
  readonly rank: number
  /** The rank that it sends to or receives from; undefined for what all ranks do together. */
  readonly peer: number | undefined
  readonly isSend: boolean
  /** The function, types and sizes. */
  says(): string
}

let nextSerial = 1
const cliques = new Map<string, Clique>()

export class Clique {
  /** Never given twice. */
  readonly serial: number = nextSerial++
  readonly #ranks = new Set<number>()

  private constructor(
    private readonly key: string,
    readonly size: number,
    readonly driver: Driver,
  ) {}

  /**
   * Takes a rank's place. Throws ERR_INVALID_ARG_VALUE where it is taken, or where another size was stated before, and
   * ERR_DEVICE_MISMATCH for a device of another driver than that of the ranks before.
   */
  static enter(id: Uint8Array, rank: number, size: number, driver: Driver): Clique {
    const key = Buffer.from(id).toString('latin1')
    const clique = cliques.get(key) ?? new Clique(key, size, driver)
    if (clique.driver !== driver) {
      const what = 'options.device belongs to another driver than the other ranks of this id'
      throw stateError('ERR_DEVICE_MISMATCH', what)
    }
    if (clique.size !== size) {
      throw invalidValue(`options.size is ${size}, but ${clique.size} for other ranks of the same id`)
    }
    if (clique.#ranks.has(rank)) throw invalidValue(`options.rank: this process has rank ${rank} of this id already`)
    clique.#ranks.add(rank)
    cliques.set(key, clique)
    return clique
  }

  get ranks(): ReadonlySet<number> {
    return this.#ranks
  }

  leave(rank: number): void {
    this.#ranks.delete(rank)
    if (this.#ranks.size === 0 && cliques.get(this.key) === this) cliques.delete(this.key)
  }
}

/** Do the requests that are made together leave no rank of this thread out? Throws ERR_DEADLOCK. */
export function checkTogether(requests: readonly NcclRequest[]): void {
  for (const clique of new Set(requests.map((request) => request.clique))) {
    const own = requests.filter((request) => request.clique === clique)
    checkCollectives(clique, own)
    checkPairs(clique, own)
  }
}

function checkCollectives({ ranks }: Clique, requests: readonly NcclRequest[]): void {
  if (ranks.size === 1) return
  const collectives = requests.filter(({ peer }) => peer === undefined)
  const first = collectives[0]
  if (first === undefined) return
  const asked = (rank: number): string =>
    collectives.flatMap((request) => (request.rank === rank ? [request.says()] : [])).join(', then ')
  const expected = asked(first.rank)
  for (const rank of ranks) {
    if (asked(rank) === expected) continue
    const other = asked(rank) || 'nothing'
    const which = `rank ${rank}, which is in this thread too`
    throw wouldWait(`rank ${first.rank} asks for ${expected}, and ${which}, for ${other}`)
  }
}

function checkPairs({ ranks }: Clique, requests: readonly NcclRequest[]): void {
  const sent = new Map<string, string[]>()
  const received = new Map<string, string[]>()
  for (const request of requests) {
    const { rank, peer, isSend } = request
    if (peer === undefined || !ranks.has(peer)) continue
    const pair = isSend ? `${rank} to ${peer}` : `${peer} to ${rank}`
    const side = isSend ? sent : received
    side.set(pair, [...(side.get(pair) ?? []), request.says()])
  }
  for (const pair of new Set([...sent.keys(), ...received.keys()])) {
    const [sends, receives] = [sent.get(pair) ?? [], received.get(pair) ?? []]
    if (String(sends) === String(receives)) continue
    const [has, lacks] = [sends.join(', then ') || 'nothing', receives.join(', then ') || 'nothing']
    throw wouldWait(`from rank ${pair}, which are both in this thread, ${has} is sent and ${lacks} received`)
  }
}

function wouldWait(why: string): Error {
  return stateError('ERR_DEADLOCK', `This would wait forever: ${why}. Make the calls of all ranks inside one group()`)
}
