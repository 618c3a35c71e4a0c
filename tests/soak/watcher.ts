/** While the clients play, a sanitizer or a timeline looks on for a while, and the garbage collector runs. */
import { Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { publish, Timeline } from 'cuda-streams/timeline'
import { turn } from './client.js'
import { Random, seedOf } from './random.js'
import type { Thread } from './thread.js'
import { told } from './tracker.js'

const LIMIT = 20_000

/** Until the clients are done. */
export async function watchFrom(thread: Thread, index: number, goesOn: () => boolean): Promise<void> {
  const track = thread.trace.track(index)
  const random = new Random(seedOf(thread.fixture.options.seed, thread.number, 100 + index))
  const looks = [
    ['watches by a sanitizer', watchBySanitizer],
    ['watches by a timeline', watchByTimeline],
    ['watches by channels', watchByChannels],
    ['collects garbage', async () => void globalThis.gc?.()],
    ['looks away', (_: Thread, random: Random) => turns(random.between(50, 400))],
  ] as const
  while (goesOn()) {
    const [what, look] = random.one(looks)
    track.note(what)
    try {
      await look(thread, random)
    } catch (error) {
      thread.tracker.fail(`${what}: ${told(error)}`)
    }
    await turns(random.between(1, 50))
  }
  track.note('has seen enough')
}

async function turns(count: number): Promise<void> {
  for (let left = count; left > 0; left -= 1) await turn()
}

/** A right program has no races; one that is injected meanwhile is found. */
async function watchBySanitizer({ machine, tracker }: Thread, random: Random): Promise<void> {
  const { device } = machine
  const sanitizer = Sanitizer.start({ device, stacks: random.one(['none', 'sampled', 'all']) })
  const [first, second] = [new Stream({ device }), new Stream({ device })]
  const injected = device.alloc(4096, { stream: first })
  try {
    await turns(random.between(1, 100))
    first.fill(injected, 1)
    second.fill(injected, 2)
    await turns(random.between(1, 100))
  } finally {
    first.wait(second)
    injected.close()
    first.close()
    second.close()
    sanitizer.stop()
  }
  const { reports } = sanitizer
  const isInjected = ({ memory }: (typeof reports)[number]): boolean =>
    memory !== undefined && memory.pointer >= injected.pointer && memory.pointer < injected.pointer + 4096n
  tracker.counts.reports += reports.length
  tracker.same('races that were injected and found', reports.filter(isInjected).length, 1)
  const wrong = reports.find((report) => report.severity === 'error' && !isInjected(report))
  if (wrong !== undefined) tracker.fail(`the sanitizer reports what is right: ${wrong.message}`)
}

async function watchByTimeline({ machine, tracker }: Thread, random: Random): Promise<void> {
  const recording = Timeline.start({ device: machine.device, limit: LIMIT, callSites: random.chance(0.2) })
  await turns(random.between(1, 100))
  const timeline = random.chance(0.5) ? recording.stopNow() : await recording.stop()
  for (const { start, end, kind } of timeline.operations) {
    if (start !== undefined && end !== undefined && end < start)
      tracker.fail(`${kind} ends at ${end} ns and begins at ${start} ns`)
  }
  if (timeline.operations.length > LIMIT)
    tracker.fail(`${timeline.operations.length} operations where ${LIMIT} are asked for`)
  if (random.chance(0.3)) JSON.parse(timeline.toJson())
  if (random.chance(0.2)) timeline.toSvg()
  if (random.chance(0.1)) timeline.toHtml()
}

async function watchByChannels({ machine }: Thread, random: Random): Promise<void> {
  using publisher = publish({ device: machine.device, interval: random.one([1, 100]) })
  await turns(random.between(1, 100))
  if (random.chance(0.5)) publisher.flush()
}
