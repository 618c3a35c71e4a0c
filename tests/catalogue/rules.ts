/**
 * What a call may answer, by what it does and by what is captured at the time: the table "What a capture allows" of
 * docs/internals/cuda-facts.md, and those of docs/reference/graphs.md and docs/concepts/default-streams.md, line by line. Where nothing is captured a call
 * returns, unless `plain` says otherwise.
 *
 * A number is the CUresult of a CudaError; a LibraryError is called so; other errors are named by their code.
 */
import { type Hold, hasWorkBehind, isBehind, type Situation } from './axes.js'

export interface Answer {
  /** 'returns', or what it is refused with: a promise that rejects counts as refused. Any of these will do. */
  readonly outcomes: readonly string[]
  /** Is the capture invalidated by it? */
  readonly invalidates: 'no' | 'yes' | 'may'
}

export const RETURNS = 'returns'
const returns: Answer = { outcomes: [RETURNS], invalidates: 'no' }
/** The call is refused, and the capture goes on. */
export const refused = (...outcomes: readonly string[]): Answer => ({ outcomes, invalidates: 'no' })
/** The call is refused, and the capture ends with 901. */
const invalidating = (...outcomes: readonly string[]): Answer => ({ outcomes, invalidates: 'yes' })
/** The call is refused; what becomes of the capture is not promised. */
const mayInvalidate = (...outcomes: readonly string[]): Answer => ({ outcomes, invalidates: 'may' })

/** Where the answer depends on the mode of the capture: 'global' and 'threadLocal' are strict. */
interface ByMode {
  readonly strict: Answer
  readonly relaxed: Answer
}

interface Rule {
  readonly what: string
  /** Nothing is captured, or nothing that concerns the call. Default: returns. */
  readonly plain?: Answer
  /** The same on the null stream. */
  readonly plainNull?: Answer
  /** The call's stream captures. Default: returns. */
  readonly capturing?: Answer | ByMode
  /** The same where it is in a green context. Default: as `capturing`. */
  readonly capturingGreen?: Answer
  /** It is in a capture that is invalidated. Default: returns. */
  readonly invalidated?: Answer
  /** The call is about the null stream, and a blocking stream captures. Default: as `beside`. */
  readonly nullBesideBlocking?: Answer
  /** Any other stream captures. Default: as if nothing were captured. */
  readonly beside?: Answer | ByMode
}

/** To ask or to wait for what is not captured: CUDA calls it unsafe beside a strict capture. */
const unsafe: ByMode = { strict: invalidating('900'), relaxed: returns }
/** Whether a capture that is invalidated forbids unsafe calls still is not documented. */
const unsafeBesideInvalidated = refused('900', RETURNS)

const RULES = {
  makes: { what: 'makes, closes, wraps or describes something, which no capture minds' },
  queues: {
    what: 'puts work into the stream',
    invalidated: refused('901'),
    nullBesideBlocking: mayInvalidate('906'),
  },
  'queues by a library': {
    what: 'has cuBLAS or NCCL put work into the stream, whose errors are their own',
    invalidated: refused('901', 'LibraryError'),
    nullBesideBlocking: mayInvalidate('906', 'LibraryError'),
  },
  'queues a host function': {
    what: 'puts a host function into the stream: where that is refused, no capture is harmed',
    invalidated: refused('901'),
    nullBesideBlocking: refused('906'),
  },
  'queues a callback': {
    what: 'puts a callback into the stream, which cannot be captured',
    capturing: refused('900'),
    invalidated: refused('900'),
    nullBesideBlocking: refused('906'),
  },
  records: {
    what: 'records an event on the stream',
    invalidated: refused('901'),
    nullBesideBlocking: invalidating('906'),
  },
  'waits for the outside': {
    what: 'lets the stream wait for what was not captured',
    capturing: invalidating('905'),
    invalidated: refused('901'),
    nullBesideBlocking: invalidating('906'),
  },
  'waits for the inside': {
    what: 'lets the stream wait for an event that was recorded on it after the capture began, if there is one',
    invalidated: refused('901', '1'),
    nullBesideBlocking: invalidating('906'),
  },
  'waits for nothing': {
    what: 'lets the stream wait for an event that was never recorded, or for itself',
    invalidated: refused('901'),
    nullBesideBlocking: invalidating('906'),
  },
  'waits externally': {
    what: 'lets the stream wait with { external: true }, which is work of a graph',
    invalidated: refused('901'),
    nullBesideBlocking: mayInvalidate('906'),
  },
  asks: {
    what: 'asks how far the stream is',
    capturing: invalidating('900'),
    invalidated: refused('900'),
    nullBesideBlocking: invalidating('906'),
    beside: unsafe,
  },
  synchronizes: {
    what: 'waits for the stream, blocking',
    capturing: invalidating('900'),
    invalidated: refused('900'),
    nullBesideBlocking: mayInvalidate('906'),
    beside: unsafe,
  },
  promises: {
    what: 'promises the end of the stream by finished(), which invalidates no capture',
    capturing: refused('900'),
    invalidated: refused('900'),
    nullBesideBlocking: refused('906'),
  },
  'asks an outside event': {
    what: 'asks or waits for an event that was not recorded in a capture, whatever its stream',
    capturing: unsafe,
    invalidated: unsafeBesideInvalidated,
    beside: unsafe,
  },
  'asks an inside event': {
    what: 'asks or waits for an event that was recorded on the stream after the capture began, if there is one',
    capturing: invalidating('907'),
    invalidated: refused('1'),
    beside: unsafe,
  },
  'promises an inside event': {
    what: 'promises such an event by finished()',
    capturing: refused('907'),
    invalidated: refused('1'),
  },
  'waits for the device': {
    what: 'waits for the device, blocking: every capture there forbids it, in any mode, but for one in a green context',
    capturing: invalidating('900'),
    capturingGreen: returns,
    invalidated: refused('900'),
    beside: invalidating('900'),
  },
  'promises the device': {
    what: 'promises the end of the device by finished()',
    capturing: mayInvalidate('900'),
    capturingGreen: returns,
    invalidated: refused('900'),
    beside: mayInvalidate('900'),
  },
  'is told': {
    what: 'asks what the driver tells of a stream that captures, too; but not of the null stream while a blocking one does',
    nullBesideBlocking: refused('906'),
  },
  'works on the null stream': {
    what: 'has a library work on the null stream, where no blocking stream may capture: refused before, which no capture minds',
    nullBesideBlocking: refused('906'),
  },
  'waits for its device': {
    what: 'lets the stream wait for all work of its device, where a stream may capture',
    capturing: refused('900'),
    capturingGreen: invalidating('905'),
    invalidated: refused('900'),
    nullBesideBlocking: refused('900', '906'),
    beside: refused('900'),
  },
  allocates: {
    what: 'allocates in the order of the stream, and in a capture beside it, for the graph to keep, if there will be one',
    invalidated: refused('ERR_UNSUPPORTED'),
    nullBesideBlocking: refused('906'),
  },
  'is not captured': {
    what: 'moves an ordinary array, or waits for a promise, which cannot be captured',
    capturing: refused('ERR_UNSUPPORTED'),
    invalidated: refused('ERR_UNSUPPORTED'),
    nullBesideBlocking: refused('906'),
  },
  'adds a graph': {
    what: 'puts a graph into a capture as one node, and is refused where the stream does not capture',
    plain: refused('ERR_INVALID_ARG_TYPE'),
    capturing: returns,
    invalidated: refused('901'),
  },
  'launches a graph': {
    what: 'launches a graph',
    capturing: invalidating('900'),
    invalidated: refused('900'),
    nullBesideBlocking: mayInvalidate('906'),
  },
  'uploads a graph': {
    what: 'uploads a graph; the answer of the null stream while a blocking stream captures is not documented',
    capturing: invalidating('900'),
    invalidated: refused('900'),
    nullBesideBlocking: mayInvalidate('906', RETURNS),
  },
  'begins a capture': {
    what: 'begins a capture',
    plainNull: refused('900'),
    capturing: refused('401'),
    invalidated: refused('401'),
    nullBesideBlocking: mayInvalidate('906'),
  },
  'ends a capture': {
    what: 'ends a capture',
    plain: refused('401'),
    invalidated: refused('901'),
    nullBesideBlocking: mayInvalidate('906'),
  },
} satisfies Record<string, Rule>
/** What a call does, as far as captures are concerned. */
export type Act = keyof typeof RULES

export const whatItDoes = (act: Act): string => RULES[act].what

export function answerOf(act: Act, { stream, capture }: Situation): Answer {
  const rule: Rule = RULES[act]
  const plain = (stream === 'null' ? rule.plainNull : undefined) ?? rule.plain ?? returns
  if (capture === undefined) return plain
  const byMode = (answer: Answer | ByMode): Answer => {
    if ('outcomes' in answer) return answer
    return capture.mode === 'relaxed' ? answer.relaxed : answer.strict
  }
  if (capture.of === 'the stream') {
    if (capture.invalidated) return rule.invalidated ?? returns
    return (stream === 'green' ? rule.capturingGreen : undefined) ?? byMode(rule.capturing ?? returns)
  }
  if (stream === 'null' && capture.of === 'a blocking stream' && rule.nullBesideBlocking !== undefined) {
    return rule.nullBesideBlocking
  }
  return byMode(rule.beside ?? plain)
}

/** What a call blocks for, by its name or by the list in docs/reference/errors.md. Others never run a host function. */
export type Waits =
  /** All work of its stream. */
  | 'stream'
  /** An event that was recorded on the stream. */
  | 'event'
  /** All work of the device, or all host functions. */
  | 'everything'
  /** All work of the device on a GPU, which loads code; nothing on the simulator, where it is refused as it would be there. */
  | 'loading'
  /** It may block, and may return at once. */
  | 'perhaps'

/** What a call answers where the wait for everything can never end: in a host function, or while a stream waits for a promise. */
export function answerToNever(waits: Waits | undefined, answer: Answer): Answer {
  if (!answer.outcomes.includes(RETURNS)) return answer
  if (waits === 'everything' || waits === 'loading') return refused('ERR_DEADLOCK')
  return waits === 'perhaps' ? refused('ERR_DEADLOCK', RETURNS) : answer
}

/** Has the host function run when the call is back? */
export type Runs = 'no' | 'must' | 'may'

/**
 * C2 of the contract: only what blocks runs host functions. It runs those that it needs, or it could not end, and may run
 * those of any stream. A call that is refused has run none.
 */
export function runsDuring(waits: Waits | undefined, hold: Hold, { stream }: Situation, isRefused: boolean): Runs {
  if (waits === undefined || hold === 'nothing') return 'no'
  // A library may refuse after a while, in which host functions run.
  if (waits === 'perhaps' || waits === 'loading') return 'may'
  if (isRefused) return 'no'
  if (waits === 'everything') return 'must'
  if (waits === 'stream') return hasWorkBehind(hold, stream) ? 'must' : 'may'
  if (waits === 'event') return isBehind(hold, stream) ? 'must' : 'may'
  return 'may'
}
