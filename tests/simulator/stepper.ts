/**
 * An inspector's client in a thread of its own: it stops the main thread at a line of a file, as Chrome and VS Code do, steps on from there, and tells
 * at which lines it has been. It finds lines by the source maps of the code alone.
 */
import { type Debugger, type InspectorNotification, type Runtime, Session } from 'node:inspector'
import { parentPort, workerData } from 'node:worker_threads'

/** What the client is to do. */
export interface Steps {
  /** The end of the file's URL. */
  readonly file: string
  /** The line of the breakpoint, from 1 on. */
  readonly line: number
  /** The condition of the breakpoint in the words of the run time. Default: it stops always. */
  readonly condition?: string
  /** The number of steps from there. */
  readonly steps: number
}

/** A place at which the client has stopped. */
export interface Seen {
  readonly file: string
  readonly line: number
  /** The text of the line, as the source map has it. */
  readonly text: string
  readonly fn: string
  /** The locals of WebAssembly that have these names: text as an inspector shows it. */
  readonly locals: Readonly<Record<string, string>>
}

interface Mapped {
  readonly column: number
  readonly source: number | undefined
  readonly line: number
}

interface SourceMap {
  readonly sources: readonly string[]
  readonly sourcesContent: readonly string[]
  readonly mappings: string
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/** The numbers of a segment of a source map. */
function numbersOf(segment: string): readonly number[] {
  const numbers: number[] = []
  let [value, shift] = [0, 0]
  for (const digit of segment) {
    const bits = DIGITS.indexOf(digit)
    value += (bits & 31) << shift
    shift += 5
    if ((bits & 32) !== 0) continue
    numbers.push((value & 1) === 1 ? -(value >> 1) : value >> 1)
    value = 0
    shift = 0
  }
  return numbers
}

function segmentsOf({ mappings }: SourceMap): readonly Mapped[] {
  let [column, source, line] = [0, 0, 0]
  return mappings.split(',').map((segment) => {
    const [columns = 0, sources, lines = 0] = numbersOf(segment)
    column += columns
    if (sources === undefined) return { column, source: undefined, line: 0 }
    source += sources
    line += lines
    return { column, source, line: line + 1 }
  })
}

const { file, line, condition, steps } = workerData as Steps
const session = new Session()
const maps = new Map<string, { readonly map: SourceMap; readonly segments: readonly Mapped[] }>()
const seen: Seen[] = []

function post<R>(method: string, parameters: object = {}): Promise<R> {
  return new Promise((resolve, reject) => {
    session.post(method, parameters, (error, result) => {
      if (error === null) resolve(result as R)
      else reject(error)
    })
  })
}

/** Where code of WebAssembly is in its source. */
function placeOf({ scriptId, columnNumber = 0 }: Debugger.Location): Omit<Seen, 'fn' | 'locals'> | undefined {
  const known = maps.get(scriptId)
  const segment = known?.segments.findLast(({ column }) => column <= columnNumber)
  if (known === undefined || segment?.source === undefined) return undefined
  const { sources, sourcesContent } = known.map
  const text = sourcesContent[segment.source]?.split('\n')[segment.line - 1]?.trim() ?? ''
  return { file: sources[segment.source] ?? '', line: segment.line, text }
}

/** Sets the breakpoint in a module of WebAssembly: at each place where code of the line begins. */
async function setBreakpoints(scriptId: string): Promise<void> {
  const { map, segments } = maps.get(scriptId) ?? { map: { sources: [] }, segments: [] }
  for (const segment of segments) {
    if (segment.line !== line || !map.sources[segment.source ?? -1]?.endsWith(file)) continue
    const location = { scriptId, lineNumber: 0, columnNumber: segment.column }
    await post('Debugger.setBreakpoint', { location, condition })
  }
}

async function localsOf({ scopeChain }: Debugger.CallFrame): Promise<Record<string, string>> {
  const locals = scopeChain.find(({ type }) => type === 'local')
  const { result } = await post<Runtime.GetPropertiesReturnType>('Runtime.getProperties', {
    objectId: locals?.object.objectId,
  })
  const values: Record<string, string> = {}
  for (const { name, value } of result) {
    if (value?.objectId === undefined) continue
    const parts = await post<Runtime.GetPropertiesReturnType>('Runtime.getProperties', { objectId: value.objectId })
    values[name] = String(parts.result.find((each) => each.name === 'value')?.value?.description)
  }
  return values
}

async function paused({ reason, callFrames }: Debugger.PausedEventDataType): Promise<void> {
  const [frame] = callFrames
  if (frame === undefined) return
  if (String(reason) === 'instrumentation') {
    await setBreakpoints(frame.location.scriptId)
    await post('Debugger.resume')
    return
  }
  const place = placeOf(frame.location)
  const last = seen.at(-1)
  // As inspectors do, it goes on until another line of the source is reached.
  if (place !== undefined && place.line !== last?.line) {
    seen.push({ ...place, fn: frame.functionName, locals: await localsOf(frame) })
  }
  if (seen.length <= steps) {
    await post('Debugger.stepOver')
    return
  }
  await post('Debugger.setSkipAllPauses', { skip: true })
  await post('Debugger.resume')
}

function fail(error: unknown): void {
  // The main thread may be stopped, and must not stay so.
  session.disconnect()
  throw error
}

// A session alone does not keep a thread.
parentPort?.once('message', () => {
  parentPort?.postMessage(seen)
  parentPort?.close()
})
session.connectToMainThread()
session.on('Debugger.scriptParsed', ({ params }: InspectorNotification<Debugger.ScriptParsedEventDataType>) => {
  const { scriptId, sourceMapURL = '', url } = params
  const [, json] = /^data:application\/json;base64,(.*)$/.exec(sourceMapURL) ?? []
  if (!url.startsWith('wasm:') || json === undefined) return
  const map = JSON.parse(Buffer.from(json, 'base64').toString()) as SourceMap
  maps.set(scriptId, { map, segments: segmentsOf(map) })
})
session.on('Debugger.paused', ({ params }) => void paused(params).catch(fail))
await post('Debugger.enable')
await post('Debugger.setInstrumentationBreakpoint', { instrumentation: 'beforeScriptWithSourceMapExecution' })
parentPort?.postMessage('ready')
