/** Looks for missing waits in a recording: the sanitizer follows its calls as it follows those of a program. */
import type { StreamHandle } from '../../foundation/driver/handle-types.js'
import { type Finding, Findings, isWarning, type SanitizerReport } from '../sanitizer/findings.js'
import { Stacks, type TakenStack } from '../sanitizer/operations.js'
import { SanitizerInterceptor } from '../sanitizer/sanitizer-interceptor.js'
import { Player } from './player.js'
import type { Reader } from './reader.js'

/** The stack that was taken when the call was recorded. */
class RecordedStacks extends Stacks {
  constructor(private readonly player: Player) {
    super('all')
  }

  override take(): TakenStack | undefined {
    const { stack, exact } = this.player.current
    return stack === '' ? undefined : { stack: indented(stack), exact, site: undefined }
  }

  override sample(): TakenStack | undefined {
    return this.take()
  }
}

/** The lines in the form of a stack: a line of text, and the frames below it. */
const indented = (lines: string): string => `\n${lines.replace(/^/gm, '    ')}`

/** Counts all pairs of operations that race, of which a report shows those of two lines once. */
class CountedFindings extends Findings {
  races = 0
  readsTooEarly = 0

  override add(findings: readonly Finding[], throws?: boolean): void {
    for (const finding of findings) {
      if (isWarning(finding.kind)) continue
      this.races += 1
      if (isReadOfWritten(finding)) this.readsTooEarly += 1
    }
    super.add(findings, throws)
  }
}

/** Whether the later operation needs what the earlier one writes. What JavaScript does with a view is not known. */
const isReadOfWritten = ({ first, second }: Finding): boolean =>
  first?.access !== 'in' && second.access !== 'out' && second.operation.kind !== 'free'

export interface Checked {
  readonly reports: readonly SanitizerReport[]
  /** The number of pairs of operations that race. */
  readonly races: number
  /** The number of those pairs in which one reads what the other writes: another buffer would not help them. */
  readonly readsTooEarly: number
  readonly calls: number
  /** Whether the recording is complete. If not, the process was ended before the recording was. */
  readonly isComplete: boolean
}

/** The check of a recording, which may grow meanwhile. */
export class Check {
  readonly findings = new CountedFindings({ mode: 'collect', fix: false, suppress: [], onReport: undefined })
  readonly #player: Player
  #finish = (): void => {}

  constructor(reader: Reader) {
    this.#player = new Player(reader, (next, self) => {
      const interceptor = new SanitizerInterceptor(next, this.findings, new RecordedStacks(self), false)
      const { detector } = interceptor
      this.#finish = () => {
        detector.reportHeld()
        detector.order.stop()
        detector.exchange.stop()
      }
      return {
        interceptor,
        named: (stream, name) => {
          detector.order.streams.at(stream).name = name
        },
        declared: ({ stream, memory, what }) => {
          detector.work(stream as StreamHandle, what, memory)
        },
        usedByHost: ({ what, memory }) => {
          detector.usedByHost(what, memory)
        },
      }
    })
  }

  /** Checks what the recording has by now. `skipped` has the numbers of waits that are left out, as if the program did not have them. */
  more(skipped?: ReadonlySet<number>): Promise<void> {
    return this.#player.play(skipped)
  }

  finish(): void {
    this.#finish()
  }
}

/** Checks a recording. `skipped` has the numbers of waits that are left out, as if the program did not have them. */
export async function checkRecording(reader: Reader, skipped?: ReadonlySet<number>): Promise<Checked> {
  const check = new Check(reader)
  await check.more(skipped)
  check.finish()
  const { reports, races, readsTooEarly } = check.findings
  return { reports, races, readsTooEarly, calls: reader.calls, isComplete: reader.isComplete }
}
