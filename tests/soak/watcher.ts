/** While the actors play, a sanitizer or a timeline looks on for a while, and the garbage collector runs. */
import { Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { publish, Timeline } from 'cuda-streams/timeline'
import { turn } from './actor.js'
import { told } from './books.js'
import { Random, seedOf } from './random.js'
import type { Thread } from './thread.js'

const LIMIT = 20_000

/** Until the actors are done. */
export async function watchFrom(thread: Thread, index: number, goesOn: () => boolean): Promise<void> {
  const lane = thread.trace.lane(index)
  const random = new Random(seedOf(thread.ground.options.seed, thread.number, 100 + index))
  const looks = [
    ['watches by a sanitizer', watchBySanitizer],
    ['watches by a timeline', watchByTimeline],
    ['watches by channels', watchByChannels],
    ['collects garbage', async () => void globalThis.gc?.()],
    ['looks away', (_: Thread, random: Random) => turns(random.between(50, 400))],
  ] as const
  while (goesOn()) {
    const [what, look] = random.one(looks)
    lane.note(what)
    try {
      await look(thread, random)
    } catch (error) {
      thread.books.fail(`${what}: ${told(error)}`)
    }
    await turns(random.between(1, 50))
  }
  lane.note('has seen enough')
}

async function turns(count: number): Promise<void> {
  for (let left = count; left > 0; left -= 1) await turn()
}

/** A right program has no races; one that is planted meanwhile is found. */
async function watchBySanitizer({ machine, books }: Thread, random: Random): Promise<void> {
  const { device } = machine
  const sanitizer = Sanitizer.start({ device, stacks: random.one(['none', 'sampled', 'all']) })
  const [first, second] = [new Stream({ device }), new Stream({ device })]
  const planted = device.alloc(4096, { stream: first })
  try {
    await turns(random.between(1, 100))
    first.fill(planted, 1)
    second.fill(planted, 2)
    await turns(random.between(1, 100))
  } finally {
    first.wait(second)
    planted.close()
    first.close()
    second.close()
    sanitizer.stop()
  }
  const { reports } = sanitizer
  const isPlanted = ({ memory }: (typeof reports)[number]): boolean =>
    memory !== undefined && memory.pointer >= planted.pointer && memory.pointer < planted.pointer + 4096n
  books.counts.reports += reports.length
  books.same('races that were planted and found', reports.filter(isPlanted).length, 1)
  const wrong = reports.find((report) => report.severity === 'error' && !isPlanted(report))
  if (wrong !== undefined) books.fail(`the sanitizer reports what is right: ${wrong.message}`)
}

async function watchByTimeline({ machine, books }: Thread, random: Random): Promise<void> {
  const recording = Timeline.start({ device: machine.device, limit: LIMIT, callSites: random.chance(0.2) })
  await turns(random.between(1, 100))
  const timeline = random.chance(0.5) ? recording.stopNow() : await recording.stop()
  for (const { start, end, kind } of timeline.operations) {
    if (start !== undefined && end !== undefined && end < start)
      books.fail(`${kind} ends at ${end} ns and begins at ${start} ns`)
  }
  if (timeline.operations.length > LIMIT)
    books.fail(`${timeline.operations.length} operations where ${LIMIT} are asked for`)
  if (random.chance(0.3)) JSON.parse(timeline.toJson())
  if (random.chance(0.2)) timeline.toSvg()
  if (random.chance(0.1)) timeline.toHtml()
}

async function watchByChannels({ machine }: Thread, random: Random): Promise<void> {
  using publisher = publish({ device: machine.device, interval: random.one([1, 100]) })
  await turns(random.between(1, 100))
  if (random.chance(0.5)) publisher.flush()
}
