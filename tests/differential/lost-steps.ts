/** The steps of a program whose device has faulted: each says what its call throws. */
import { mix } from './kernel.js'
import { outcome, SKIPPED } from './outcome.js'
import type { Stage } from './stage.js'
import { pick, type Step } from './steps.js'

export interface LostParts {
  /** Is called by a host function that runs, which none may. */
  readonly ran: () => void
  readonly follow: (promise: Promise<unknown>) => string
}

export function lostStep(step: Step, stage: Stage, { ran, follow }: LostParts): string {
  switch (step.what) {
    case 'host':
      return outcome(() => void stage.stream(step.stream).launchHostFunc(ran))
    case 'callback':
      return outcome(() => void stage.stream(step.stream).addCallback(ran, 0))
    case 'record':
      return outcome(() => void stage.stream(step.stream).record(stage.event(step.event)))
    case 'wait':
      return outcome(() => void stage.stream(step.stream).wait(stage.event(step.event)))
    case 'waitStream':
      return outcome(() => void stage.stream(step.stream).wait(stage.stream(step.other)))
    case 'fill':
      return outcome(() => void stage.stream(step.stream).fill(stage.buffer(step.buffer), 0))
    case 'copy':
      return outcome(() => void stage.stream(step.stream).copy(stage.buffer(step.buffer), stage.buffer(step.source)))
    case 'mix': {
      const [to, by] = [stage.buffer(step.buffer), stage.buffer(step.source)]
      return outcome(() => void stage.stream(step.stream).launch(mix, { grid: 1, block: 1 }, to, by, step.rounds))
    }
    case 'queryStream':
      return outcome(() => stage.stream(step.stream).query())
    case 'queryEvent':
      return outcome(() => stage.event(step.event).query())
    case 'synchronizeStream':
      return outcome(() => stage.stream(step.stream).synchronize())
    case 'synchronizeEvent':
      return outcome(() => stage.event(step.event).synchronize())
    case 'synchronizeDevice':
      return outcome(() => pick(stage.devices, step.device).synchronize())
    case 'finishedStream':
      return follow(stage.stream(step.stream).finished())
    case 'finishedEvent':
      return follow(stage.event(step.event).finished())
    case 'download':
      return follow(stage.stream(step.stream).download(stage.buffer(step.buffer)))
    case 'closeStream':
      return outcome(() => stage.stream(step.stream).close())
    case 'closeEvent':
      return outcome(() => stage.event(step.event).close())
    case 'closeBuffer':
      return outcome(() => stage.buffer(step.buffer).close())
    default:
      return SKIPPED
  }
}
