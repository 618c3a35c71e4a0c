/**
 * Frames go through three stages on three streams. The first and the last stream belong to another library, as a
 * decoder's and an encoder's do; the one in the middle is ours. Events let a stage of a frame start when the stage
 * before it is done, and a host function tells when the frame is.
 */
import { type Event, ExternalStream, type Stream } from 'cuda-streams'
import type { Workbench } from '../../tests/helpers/workbench.js'

export interface Stage {
  readonly name: string
  readonly stream: Stream
  readonly nanoseconds: number
}

/** How the stages are joined: by events, by nothing, on one stream, or by the host. */
export type Ordering = 'events' | 'nothing' | 'one stream' | 'synchronize()'

export interface Run {
  readonly ordering: Ordering
  readonly frames: number
  /** Frames in which every stage began after the one before it had ended, and whose host function ran in turn. */
  readonly inOrder: number
  /** From the first call to the end of the last frame. */
  readonly milliseconds: number
}

interface Marks {
  readonly begin: Event
  readonly end: Event
}

export function openStages(bench: Workbench): readonly Stage[] {
  const theirs = (): Stream => new ExternalStream(bench.foreignStream(bench.device))
  return [
    { name: 'decode (theirs)', stream: theirs(), nanoseconds: 600_000 },
    { name: 'enhance (ours)', stream: bench.stream(), nanoseconds: 900_000 },
    { name: 'encode (theirs)', stream: theirs(), nanoseconds: 700_000 },
  ]
}

/** Sends frames through the stages and checks the order that the GPU took. `clock` gives milliseconds. */
export async function runPipeline(
  bench: Workbench,
  stages: readonly Stage[],
  ordering: Ordering,
  frames: number,
  clock: () => number,
  onFrame: (frame: number) => void = () => {},
): Promise<Run> {
  const marks: Marks[][] = []
  const finished: number[] = []
  const started = clock()
  for (let frame = 0; frame < frames; frame += 1) {
    marks.push(queueFrame(bench, stages, ordering))
    lastStream(stages, ordering).launchHostFunc(() => {
      finished.push(frame)
      onFrame(frame)
    })
  }
  await Promise.all(stages.map((stage) => stage.stream.finished()))
  const milliseconds = clock() - started
  const inOrder = marks.filter((stagesOfFrame, frame) => isOrdered(stagesOfFrame) && finished[frame] === frame).length
  for (const { begin, end } of marks.flat()) {
    begin.close()
    end.close()
  }
  return { ordering, frames, inOrder, milliseconds }
}

function queueFrame(bench: Workbench, stages: readonly Stage[], ordering: Ordering): Marks[] {
  const marks: Marks[] = []
  let before: Marks | undefined
  for (const stage of stages) {
    const stream = ordering === 'one stream' ? lastStream(stages, ordering) : stage.stream
    if (ordering === 'events' && before !== undefined) stream.wait(before.end)
    const begin = stream.record({ timing: true })
    bench.busy(stream, stage.nanoseconds)
    const end = stream.record({ timing: true })
    if (ordering === 'synchronize()') stream.synchronize()
    before = { begin, end }
    marks.push(before)
  }
  return marks
}

function lastStream(stages: readonly Stage[], ordering: Ordering): Stream {
  const stage = ordering === 'one stream' ? stages[1] : stages.at(-1)
  if (stage === undefined) throw new Error('a pipeline has stages')
  return stage.stream
}

function isOrdered(stages: readonly Marks[]): boolean {
  return stages.every((stage, index) => {
    const before = stages[index - 1]
    return before === undefined || stage.begin.elapsedSince(before.end) >= 0
  })
}
