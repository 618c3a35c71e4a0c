/** GPU work as OpenTelemetry spans. `@opentelemetry/api` is the program's own: this package only speaks to a tracer of it. */
import { type Context, context, SpanKind, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api'
import { readOptions } from '../../foundation/base/arguments.js'
import { invalidType } from '../../foundation/base/errors.js'
import { channel, subscribe, unsubscribe } from '../../foundation/base/node-modules.js'
import { type OperationMessage, type Publisher, type PublishOptions, publishOn } from './channels.js'

/** The options that say which operations get spans, and which tracer makes them. */
export interface TraceOptions extends PublishOptions {
  /** The tracer that makes the spans. Default: `trace.getTracer('cuda-streams')`. */
  readonly tracer?: Tracer | undefined
}

/**
 * Gives a span to each operation of streams: kernels, copies, fills, host functions, graphs. A span begins and ends
 * with the operation itself, and is made a while later, as messages of `publish()` are. Its parent is the span that was
 * active when the operation was queued. Close the result to stop.
 * @param options `tracer` (default: `trace.getTracer('cuda-streams')`), `device` of the driver (default: the current
 * device) and `interval` in milliseconds (default 100)
 * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for the interval, or a device that does not exist
 */
export function traceOperations(options?: TraceOptions): Publisher {
  const given = readOptions(options, ['tracer', 'device', 'interval'])
  const { tracer = trace.getTracer('cuda-streams'), device, interval } = given
  if (typeof tracer !== 'object' || tracer === null || typeof Reflect.get(tracer, 'startSpan') !== 'function') {
    throw invalidType('options.tracer', 'a Tracer of @opentelemetry/api', tracer)
  }
  // A channel of its own is used: other publishers use the public channel, for other drivers.
  const own = Symbol('cuda-streams:operation')
  const publisher = publishOn(
    { operations: channel(own), synchronizations: undefined, context: () => context.active() },
    { device, interval },
  )
  const listener = (message: unknown): void => addSpan(tracer, message as TracedMessage)
  subscribe(own, listener)
  const close = (): void => {
    publisher.close()
    unsubscribe(own, listener)
  }
  return { flush: () => publisher.flush(), close, [Symbol.dispose]: close }
}

/** A message with the context in which its operation was queued. */
interface TracedMessage extends OperationMessage {
  readonly context: Context
}

function addSpan(tracer: Tracer, message: TracedMessage): void {
  const { kind, name, device, stream, streamName, byteLength, queued, start, end, driver } = message
  const attributes = {
    'cuda.operation': kind,
    'cuda.device': device,
    'cuda.stream': String(stream),
    'cuda.stream.name': streamName,
    'cuda.driver': driver,
    'cuda.queued_ms_before': start - queued,
    ...(byteLength === undefined ? {} : { 'cuda.bytes': byteLength }),
  }
  const span = tracer.startSpan(name, { kind: SpanKind.INTERNAL, startTime: start, attributes }, message.context)
  if (kind === 'fault') span.setStatus({ code: SpanStatusCode.ERROR, message: 'the GPU faulted' })
  span.end(end)
}
