/** Looks for missing waits in a recording: the sanitizer follows its calls as it follows those of a program. */
import type { StreamHandle } from '../driver/driver.js'
import { Findings, type SanitizerReport } from '../sanitizer/findings.js'
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

/** As stacks are written: a line of text, and the frames below it. */
const indented = (lines: string): string => `\n${lines.replace(/^/gm, '    ')}`

export interface Checked {
  readonly reports: readonly SanitizerReport[]
  readonly calls: number
  /** False: the process was ended before the recording was. */
  readonly isComplete: boolean
}

/** `skipped`: the numbers of waits that are left out, as if the program did not have them. */
export async function checkRecording(reader: Reader, skipped: ReadonlySet<number> = new Set()): Promise<Checked> {
  const findings = new Findings({ mode: 'collect', fix: false, suppress: [], onReport: undefined })
  let finish = (): void => {}
  const player = new Player(reader, (next, self) => {
    const interceptor = new SanitizerInterceptor(next, findings, new RecordedStacks(self), false)
    const { detector } = interceptor
    finish = () => {
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
    }
  })
  await player.play(skipped)
  finish()
  return { reports: findings.reports, calls: reader.calls, isComplete: reader.isComplete }
}
