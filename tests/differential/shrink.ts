/** Makes a program that shows something shorter, as long as it still does. */
import type { Program, Step } from './steps.js'

export async function shrink(program: Program, shows: (shorter: Program) => Promise<boolean>): Promise<Program> {
  let best = program
  for (let part = best.steps.length >> 1; part >= 1; part >>= 1) best = await withoutParts(best, part, shows)
  for (let before = -1; before !== best.steps.length; ) {
    before = best.steps.length
    best = await withoutParts(best, 1, shows)
  }
  for (const [index, step] of best.steps.entries()) {
    if ('body' in step) best = await withShorterBody(best, index, shows)
  }
  for (const simpler of simplerOnes) {
    const next = simpler(best)
    if (await shows(next)) best = next
  }
  return best
}

/** Without as many runs of so many steps as can be spared, the last first. */
async function withoutParts(
  program: Program,
  length: number,
  shows: (p: Program) => Promise<boolean>,
): Promise<Program> {
  let best = program
  for (let at = best.steps.length - length; at >= 0; at -= length) {
    const next = { ...best, steps: best.steps.toSpliced(at, length) }
    if (await shows(next)) best = next
  }
  return best
}

async function withShorterBody(
  program: Program,
  at: number,
  shows: (p: Program) => Promise<boolean>,
): Promise<Program> {
  let best = program
  for (;;) {
    const step: Step | undefined = best.steps[at]
    if (step === undefined || !('body' in step)) return best
    const shorter = step.body.map((_, index) => {
      return { ...best, steps: best.steps.with(at, { ...step, body: step.body.toSpliced(index, 1) }) }
    })
    let found: Program | undefined
    for (const next of shorter) if (found === undefined && (await shows(next))) found = next
    if (found === undefined) return best
    best = found
  }
}

const simplerOnes: readonly ((program: Program) => Program)[] = [
  (program) => ({ ...program, ending: 'blocking' }),
  (program) => ({ ...program, streams: program.streams.map((stream) => ({ ...stream, priority: 0 })) }),
  (program) => ({
    ...program,
    streams: program.streams.map((stream) => (stream.origin === 'foreign' ? { ...stream, origin: 'own' } : stream)),
  }),
  (program) => ({
    ...program,
    streams: program.streams.map((stream) => {
      return stream.origin === 'foreignBlocking' ? { ...stream, origin: 'ownBlocking' } : stream
    }),
  }),
]
