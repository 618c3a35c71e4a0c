/**
 * NVRTC refuses what nvcc gives to the compiler of the host. What remains of that beside the kernels is left out of the next attempt, and
 * only what the compiler says in the end is told.
 */
import type { DeviceSources } from './device-source.js'
import { type CuDiagnostic, diagnostic, diagnosticsIn } from './diagnostics.js'
import { LeftOut, type Piece, type SourceKernel } from './found-in-sources.js'
import { positionOf } from './source-text.js'

/** A file has seldom mistakes in so many layers. */
const MOST_ATTEMPTS = 12
const LAUNCH_WITHIN = /kernel launch/
const IS_UNKNOWN =
  /^(?:identifier "[^"]+" is undefined|namespace "[^"]+" has no (?:tag )?member|class "[^"]+" has no member|name followed by "::" must be a class|[^\n]* is not a template|qualified name is not allowed)/
/** What the compiler says of what a name that it does not know is given to. */
const IS_GIVEN_UNKNOWN = /<error-type>/
/** What the compiler says behind a name that it does not know, because of that. */
const FOLLOWS =
  /^attribute "__global__" does not apply here|^A namespace scope variable without|^incomplete type "void" is not allowed|^expected a ";"|^expected a "\)"|^this declaration has no storage class|^expected a declaration/

/** A mistake with its place in the source. */
interface Located {
  readonly file: string
  readonly offset: number
  readonly added: ReturnType<DeviceSources['addedIn']>
  readonly said: CuDiagnostic
}

/** A kernel, or an instance of one, that the compiler refuses by itself. */
interface RefusedKernel {
  readonly kernel: Omit<SourceKernel, 'probe'>
  readonly why: string
}

export class Attempts {
  readonly leftOut = new LeftOut()
  /** Instances of kernels that cannot be made. */
  readonly refused: RefusedKernel[] = []
  /** Kernels that are left out, since they launch others. */
  readonly launching: CuDiagnostic[] = []
  /** What was said of declarations that are left out, with their texts. */
  readonly #causes: { readonly text: string; readonly said: CuDiagnostic }[] = []
  #count = 0

  /** Leaves out what the compiler refuses and the kernels may not need. Returns whether there is anything of that. */
  goOn(log: string, sources: DeviceSources, names: NamesOfFiles): boolean {
    this.#count += 1
    const before = this.leftOut.size
    for (const each of located(log, sources, names)) {
      for (const added of each.added) {
        this.leftOut.add(added)
        if (added.kernel !== undefined) this.refused.push({ kernel: added.kernel, why: firstLine(each.said) })
      }
      if (each.added.length > 0) continue
      const piece = dispensable(each, sources)
      if (piece === undefined) continue
      this.leftOut.add(piece)
      if (piece.isKernel) this.launching.push(each.said)
      const text = sources.textOf(piece.file).slice(piece.start, piece.end)
      this.#causes.push({ text: text.replace(/[{=][\s\S]*/, ''), said: each.said })
    }
    return this.leftOut.size > before && this.#count < MOST_ATTEMPTS
  }

  /** What is told in the end, the true mistakes first. */
  mistakes(log: string, sources: DeviceSources, names: NamesOfFiles): readonly CuDiagnostic[] {
    const all = located(log, sources, names)
    const written = all.filter(({ added }) => added.length === 0)
    const kept = withoutFollowing(written.length > 0 ? written : all, sources).map(({ said }) => said)
    const causes = kept.flatMap(({ message }) => {
      const [, name] = /^identifier "(\w+)" is undefined/.exec(message) ?? []
      const cause =
        name === undefined ? undefined : this.#causes.find(({ text }) => new RegExp(`\\b${name}\\b`).test(text))
      return cause === undefined ? [] : [cause.said]
    })
    return [...new Set([...causes, ...kept])]
  }
}

/** The files that the compiler's names mean. */
export interface NamesOfFiles {
  /** The file that is compiled. */
  readonly main: string
  readonly fileOf: (name: string) => string
}

const firstLine = ({ message }: CuDiagnostic): string => message.split('\n')[0] ?? ''

function located(log: string, sources: DeviceSources, { main, fileOf }: NamesOfFiles): readonly Located[] {
  return diagnosticsIn(log, main, fileOf).map((said): Located => {
    const { file, line, column, message } = said
    const origin = sources.originOf(file, { line, column: Math.max(1, column) })
    if (origin === undefined) {
      // It is in a header of the compiler, which something in the source has used.
      const used = [...message.matchAll(/at line (\d+)(?: of "?([^\s"]+)"?)?/g)].at(-1)
      const user = fileOf(used?.[2] ?? '')
      const added = used === undefined ? [] : sources.addedIn(user, Number(used[1]))
      return { file, offset: 0, added: isPrelude(file) ? added : [], said }
    }
    const text = sources.textOf(file)
    const place = column === 0 ? { line, column } : positionOf(text, origin.offset)
    const added = origin.added === undefined ? [] : [origin.added]
    return { file, offset: origin.offset, added, said: diagnostic(file, text, place, message) }
  })
}

export const PRELUDE = 'cuda_streams_prelude.h'
const isPrelude = (file: string): boolean => file.endsWith(PRELUDE)

/** What of a declaration the kernels may not need, of those around a mistake. */
function dispensable({ file, offset, said }: Located, sources: DeviceSources): Piece | undefined {
  const piece = sources.pieceAt(file, offset)
  if (piece === undefined || /^static assertion failed/.test(said.message)) return undefined
  if (piece.isKernel && LAUNCH_WITHIN.test(said.message)) return piece
  // Without a member a struct would lie otherwise.
  const whole =
    piece.audience === 'member' ? sources.pieceAt(file, offset, ({ audience }) => audience !== 'member') : piece
  return whole?.audience === 'host' || whole?.audience === 'both' ? whole : undefined
}

/** The mistakes without those that the compiler finds only because of another one in the same declaration. */
function withoutFollowing(all: readonly Located[], sources: DeviceSources): readonly Located[] {
  const groups = new Map<unknown, Located[]>()
  for (const each of all) {
    const piece = sources.pieceAt(each.file, each.offset)
    const key = piece === undefined ? `${each.file}:${each.said.line}` : `${piece.file}:${piece.start}`
    groups.set(key, [...(groups.get(key) ?? []), each])
  }
  return [...groups.values()].flatMap((group) => {
    const unknown = group.find(({ said }) => IS_UNKNOWN.test(said.message))
    if (unknown === undefined) return group
    // A kernel whose head is not understood is taken for a variable, and its parameters are unknown.
    if (group.some(({ said }) => said.message.startsWith('attribute "__global__" does not apply'))) return [unknown]
    return group.filter(
      ({ offset, said: { message } }) =>
        !IS_GIVEN_UNKNOWN.test(message) && (offset < unknown.offset || !FOLLOWS.test(message)),
    )
  })
}
