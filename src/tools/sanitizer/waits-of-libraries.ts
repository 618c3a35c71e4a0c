/** The wait that a program in Python or C++ lacks, in the words of the library that has the streams: PyTorch, CuPy, or CUDA itself. */
import { streamInCode } from '../../core/stream-names.js'
import { isCompiled, isOfPackages, placeInPython } from '../../foundation/base/stack.js'
import { deviceOfDefaultStream, isDefaultStream, isNullStream } from '../../foundation/driver/handle-types.js'
import { type CheckedOperation, linesOf, type OperationStream, type TakenStack } from './operations.js'
import { isVisibleAt, type PythonVariable, pythonVariableMadeAt, sourceOf, variableUsedAt } from './python-variables.js'

type Library = 'PyTorch' | 'CuPy'
export type Language = 'Python' | 'C++'

/** The languages of whole processes, by the lines of an operation. Undefined: JavaScript, or no line is known. */
export function languageOf(
  ...operations: readonly (Pick<CheckedOperation, 'stack'> | undefined)[]
): Language | undefined {
  for (const operation of operations) {
    const [line] = linesOf(operation?.stack)
    if (line !== undefined) return placeInPython(line) === undefined ? (isCompiled(line) ? 'C++' : undefined) : 'Python'
  }
  return undefined
}

/** Work that a program has queued: where, and on which stream. */
type Queued = Pick<CheckedOperation, 'what' | 'stream' | 'stack'>

/** The line of the program that made a stream. PyTorch makes the streams of its pool together, of which the program asked for the first. */
const lineThatMade = (stream: OperationStream | undefined): string | undefined =>
  stream?.made === undefined || isOfPackages(stream.made.stack) ? undefined : linesOf(stream.made)[0]

/** A stream in code, and what the code does not say of it. */
interface NamedStream {
  readonly library: Library | undefined
  readonly code: string
  readonly note: string | undefined
}

/**
 * The sentence that says what to add.
 * @param awaited The operations to wait for, on streams of this process
 * @param before The place of the wait, such as 'before this copy'
 */
export function waitInLanguage(language: Language, awaited: readonly Queued[], second: Queued, before: string): string {
  const sentences = awaited.map((first) => {
    const [from, to] = namesOf(language, first, second)
    const notes = [from?.note, to?.note].filter((note) => note !== undefined)
    const where = notes.length === 0 ? '' : `, where ${notes.join(' and ')}`
    return `${codeOf(language, first, from, to, before)}${where}.`
  })
  return sentences.join(' ')
}

function codeOf(
  language: Language,
  first: Queued,
  from: NamedStream | undefined,
  to: NamedStream | undefined,
  before: string,
): string {
  const isClosed = first.stream?.closed === true
  if (language === 'Python' && from?.library !== undefined && (to === undefined || to.library !== undefined)) {
    if (to === undefined) return `Add \`${from.code}.synchronize()\` ${before}`
    if (to.library === 'CuPy' && from.library === 'CuPy') {
      if (!isClosed) return `Add \`${to.code}.wait_event(${from.code}.record())\` ${before}`
      return `Add \`done = ${from.code}.record()\` before that stream is gone, and \`${to.code}.wait_event(done)\` ${before}`
    }
    return `Add \`${inPyTorch(to)}.wait_stream(${inPyTorch(from)})\` ${before}`
  }
  const after = `after that ${first.what}`
  if (to === undefined) return `Add \`cudaStreamSynchronize(${from?.code})\` ${before}`
  return `Add \`cudaEventRecord(event, ${from?.code})\` ${after}, and \`cudaStreamWaitEvent(${to.code}, event)\` ${before}`
}

/** The stream as an object of PyTorch. */
const inPyTorch = ({ library, code }: NamedStream): string =>
  library === 'PyTorch' ? code : `torch.cuda.ExternalStream(${code}.ptr)`

function namesOf(
  language: Language,
  first: Queued,
  second: Queued,
): readonly [NamedStream | undefined, NamedStream | undefined] {
  const { stream: from } = first
  const { stream: to } = second
  if (language === 'C++') return [from && handleOf(from, undefined), to && handleOf(to, undefined)]
  // Who made a null stream is nobody: it is that of the library which uses it, or of the one on the other side.
  const libraries = [libraryOf(first), libraryOf(second)] as const
  const ofFirst = libraries[0] ?? (isNull(from) ? libraries[1] : undefined)
  const ofSecond = libraries[1] ?? (isNull(to) ? libraries[0] : undefined)
  if (ofFirst === undefined || (to !== undefined && ofSecond === undefined)) {
    return [from && handleOf(from, noteOf(first)), to && handleOf(to, noteOf(second))]
  }
  const [one, other] = [variableOf(first, second), variableOf(second, second)]
  const isShared = one.known !== undefined && one.known.name === other.known?.name
  return [
    from && nameIn(ofFirst, from, first, isShared ? undefined : one.usable, one.known),
    to && ofSecond && nameIn(ofSecond, to, second, isShared ? undefined : other.usable, other.known),
  ]
}

const isNull = (stream: OperationStream | undefined): boolean => stream !== undefined && isDefaultStream(stream.handle)

/** The stream as an argument of CUDA's own functions. */
function handleOf(stream: OperationStream, note: string | undefined): NamedStream {
  const { handle, label } = stream
  if (isNull(stream)) {
    const code = isNullStream(handle) ? 'cudaStreamLegacy' : 'cudaStreamPerThread'
    return { library: undefined, code, note: undefined }
  }
  return { library: undefined, code: streamInCode(label), note: note && `\`${streamInCode(label)}\` is ${note}` }
}

function nameIn(
  library: Library,
  stream: OperationStream,
  operation: Queued,
  usable: PythonVariable | undefined,
  known: PythonVariable | undefined,
): NamedStream {
  if (isNull(stream)) return { library, code: defaultStreamIn(library, stream), note: undefined }
  if (usable !== undefined) return { library, code: usable.name, note: undefined }
  const code = streamInCode(stream.label)
  const note = known === undefined ? noteOf(operation) : `\`${known.name}\` of ${fileOf(known.path)}:${known.row}`
  return { library, code, note: note && `\`${code}\` is ${note}` }
}

function defaultStreamIn(library: Library, { handle }: OperationStream): string {
  const device = deviceOfDefaultStream(handle)
  if (library === 'PyTorch') return `torch.cuda.default_stream(${device === 0 ? '' : device})`
  return isNullStream(handle) ? 'cupy.cuda.Stream.null' : 'cupy.cuda.Stream.ptds'
}

/** The description of a stream that has no name in the program. */
function noteOf({ stream, stack, what }: Queued): string | undefined {
  const made = lineThatMade(stream)
  const madeAt = made === undefined ? undefined : placeInPython(made)
  if (madeAt !== undefined) return `the stream made at ${fileOf(madeAt.path)}:${madeAt.row}`
  const [line] = linesOf(stack)
  const usedAt = line === undefined ? undefined : placeInPython(line)
  return usedAt === undefined ? undefined : `the stream of the ${what} at ${fileOf(usedAt.path)}:${usedAt.row}`
}

const fileOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

/** The variable of an operation's stream, and whether it can be named where the second operation is queued. */
function variableOf(
  operation: Queued,
  second: Queued,
): { readonly known: PythonVariable | undefined; readonly usable: PythonVariable | undefined } {
  const made = lineThatMade(operation.stream)
  const [own, ...callers] = linesOf(operation.stack)
  const [place, ...itsCallers] = linesOf(second.stack)
  const known = pythonVariableMadeAt(made) ?? variableUsedAt(own, made)
  if (known === undefined || !isVisibleAt(known, place)) return { known, usable: undefined }
  // A local variable of another call of the function has another stream.
  const isOneCall = operation === second || known.owner === 0 || callers.join('\n') === itsCallers.join('\n')
  return { known, usable: isOneCall ? known : undefined }
}

/** A line of PyTorch, which a folder of the program with that name is not, and of Triton, whose kernels run on PyTorch's streams. */
export const IN_PYTORCH = /-packages\/(?:torch|triton)\/|\/torch\/cuda\/streams\.py:/
const IN_CUPY = /-packages\/cupy(?:x|_backends)?\//
/** The line that makes a stream of CuPy, which compiled code without lines of its own does. */
const MAKES_STREAM_OF_CUPY = /\b(?:cupy|cp)\.cuda\.(?:External)?Stream\(/

/** The library of an operation's stream: the one that made it, else the one that uses it. */
function libraryOf({ stream, stack, what }: Queued): Library | undefined {
  if (!isNull(stream)) {
    const library = libraryIn(stream?.made)
    if (library !== undefined) return library
    if (MAKES_STREAM_OF_CUPY.test(sourceOf(lineThatMade(stream)))) return 'CuPy'
  }
  const named = / of (PyTorch|CuPy)$/.exec(what)?.[1]
  return named === 'PyTorch' || named === 'CuPy' ? named : libraryIn(stack)
}

function libraryIn(stack: TakenStack | undefined): Library | undefined {
  if (stack === undefined) return undefined
  return IN_PYTORCH.test(stack.stack) ? 'PyTorch' : IN_CUPY.test(stack.stack) ? 'CuPy' : undefined
}
