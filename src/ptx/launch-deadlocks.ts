/** What a launch says when all of its blocks wait for each other: which mbarriers lack what, and who is missing at the barrier of a cluster. */
import { type Decoded, describeInstruction } from './decoding.js'
import type { KernelFault } from './faults.js'
import type { KernelCode } from './kernel-code.js'
import type { LaunchReports } from './launch-reports.js'
import type { MissedPhase, Resident } from './resident.js'
import { OF_CLUSTER, type ThreadPlaces, WAITING } from './thread-places.js'

/** The most mbarriers and barriers that are named. */
const MOST_NAMED = 4

/** The fault of a launch none of whose blocks can go on. */
export function deadlockOfBlocks(
  code: KernelCode,
  places: ThreadPlaces,
  reports: LaunchReports,
  blocks: readonly Resident[],
): KernelFault {
  const named: string[] = []
  let first: { readonly at: Decoded | undefined; readonly thread: number; readonly resident: Resident } | undefined
  for (const resident of blocks) {
    const block = `block (${reports.ctaid(resident).join()})`
    const mbarriers = new Map<number, MissedPhase>()
    for (const missed of resident.missed.values()) mbarriers.set(missed.at, missed)
    for (const { site, at, thread } of mbarriers.values()) {
      const decoded = code.sites[site]
      first ??= { at: decoded, thread, resident }
      const where = decoded === undefined ? '' : `, by ${describeInstruction(decoded.instruction)}`
      named.push(`${block} waits for ${mbarrierInWords(code, blocks, at)}${where}`)
    }
    const atBarrier = threadsAtClusterBarrier(places, resident)
    if (atBarrier.length === 0) continue
    const [thread = 0] = atBarrier
    const { at } = places.stop(places.stateOf(resident, thread))
    first ??= { at, thread, resident }
    named.push(
      `${atBarrier.length} threads of ${block} wait for their cluster, by ${at && describeInstruction(at.instruction)}`,
    )
  }
  const more = named.length > MOST_NAMED ? `, and ${named.length - MOST_NAMED} more` : ''
  const message = `All blocks wait forever: ${named.slice(0, MOST_NAMED).join('; ')}${more}`
  if (first === undefined) return reports.faultAt('CUDA_ERROR_LAUNCH_TIMEOUT', message, undefined, 0)
  reports.find('diverging-barrier', message, [first.thread], first.at, first.resident)
  reports.current = first.resident
  return reports.faultAt('CUDA_ERROR_LAUNCH_TIMEOUT', message, first.at, first.thread)
}

function threadsAtClusterBarrier(places: ThreadPlaces, resident: Resident): readonly number[] {
  const threads: number[] = []
  for (let thread = 0; thread < places.threads; thread++) {
    if (resident.status[thread] !== WAITING) continue
    if (places.factsOf(places.stateOf(resident, thread)).barrier === OF_CLUSTER) threads.push(thread)
  }
  return threads
}

/** An mbarrier, by its place in shared memory, and what its phase lacks. */
function mbarrierInWords(code: KernelCode, blocks: readonly Resident[], at: number): string {
  const word = code.memory.view.getBigUint64(at, true)
  const arrivals = Number(word & 0xfffffn)
  const bytes = Number(BigInt.asIntN(23, word >> 40n))
  const missing = [
    ...(arrivals > 0 ? [`${arrivals} arrival${arrivals === 1 ? '' : 's'}`] : []),
    ...(bytes > 0 ? [`${bytes} bytes`] : []),
    ...(bytes < 0 ? [`an expect_tx for ${-bytes} bytes that have come`] : []),
  ]
  const owner = blocks
    .flatMap(({ cluster }) => cluster.blocks)
    .find(({ shared }) => at >= shared && at < shared + 2 ** 18)
  const place = owner === undefined ? '' : ` at byte ${at - owner.shared} of shared memory`
  const what =
    missing.length === 0 ? 'lacks nothing: its phase is not the awaited one' : `lacks ${missing.join(' and ')}`
  return `the mbarrier${place}, which ${what}`
}
